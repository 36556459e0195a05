"""The error tree: as drawn, at most three levels, each with a code that never changes."""

from __future__ import annotations

import inspect
import re

import pytest

from loopwright.model import archive_errors, call_errors, errors, family_errors, web_errors
from loopwright.model.errors import LoopwrightError

FROZEN = {
    "agent.unavailable",
    "budget.refused",
    "bug.invariant",
    "cancelled",
    "board.entry",
    "board.full",
    "compaction.failed",
    "spawn.refused",
    "workflow.rendered_too_large",
    "workflow.run",
    "workflow.too_many_leaves",
    "spawn.timed_out",
    "config.invalid",
    "hook.failed",
    "interaction.unknown",
    "leaf.elsewhere",
    "llm.context_overflow",
    "llm.empty_reply",
    "llm.error",
    "llm.request",
    "llm.retry_exhausted",
    "llm.timeout",
    "llm.transient",
    "loop.closed",
    "loopwright.error",
    "memory.refused",
    "message.invalid",
    "message.too_large",
    "notes.full",
    "output.invalid",
    "retry.later",
    "run.error",
    "session.busy",
    "session.exists",
    "session.fenced",
    "session.fork_position",
    "session.gone",
    "session.inbox_moved",
    "session.left",
    "session.moved",
    "session.not_found",
    "session.pending",
    "session.poisoned",
    "session.reentrant",
    "session.referenced",
    "session.too_new",
    "skill.unavailable",
    "spec.agent",
    "spec.invalid",
    "spec.workflow",
    "export.refused",
    "seal.absent",
    "seal.broken",
    "seal.key",
    "store.corrupt",
    "store.error",
    "store.forked",
    "store.full",
    "store.read_only",
    "store.rolled_back",
    "store.schema",
    "store.unavailable",
    "tool.failed",
    "guardrail.blocked",
    "tool.invalid_args",
    "tool.not_found",
    "tool.on_commit",
    "tool.path_refused",
    "tool.result_refused",
    "usage.error",
    "document.unreadable",
    "web.failed",
    "web.refused",
    "web.service",
}
"""Codes that hosts branch on: lines may be added, never changed or removed."""


def classes() -> list[type[LoopwrightError]]:
    found: list[type[LoopwrightError]] = []
    for module in (errors, call_errors, archive_errors, family_errors, web_errors):
        members = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, LoopwrightError)]
        found += [c for c in members if c.__module__ == module.__name__]
    return found


def drawn() -> list[tuple[int, str, str | None]]:
    """(depth, name, code) of each line of the tree in the module's docstring."""
    known = {c.__name__ for c in classes()}
    lines: list[tuple[int, str, str | None]] = []
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        match = re.match(r"^([ │├└─]*)([A-Z]\w+)\s+(?:([a-z_]+\.[a-z_.]+|cancelled)\b)?", line)
        if match and match[2] in known:
            lines.append((len(match[1]) // 4 - 1, match[2], match[3]))  # the drawing is indented itself
    return lines


def test_codes_are_frozen() -> None:
    assert {c.code for c in classes()} == FROZEN


def test_each_class_has_a_code_of_its_own() -> None:
    assert len({c.code for c in classes()}) == len(classes())
    assert all("code" in vars(c) for c in classes())


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    tree = drawn()
    assert {name for _, name, _ in tree} == {c.__name__ for c in classes()}
    parents: list[str] = []
    for depth, name, code in tree:
        parents[depth:] = [name]
        kind = next(c for c in classes() if c.__name__ == name)
        if depth:
            assert kind.__mro__[1].__name__ == parents[depth - 1]
        if code is not None:
            assert kind.code == code


def test_the_tree_has_at_most_three_levels() -> None:
    # Both kinds of spec are known by these names and caught together by that of their parent.
    assert {name for depth, name, _ in drawn() if depth > 2} == {"AgentSpecError", "WorkflowSpecError"}
    assert max(depth for depth, _, _ in drawn()) == 3


@pytest.mark.parametrize("kind", classes(), ids=lambda c: c.__name__)
def test_every_error_says_in_one_sentence_what_it_means(kind: type[LoopwrightError]) -> None:
    assert inspect.getdoc(kind)


@pytest.mark.parametrize(
    "error, words",
    [
        (errors.SessionNotFoundError("s1"), ["s1", "new_session"]),
        (errors.SessionBusyError("s1", "me", 2.0), ["s1", "me", "2.0 s", "lease_wait_s"]),
        (errors.SessionPendingError("s1"), ["s1", "resume()", "abort_pending()", "heal_pending"]),
        (errors.SessionFencedError("s1", epoch=1, current_epoch=2), ["s1", "1", "2", "nothing was written"]),
        (errors.AgentUnavailableError("s1", "a", ("b",)), ["s1", "'a'", "agent_name"]),
        (
            errors.BudgetRefusedError("team", limit=10**9, spent=7 * 10**8, held=2 * 10**8, asked=2 * 10**8),
            ["'team'", "1.00 USD", "0.70 USD", "0.20 USD", "raise the limit"],
        ),
        (errors.ToolNotFound("x", ("y",)), ["'x'", "y"]),
        (errors.SessionTooNewError("s1", 3, 1), ["s1", "3", "upgrade"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_carries_its_facts_and_the_way_out(error: LoopwrightError, words: list[str]) -> None:
    for word in words:
        assert word in str(error)


def test_a_refused_budget_says_what_there_is_and_the_way_out_of_its_kind() -> None:
    team = errors.BudgetRefusedError("team", limit=10**9, spent=12_300, held=5, asked=2 * 10**9)
    assert "0.0000123 USD spent and 0.000000005 USD held of 1.00 USD" in str(team)
    assert "wait until" in str(team)
    mine = errors.BudgetRefusedError("session", limit=10**9, spent=0, held=0, asked=15 * 10**8, shared=False)
    assert "held" not in str(mine)
    assert "1.50 USD were asked for" in str(mine)
    assert "start another session" in str(mine)
    assert "nothing was written" not in str(mine)
