"""What a host gets back, from the journal alone."""

from __future__ import annotations

import pytest

from loopwright.core.result import result_of
from loopwright.core.state import State, fold
from loopwright.model.errors import (
    CancellationRequested,
    InvariantError,
    LLMContextOverflowError,
    LLMError,
    LLMRequestError,
    StructuredOutputError,
)
from loopwright.model.messages import AssistantMessage, TextPart, ToolCall, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    Interaction,
    QuestionAsked,
    Record,
    SendFinished,
    SendPaused,
    SendStarted,
    SessionCreated,
    UserMessageAdded,
)


def session(*records: Record) -> State:
    first = (SessionCreated("s", "agent"), SendStarted(index=1, max_rounds=3), UserMessageAdded(UserMessage("hi")))
    return fold([(r, 0.0) for r in (*first, *records)])


def test_a_final_text_that_equals_the_reply_is_not_stored_twice() -> None:
    reply = AssistantMessageAdded(AssistantMessage((TextPart("done"),)), 1, "stop")
    result = result_of(session(reply, SendFinished(outcome="completed", rounds=1)))
    assert (result.status, result.final_text, result.rounds, result.ok) == ("completed", "done", 1, True)


def test_open_calls_are_told_apart_by_who_must_answer_them() -> None:
    asked = AssistantMessageAdded(AssistantMessage((ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}"))), 1)
    question = Interaction("q", "a", "t", "?")
    result = result_of(session(asked, QuestionAsked(question), SendPaused("waiting_for_input")))
    assert result.status == "waiting_for_input"
    assert result.pending_interactions == (question,)
    assert [c.id for c in result.pending_tool_calls] == ["b"]


@pytest.mark.parametrize(
    "code, reason, kind",
    [
        ("output.invalid", "no_json", StructuredOutputError),
        ("llm.context_overflow", None, LLMContextOverflowError),
        ("llm.request", None, LLMRequestError),
        ("llm.retry_exhausted", None, LLMError),
        ("cancelled", None, CancellationRequested),
    ],
)
def test_the_error_of_a_send_is_typed_again_when_another_process_reads_it(
    code: str, reason: str | None, kind: type[Exception]
) -> None:
    ended = SendFinished(outcome="failed", error_code=code, error_reason=reason, error_message="why")
    result = result_of(session(ended))
    assert type(result.error) is kind
    assert (str(result.error), result.error_code) == ("why", code)
    assert code in (result.error.code, "llm.retry_exhausted")  # type: ignore[union-attr]


def test_a_session_without_a_send_has_no_result() -> None:
    with pytest.raises(InvariantError):
        result_of(fold([(SessionCreated("s", "agent"), 0.0)]))
