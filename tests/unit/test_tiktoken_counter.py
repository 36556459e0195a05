"""Counting with tiktoken: whatever its encoders do, a count ends and a run goes on."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from loopwright.core.estimate import PICTURE
from loopwright.model.messages import (
    AssistantMessage,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.model.specs import ToolSpec
from loopwright.ports.llm import LLMRequest
from loopwright.transports.tiktoken_counter import PER_MESSAGE, PER_REPLY, TiktokenCounter


class Words:
    """An encoder whose tokens are words; marks are words like any other."""

    def encode(self, text: str, *, disallowed_special: Any) -> list[str]:
        assert disallowed_special == ()
        return text.split()


def of_words(model: str) -> Any:
    if not model.startswith("gpt"):
        raise KeyError(model)
    return Words()


REQUEST = LLMRequest(
    system_prompt="be exact",
    tools=(ToolSpec("look", "one two three", {}),),
    messages=(
        UserMessage("say <|endoftext|> twice"),
        AssistantMessage((ReasoningPart("let me"), TextPart("look at it"), ToolCall("c", "look", '{"x": 1}'))),
        ToolResultMessage("c", "look", "nothing there"),
    ),
)


async def test_instructions_tools_and_messages_are_counted() -> None:
    tools = len(['{"name":"look","description":"one', "two", 'three","parameters":{}}'])
    words = 2 + tools + 3 + (2 + 3 + 2) + 2
    assert await TiktokenCounter(of_words).count(REQUEST, model="gpt-5") == words + 3 * PER_MESSAGE + PER_REPLY


async def test_a_picture_is_estimated_beside_the_text() -> None:
    seen = LLMRequest(messages=(UserMessage((TextPart("look at"), ImagePart(data=b"1"))),))
    found = await TiktokenCounter(of_words).count(seen, model="gpt-5")
    assert found is not None
    assert PICTURE + 2 < found < PICTURE + 20


async def test_a_model_of_somebody_else_is_not_counted_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert await TiktokenCounter(of_words).count(REQUEST, model="claude") is None
    assert caplog.records == []


async def test_an_encoder_that_cannot_be_had_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[str] = []

    def away(model: str) -> Any:
        tried.append(model)
        raise ConnectionError("no route")

    counter = TiktokenCounter(away)
    with caplog.at_level(logging.WARNING):
        assert [await counter.count(REQUEST, model="gpt-5") for _ in range(3)] == [None] * 3
    assert tried == ["gpt-5"]
    assert [record.getMessage() for record in caplog.records] == [
        "no token encoder for gpt-5, sizes are estimated: no route"
    ]


async def test_an_encoder_that_does_not_come_is_not_waited_for_and_used_when_it_is_there() -> None:
    gate = threading.Event()

    def slow(model: str) -> Any:
        gate.wait()
        return Words()

    counter = TiktokenCounter(slow, loading_s=0.01)
    assert await counter.count(REQUEST, model="gpt-5") is None
    gate.set()
    patient = TiktokenCounter(slow)
    assert await patient.count(REQUEST, model="gpt-5") is not None
    counter._encoders["gpt-5"].result()
    assert await counter.count(REQUEST, model="gpt-5") == await patient.count(REQUEST, model="gpt-5")
