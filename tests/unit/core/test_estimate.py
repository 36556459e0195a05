"""Rough token counts where a provider gave none."""

from __future__ import annotations

from loopwright.core.estimate import OVERHEAD, PICTURE, estimated, message_tokens
from loopwright.model.messages import AssistantMessage, ImagePart, TextPart, ToolCall, UserMessage
from loopwright.model.usage import Usage


def test_four_characters_are_a_token_and_each_message_costs_a_little() -> None:
    assert message_tokens(UserMessage("x" * 40)) == 10 + OVERHEAD


def test_arguments_are_counted_and_pictures_have_a_price() -> None:
    assert message_tokens(AssistantMessage((ToolCall("a", "name", "x" * 36),))) == 10 + OVERHEAD
    assert message_tokens(UserMessage((TextPart("x" * 4), ImagePart(data=b"1")))) == 1 + OVERHEAD + PICTURE


def test_an_estimate_says_so_and_never_counts_something_as_nothing() -> None:
    assert estimated(10, 1) == Usage(10, 1, calls=1, estimated=True)
