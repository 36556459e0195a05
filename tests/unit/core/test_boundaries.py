"""A fork begins at a round boundary, and nothing of its base is open in it, whatever the journal."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from tests.unit.core.journals import legal_journals

from loopwright.core.boundaries import beginning, is_boundary, nearest
from loopwright.core.calls import idempotency_key
from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, refusal
from loopwright.model.messages import UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    Record,
    SendStarted,
    SessionForked,
    ToolFinished,
    UserMessageAdded,
)
from loopwright.model.usage import NO_USAGE


@given(legal_journals())
def test_a_fork_of_any_journal_at_any_boundary_can_be_sent(journal: list[tuple[Record, float]]) -> None:
    state = State()
    for record, at in journal:
        apply(state, record, at)
        if not is_boundary(state, record):
            assert state.batch or isinstance(record, SendStarted)
            continue
        fork = deepcopy(state)
        records = beginning(fork, "fork", "base")
        assert records[0] == SessionForked("fork", "base", state.position)
        for one in records:
            assert refusal(fork, one) is None
            apply(fork, one, at)
        assert fork.active is None
        assert not fork.batch
        assert (fork.facts.session_id, fork.facts.sends, fork.facts.usage) == ("fork", 0, NO_USAGE)
        assert fork.messages[: len(state.messages)] == state.messages
        for said in (SendStarted(index=1, max_rounds=1), UserMessageAdded(UserMessage("on"))):
            assert refusal(fork, said) is None
            apply(fork, said, at)
        assert problem(fork.messages) is None


@given(legal_journals())
def test_an_open_call_is_answered_under_the_key_of_the_session_that_wrote_it(
    journal: list[tuple[Record, float]],
) -> None:
    state = State()
    for record, at in journal:
        apply(state, record, at)
        if isinstance(record, AssistantMessageAdded) and state.batch:
            answers = [one for one in beginning(state, "fork", "base") if isinstance(one, ToolFinished)]
            keys = [idempotency_key(state.facts.session_id, c.position, c.index) for c in state.open_calls()]
            assert [answer.key for answer in answers] == keys
            assert {answer.status for answer in answers} <= {"aborted"}


def test_the_nearest_boundaries_are_those_around_a_position() -> None:
    assert nearest([1, 4, 9], 5) == [4, 9]
    assert nearest([1, 4, 9], 0) == [1]
    assert nearest([1, 4, 9], 20) == [9]
    assert nearest([], 3) == []
