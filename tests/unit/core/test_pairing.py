"""One guard for every list of messages that goes to a provider."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.pairing import LOST_RESULT, align, problem
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


@given(any_list)
def test_any_list_is_made_valid(messages: list[Message]) -> None:
    assert problem(align(messages)) is None


@given(any_list)
def test_repair_is_done_once(messages: list[Message]) -> None:
    once = align(messages)
    assert align(once) == once


@given(any_list)
def test_a_valid_list_comes_back_equal(messages: list[Message]) -> None:
    if problem(messages) is None:
        assert align(messages) == messages


@given(any_list)
def test_repair_neither_drops_nor_moves_what_was_said(messages: list[Message]) -> None:
    def said(of: Sequence[Message]) -> list[Message]:
        return [m for m in of if not isinstance(m, ToolResultMessage)]

    assert said(align(messages)) == said(messages)


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


def test_a_lost_answer_is_said_to_be_lost() -> None:
    repaired = align([CALL, A, UserMessage("x")])
    assert repaired[2] == ToolResultMessage("b", "t", LOST_RESULT, ok=False)
