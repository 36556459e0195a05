"""The fold: the state is a function of the records, however they are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.journals import legal_journals

from loopwright.core.estimate import message_tokens
from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, checkpoint_of, facts_of, fold, refusal
from loopwright.model.codec import decode_record, encode_record
from loopwright.model.messages import AssistantMessage, TextPart, ToolCall, ToolResultMessage, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    HistoryRepaired,
    Record,
    SendFinished,
    SendStarted,
    SessionCreated,
    StateCheckpointed,
    ToolFinished,
    UserMessageAdded,
)
from loopwright.model.usage import Usage


@given(legal_journals())
def test_replaying_the_stored_records_gives_the_live_state(journal: list[tuple[Record, float]]) -> None:
    live = State()
    stored = []
    for record, at in journal:
        apply(live, record, at)
        stored.append((encode_record(record), at))
    assert fold([(decode_record(*encoded), at) for encoded, at in stored]) == live


@given(legal_journals(), st.integers(0, 25))
def test_a_fold_in_two_pieces_equals_one_fold(journal: list[tuple[Record, float]], cut: int) -> None:
    assert fold(journal[cut:], fold(journal[:cut])) == fold(journal)


@given(legal_journals())
def test_a_checkpoint_holds_the_facts_of_the_full_fold_at_every_round_boundary(
    journal: list[tuple[Record, float]],
) -> None:
    state = State()
    for record, at in journal:
        apply(state, record, at)
        if not state.batch:
            stored = decode_record(*encode_record(checkpoint_of(state)))
            assert isinstance(stored, StateCheckpointed)
            assert facts_of(stored) == state.facts


@given(legal_journals())
def test_the_engines_own_moves_are_never_refused(journal: list[tuple[Record, float]]) -> None:
    state = State()
    for record, at in journal:
        assert refusal(state, record) is None
        apply(state, record, at)
    assert (state.lost_answers, state.dropped) == ([], [])


@given(legal_journals())
def test_the_running_token_count_is_that_of_the_window(journal: list[tuple[Record, float]]) -> None:
    state = fold(journal)
    assert state.tokens == sum(map(message_tokens, state.messages))


def opened(*records: Record) -> State:
    """A session with an open send and these records after it."""
    first = (SessionCreated("s", "agent"), SendStarted(index=1, max_rounds=3), UserMessageAdded(UserMessage("hi")))
    return fold([(record, 0.0) for record in (*first, *records)])


def asks(*ids: str, round_index: int = 1) -> AssistantMessageAdded:
    calls = tuple([ToolCall(i, "tool", "{}") for i in ids])
    return AssistantMessageAdded(AssistantMessage(calls), round_index, "tool_calls")


def says(text: str, **more: object) -> AssistantMessageAdded:
    return AssistantMessageAdded(AssistantMessage((TextPart(text),)), **{"round": 1, "finish_reason": "stop", **more})  # type: ignore[arg-type]


def finished(call_id: str, text: str = "ok") -> ToolFinished:
    return ToolFinished(call_id, "tool", "finished", text)


def test_results_enter_the_window_in_call_order_when_the_last_one_is_there() -> None:
    state = opened(asks("a", "b"), finished("b"))
    assert len(state.messages) == 2
    apply(state, finished("a"), 0.0)
    assert [m.call_id for m in state.messages if isinstance(m, ToolResultMessage)] == ["a", "b"]
    assert state.batch == []


def test_a_result_that_answers_no_open_call_is_left_out_and_noted() -> None:
    state = opened(finished("ghost"))
    assert state.dropped == [3]
    assert problem(state.messages) is None


def test_calls_of_damaged_history_are_answered_so_that_the_window_stays_valid() -> None:
    state = opened(asks("a", "b"), finished("b"), UserMessageAdded(UserMessage("on")))
    assert state.lost_answers == ["a"]
    assert problem(state.messages) is None
    apply(state, HistoryRepaired(("a",)), 0.0)
    assert state.lost_answers == []


def test_the_text_of_a_cut_reply_is_joined_with_its_continuation() -> None:
    cont = UserMessageAdded(UserMessage("go on"), "continue")
    state = opened(says("one ", finish_reason="length"), cont, says("two"))
    assert state.active is not None
    assert (state.active.answer, state.active.rounds) == ("one two", 1)


def test_text_said_before_a_tool_call_is_not_joined_with_an_answer_that_was_cut_while_thinking() -> None:
    before = AssistantMessageAdded(
        AssistantMessage((TextPart("Let me look."), ToolCall("a", "t", "{}"))), 1, "tool_calls"
    )
    cont = UserMessageAdded(UserMessage("go on"), "continue")
    state = opened(
        before, finished("a"), AttemptFailed(2, 1, "llm.cut_while_thinking", ""), cont, says("Done.", round=2)
    )
    assert state.active is not None
    assert state.active.answer == "Done."


def test_a_text_cut_twice_with_a_cut_thought_between_keeps_all_its_parts() -> None:
    cont = UserMessageAdded(UserMessage("go on"), "continue")
    cut = AttemptFailed(1, 1, "llm.cut_while_thinking", "")
    state = opened(says("one ", finish_reason="length"), cont, cut, cont, says("two"))
    assert state.active is not None
    assert state.active.answer == "one two"


def test_a_call_cut_off_while_thinking_counts_as_a_round() -> None:
    state = opened(AttemptFailed(1, 1, "llm.cut_while_thinking", "", Usage(5, 5)))
    assert state.active is not None
    assert state.active.rounds == 1


def test_usage_of_failed_attempts_is_counted_for_send_and_session() -> None:
    state = opened(
        AttemptFailed(1, 1, "llm.transient", "", Usage(3, 4, calls=1)), says("x", usage=Usage(1, 1, calls=1))
    )
    assert state.facts.usage == Usage(4, 5, calls=2)
    assert state.active is not None
    assert state.active.usage == Usage(4, 5, calls=2)


def test_nobody_may_speak_while_a_call_is_open() -> None:
    state = opened(asks("a"))
    assert "'a' is not answered" in str(refusal(state, UserMessageAdded(UserMessage("x"))))
    assert refusal(state, SendFinished(outcome="completed")) is not None
    assert refusal(state, says("x")) is not None


def test_a_call_is_answered_once() -> None:
    state = opened(asks("a", "b"), finished("a"))
    assert "'a' is not open" in str(refusal(state, finished("a")))
    assert refusal(state, finished("b")) is None


def test_a_second_send_is_refused_while_one_is_open() -> None:
    assert refusal(opened(), SendStarted(index=2, max_rounds=1)) == "a send is open"


def test_two_calls_of_one_reply_may_not_share_an_id() -> None:
    assert refusal(opened(), asks("a", "a")) == "two calls share one id"
