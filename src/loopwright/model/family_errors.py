"""Errors of what several sessions do together: agents that are spawned, workflows, boards.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .call_errors import SpecValidationError
from .errors import UsageError

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
    """A workflow run would start more steps than it may; the step was not started."""

    code = "workflow.too_many_leaves"

    def __init__(self, run_id: str, most: int) -> None:
        self.run_id = run_id
        self.most = most
        super().__init__(f"run {run_id!r} may start {most:,} steps, and has; give it fewer items, or raise max_leaves")


class SpawnRefusedError(UsageError):
    """An agent cannot be started, or it is none of this session's; nothing was started."""

    code = "spawn.refused"

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r}: {why}")
