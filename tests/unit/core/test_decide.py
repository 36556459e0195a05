"""What comes next: every step, and that no sequence of them goes on for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.decide import (
    ROUND_LIMIT_MARK,
    TRUNCATED_MARK,
    CallModel,
    Finish,
    Idle,
    Limits,
    Pause,
    RunTools,
    Say,
    Step,
    TakeInbox,
    decide,
)
from loopwright.core.state import State, apply, fold
from loopwright.model.messages import AssistantMessage, TextPart, ToolCall, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    Interaction,
    QuestionAnswered,
    QuestionAsked,
    Record,
    SendFinished,
    SendPaused,
    SendStarted,
    SessionCreated,
    ToolFinished,
    UserMessageAdded,
)
from loopwright.model.specs import StructuredOutputSpec
from loopwright.model.usage import Usage

LIMITS = Limits(max_continuations=2, max_corrections=2, validate=lambda schema, value: None)
SPEC = StructuredOutputSpec("answer", {"type": "object", "required": ["n"]})
SAID = UserMessageAdded(UserMessage("hi"))


def start(**settings: Any) -> SendStarted:
    return SendStarted(**{"index": 1, "max_rounds": 3, **settings})


def says(text: str = "done", *, finish: Any = "stop", round_index: int = 1, **more: Any) -> AssistantMessageAdded:
    return AssistantMessageAdded(AssistantMessage((TextPart(text),)), round_index, finish, **more)


def asks(*ids: str, round_index: int = 1, **more: Any) -> AssistantMessageAdded:
    calls = tuple([ToolCall(i, "tool", "{}") for i in ids])
    return AssistantMessageAdded(AssistantMessage(calls), round_index, "tool_calls", **more)


def engine(source: Any) -> UserMessageAdded:
    return UserMessageAdded(UserMessage("(engine)"), source)


def done(call_id: str) -> ToolFinished:
    return ToolFinished(call_id, "tool", "finished", "ok")


def step(*records: Record, inbox: bool = False, held: tuple[str, ...] = ()) -> Step:
    state = fold([(record, 0.0) for record in (SessionCreated("s", "agent"), *records)])
    return decide(state, LIMITS, inbox_waiting=inbox, held=frozenset(held))


SPENT = Usage(6, 4, calls=1)
ASKED = QuestionAsked(Interaction("q", "a", "tool", "?"))

TABLE: dict[str, tuple[Step, Step]] = {
    "an idle session does nothing": (step(), Idle()),
    "a finished send does nothing": (step(start(), SAID, says(), SendFinished(outcome="completed")), Idle()),
    "an input is put to the model": (step(start(), SAID), CallModel(1)),
    "what waits in the inbox is said first": (step(start(), SAID, inbox=True), TakeInbox()),
    "a final reply completes the send": (step(start(), SAID, says()), Finish("completed", "done")),
    "an inbox item extends the send": (step(start(), SAID, says(), inbox=True), TakeInbox()),
    "answered calls go back to the model": (step(start(), SAID, asks("a"), done("a")), CallModel(2)),
    "calls left to the host pause": (step(start(), SAID, asks("a"), held=("a",)), Pause("pending_tools")),
    "a question pauses": (step(start(), SAID, asks("a"), ASKED), Pause("waiting_for_input")),
    "a question goes before calls of the host": (
        step(start(), SAID, asks("a", "b"), ASKED, held=("b",)),
        Pause("waiting_for_input"),
    ),
    "the round limit asks for a summary": (
        step(start(max_rounds=1), SAID, asks("a"), done("a")),
        Say("wrap_up"),
    ),
    "the summary is asked for without tools": (
        step(start(max_rounds=1), SAID, asks("a"), done("a"), engine("wrap_up")),
        CallModel(2, wrap_up=True),
    ),
    "nothing from the inbox gets between the notice and the summary": (
        step(start(max_rounds=1), SAID, asks("a"), done("a"), engine("wrap_up"), inbox=True),
        CallModel(2, wrap_up=True),
    ),
    "the summary ends the send, whatever waits": (
        step(start(max_rounds=1), SAID, asks("a"), done("a"), engine("wrap_up"), says("sum", wrap_up=True), inbox=True),
        Finish("hit_round_limit", f"{ROUND_LIMIT_MARK} sum"),
    ),
    "a final reply in the last round is no hit limit": (
        step(start(max_rounds=1), SAID, says()),
        Finish("completed", "done"),
    ),
    "the budget is looked at after a round": (
        step(start(run_token_budget=10), SAID, asks("a", usage=SPENT), done("a")),
        Finish("budget_exceeded", ""),
    ),
    "an answer that crossed the budget still completes": (
        step(start(run_token_budget=10), SAID, says(usage=SPENT)),
        Finish("completed", "done"),
    ),
    "below the budget it goes on": (
        step(start(run_token_budget=11), SAID, asks("a", usage=SPENT), done("a")),
        CallModel(2),
    ),
    "a cut text is continued": (step(start(), SAID, says(finish="length")), Say("continue")),
    "a continuation is not a new round": (
        step(start(max_rounds=1), SAID, says(finish="length"), engine("continue")),
        CallModel(1),
    ),
    "a cut text is continued twice, then marked": (
        step(
            start(),
            SAID,
            says("a", finish="length"),
            engine("continue"),
            says("b", finish="length"),
            engine("continue"),
            says("c", finish="length"),
        ),
        Finish("completed", f"abc\n{TRUNCATED_MARK}"),
    ),
    "a fitting answer is parsed": (
        step(start(output=SPEC), SAID, says('{"n": 1}')),
        Finish("completed", '{"n": 1}', {"n": 1}),
    ),
    "an unfit answer is asked for again": (
        step(start(output=SPEC), SAID, says("no")),
        Say("correct", "the reply holds no JSON object"),
    ),
    "a correction is not a new round": (
        step(start(output=SPEC, max_rounds=1), SAID, says("no"), engine("correct")),
        CallModel(1),
    ),
    "a reply cut while thinking counts its round": (
        step(start(), SAID, AttemptFailed(1, 1, "llm.cut_while_thinking", ""), engine("continue")),
        CallModel(1),
    ),
}


@pytest.mark.parametrize("promise", TABLE)
def test_the_next_step(promise: str) -> None:
    got, wanted = TABLE[promise]
    assert got == wanted


def test_open_calls_are_run_but_not_those_that_wait_for_somebody() -> None:
    got = step(start(), SAID, asks("a", "b", "c"), ASKED, done("c"))
    assert isinstance(got, RunTools)
    assert [c.call.id for c in got.calls] == ["b"]


def test_a_call_whose_question_is_answered_is_run() -> None:
    got = step(start(), SAID, asks("a"), ASKED, SendPaused("waiting_for_input"), QuestionAnswered("q", "yes"))
    assert isinstance(got, RunTools)


def test_an_answer_that_never_fits_fails_with_the_reason_after_two_corrections() -> None:
    wrong = (says("no"), engine("correct"), says("no"), engine("correct"), says("no"))
    got = step(start(output=SPEC), SAID, *wrong)
    assert isinstance(got, Finish)
    assert (got.outcome, got.error_code, got.error_reason) == ("failed", "output.invalid", "no_json")


Model = Callable[[CallModel], list[Record]]
REPLIES: list[Model] = [
    lambda call: [says(round_index=call.round, wrap_up=call.wrap_up)],
    lambda call: [says("cut", finish="length", round_index=call.round, wrap_up=call.wrap_up)],
    lambda call: [says(round_index=call.round) if call.wrap_up else asks("a", round_index=call.round)],
    lambda call: [AttemptFailed(call.round, 1, "llm.cut_while_thinking", "")],
]


def played(state: State, got: Step, script: Callable[[], int]) -> list[Record]:
    """What the engine writes for a step, with a model that answers in the worst way it can."""
    match got:
        case CallModel():
            records = REPLIES[script()](got)
            if isinstance(records[0], AttemptFailed):
                assert state.active is not None
                cont = state.active.continuations < LIMITS.max_continuations
                records.append(engine("continue") if cont else SendFinished(outcome="degraded"))
            return records
        case RunTools():
            return [done(c.call.id) for c in got.calls]
        case TakeInbox():
            return [engine("inbox")]
        case Say():
            return [engine(got.source)]
        case Pause():
            return [done(c.call.id) for c in state.open_calls()]
        case Finish():
            return [SendFinished(outcome=got.outcome)]
        case Idle():
            return []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.booleans(), st.booleans(), st.integers(1, 3))
def test_no_model_and_no_inbox_can_keep_a_send_going_for_ever(
    replies: list[int], inbox: bool, structured: bool, max_rounds: int
) -> None:
    state = fold(
        [
            (r, 0.0)
            for r in (SessionCreated("s", "a"), start(max_rounds=max_rounds, output=SPEC if structured else None), SAID)
        ]
    )
    turn = 0

    def script() -> int:
        nonlocal turn
        turn += 1
        return replies[turn % len(replies)]

    taken = 0
    for _ in range(400):
        got = decide(state, LIMITS, inbox_waiting=inbox and taken < 100)
        taken += isinstance(got, TakeInbox)
        if isinstance(got, Idle):
            break
        for record in played(state, got, script):
            apply(state, record, 0.0)
    assert state.active is None
    assert turn <= (max_rounds + 1) * 6 + 100
