"""Errors of what several sessions do together: agents that are spawned, workflows, boards.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .call_errors import SpecValidationError
from .errors import RetryLaterError, UsageError

if TYPE_CHECKING:
    from .spec_shape import Problem


class AgentSpecError(SpecValidationError):
    """An agent spec is not valid; every problem is listed with its path, and nothing was started."""

    code = "spec.agent"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.listed = tuple(problems)
        """The problems with path and message apart, in the order of the spec."""
        super().__init__("agent spec", [str(one) for one in problems])


class WorkflowSpecError(SpecValidationError):
    """A workflow spec is not valid; every problem is listed with its path, and nothing was started."""

    code = "spec.workflow"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.listed = tuple(problems)
        """The problems with path and message apart, in the order of the spec."""
        super().__init__("workflow spec", [str(one) for one in problems])


class SpawnRefusedError(UsageError):
    """An agent cannot be started, or it is none of this session's; nothing was started."""

    code = "spawn.refused"

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r}: {why}")


class ChildTimedOutError(UsageError):
    """An agent took longer than its spec allows; it was stopped, and what it did so far is in its journal."""

    code = "spawn.timed_out"

    def __init__(self, child_id: str, limit_s: float) -> None:
        self.child_id = child_id
        self.limit_s = limit_s
        super().__init__(f"agent {child_id!r} took longer than the {limit_s:g} s it may (timeout_s of its spec)")


class BoardFullError(UsageError):
    """A board holds as many entries as its policy allows; nothing was stored."""

    code = "board.full"

    def __init__(self, board_id: str, count: int, limit: int) -> None:
        self.board_id = board_id
        self.count = count
        self.limit = limit
        super().__init__(
            f"board {board_id!r} holds {count} entries and {limit} are allowed; nothing was stored;"
            " remove or update entries that are there"
        )


class BoardEntryError(UsageError):
    """An entry of a board is not as the caller thinks, or cannot be stored as it is; nothing was changed."""

    code = "board.entry"

    def __init__(self, board_id: str, entry_id: int | None, why: str, current: int | None = None) -> None:
        self.board_id = board_id
        self.entry_id = entry_id
        self.current = current
        """The version that the entry has; None when that is not what is wrong, or it is gone."""
        which = f"entry {entry_id} of board" if entry_id is not None else "board"
        now = f" (its version is {current})" if current is not None else ""
        super().__init__(f"{which} {board_id!r}: {why}{now}; nothing was changed")


class RenderedTooLargeError(UsageError):
    """A template became larger than a rendered text may be; it was not rendered to its end and nothing was started."""

    code = "workflow.rendered_too_large"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Characters that it may have."""
        super().__init__(
            f"a rendered template has more than {limit:,} characters; refer to parts of the outputs ({{{{node.key}}}}),"
            " or let the nodes before give less"
        )


class WorkflowRunError(UsageError):
    """What was asked of a workflow run cannot be; nothing was changed."""

    code = "workflow.run"

    def __init__(self, run_id: str, why: str) -> None:
        self.run_id = run_id
        super().__init__(f"{run_id!r}: {why}")


class TooManyLeavesError(UsageError):
    """A workflow run would start more steps than it may, or passes by more than it may; the step was not started.

    When it comes of what was passed by (skipped, refused or decided), the run has failed with this code.
    """

    code = "workflow.too_many_leaves"

    def __init__(self, run_id: str, most: int, passed: int | None = None) -> None:
        self.run_id = run_id
        self.most = most
        has = "and has" if passed is None else f"and has skipped, refused or decided {passed:,}"
        super().__init__(f"run {run_id!r} may start {most:,} steps, {has}; give it fewer items, or raise max_leaves")


class LeafElsewhereError(RetryLaterError):
    """A step of the run is under way and its journal is in another place than this loop's executor looks; nothing was taken."""

    code = "leaf.elsewhere"

    def __init__(self, run_id: str, path: str, leaf_id: str, place: str, here: str) -> None:
        self.run_id = run_id
        self.path = path
        """The step."""
        self.leaf_id = leaf_id
        """Its session."""
        self.place = place
        """Where its journal is, as executors name it; "" for the store of the run."""
        self.here = here
        """Where the executor of this loop has the journals of its leaves."""
        super().__init__(
            f"run {run_id!r}: step {path!r} is under way and the journal of its session {leaf_id!r} is in {_named(place)},"
            f" while this loop looks in {_named(here)}; continue the run in a loop whose executor has its leaves there,"
            " or abort_pending()"
        )


def _named(place: str) -> str:
    return repr(place) if place else "the store of the run"
