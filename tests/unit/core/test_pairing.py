"""One guard for every list of messages that goes to a provider."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.pairing import problem
from loopwright.model.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

ids = st.sampled_from(["a", "b", "c"])
asked = st.lists(ids, unique=True, max_size=3).map(
    lambda i: AssistantMessage(tuple([ToolCall(x, "t", "{}") for x in i]))
)
results = st.builds(ToolResultMessage, ids, st.just("t"), st.sampled_from(["1", "2"]))
any_list = st.lists(asked | results | st.builds(UserMessage, st.just("u")) | st.just(SystemMessage("s")), max_size=12)


def plainly_valid(messages: Sequence[Message]) -> bool:
    """The rule as a person would write it down: behind each reply stand the results of its calls, and nowhere else."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if isinstance(message, ToolResultMessage):
            return False
        calls = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
        results, rest = rest[: len(calls)], rest[len(calls) :]
        if [result.call_id if isinstance(result, ToolResultMessage) else None for result in results] != calls:
            return False
    return True


@given(any_list)
def test_a_list_is_valid_when_behind_each_reply_stand_the_results_of_its_calls(messages: list[Message]) -> None:
    assert (problem(messages) is None) is plainly_valid(messages)


@given(st.lists(asked | st.builds(UserMessage, st.just("u")), max_size=6))
def test_replies_with_their_results_are_valid_wherever_they_stand(said: list[Message]) -> None:
    answered: list[Message] = []
    for message in said:
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        answered += [message, *[ToolResultMessage(call.id, call.name, "1") for call in calls]]
    assert problem(answered) is None


CALL = AssistantMessage((TextPart("x"), ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")))
A, B = ToolResultMessage("a", "t", "1"), ToolResultMessage("b", "t", "2")


@pytest.mark.parametrize(
    "messages, why",
    [
        ([A], "answers no open call"),
        ([CALL, B, A], "expected 'a'"),
        ([CALL, A, UserMessage("x")], "'b' is not answered before role user"),
        ([CALL, A], "'b' at the end is not answered"),
        ([CALL, A, B, B], "answers no open call"),
        ([AssistantMessage((ToolCall("a", "t", ""), ToolCall("a", "t", "")))], "two calls share one id"),
    ],
)
def test_a_list_that_providers_refuse_is_named_with_its_fault(messages: list[Message], why: str) -> None:
    assert why in str(problem(messages))
