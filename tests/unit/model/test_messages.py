"""Messages, typed or as OpenAI-style dicts."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.model.errors import InvalidMessageError
from loopwright.model.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    as_message,
    as_messages,
    is_blank,
)
from loopwright.model.usage import NO_USAGE, Usage


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("hi", UserMessage("hi")),
        (UserMessage("hi"), UserMessage("hi")),
        ({"role": "user", "content": "hi"}, UserMessage("hi")),
        ({"role": "system", "content": "be brief"}, SystemMessage("be brief")),
        ({"role": "developer", "content": [{"type": "text", "text": "be brief"}]}, SystemMessage("be brief")),
        ({"role": "assistant", "content": None}, AssistantMessage()),
        (
            {
                "role": "assistant",
                "content": "so",
                "reasoning_content": "hm",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
            },
            AssistantMessage((ReasoningPart("hm"), TextPart("so"), ToolCall("a", "f", '{"x":1}'))),
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
            AssistantMessage((ToolCall("call_0", "f", '{"x":1}'),)),
        ),
        ({"role": "tool", "tool_call_id": "a", "content": "ok"}, ToolResultMessage("a", "", "ok")),
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                    {"type": "input_image", "image_url": "data:image/gif;base64,R0lG"},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
                ],
            },
            UserMessage(
                (
                    TextPart("see"),
                    ImagePart(url="https://x/y.png", detail="low"),
                    ImagePart("image/gif", b"GIF"),
                    FilePart("application/pdf", "a.pdf", b"%PD"),
                )
            ),
        ),
    ],
)
def test_dicts_are_read_as_typed_messages(given: Any, wanted: Any) -> None:
    assert as_message(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        {"role": "wizard"},
        {},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": 1},
        {"role": "user", "content": [{"type": "smell"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}]},
    ],
)
def test_what_is_no_message_is_named(given: Any) -> None:
    with pytest.raises(InvalidMessageError):
        as_message(given)


def test_many_are_read_in_order() -> None:
    assert as_messages(["a", {"role": "assistant", "content": "b"}]) == (
        UserMessage("a"),
        AssistantMessage((TextPart("b"),)),
    )


@pytest.mark.parametrize(
    "content, blank",
    [("", True), (" \n", True), ("x", False), ((), True), ((TextPart(" "),), True), ((ImagePart(data=b"x"),), False)],
)
def test_blank_is_what_says_nothing(content: Any, blank: bool) -> None:
    assert is_blank(content) is blank


@pytest.mark.parametrize("text, value", [("", {}), ("  ", {}), ('{"a": [1]}', {"a": [1]})])
def test_argument_text_is_read_as_an_object(text: str, value: Any) -> None:
    assert ToolCall("a", "f", text).parsed() == value


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"a": 1}x', "null", "{'a': 1}"])
def test_argument_text_that_is_no_object_is_never_repaired(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any ValueError is what the seam promises
        ToolCall("a", "f", text).parsed()


def test_usage_adds_up_and_one_estimate_makes_the_sum_an_estimate() -> None:
    assert Usage(1, 2, 3, 4, 5, 1) + Usage(10, 20, 30, 40, 50, 1, estimated=True) == Usage(
        11, 22, 33, 44, 55, 2, estimated=True
    )
    assert NO_USAGE + Usage(1, 2) == Usage(1, 2)
    assert Usage(1, 2).total_tokens == 3


@pytest.mark.parametrize("part", [{"type": "file", "file": {"file_id": "f"}}, {"type": "input_file", "file_id": "f"}])
def test_a_file_by_the_id_of_a_provider_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError, match="provider id"):
        as_message({"role": "user", "content": [part]})


def test_a_text_part_of_null_is_empty() -> None:
    assert as_message({"role": "user", "content": [{"type": "text", "text": None}]}) == UserMessage((TextPart(""),))
