"""Rough token counts where nobody counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.estimate import (
    CALL,
    DOCUMENT,
    OVERHEAD,
    PICTURE,
    SMALL_PICTURE,
    estimated,
    message_tokens,
    text_tokens,
    tool_tokens,
)
from loopwright.model.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.model.specs import ToolSpec
from loopwright.model.usage import Usage


def test_four_characters_are_a_token_and_each_message_costs_a_little() -> None:
    assert message_tokens(UserMessage("x" * 40)) == 10 + OVERHEAD


def test_letters_of_other_scripts_count_by_the_bytes_they_take() -> None:
    assert message_tokens(UserMessage("я" * 40)) == 20 + OVERHEAD
    assert message_tokens(UserMessage("日" * 40)) == 30 + OVERHEAD
    assert message_tokens(UserMessage("🙂" * 40)) == 40 + OVERHEAD
    assert message_tokens(AssistantMessage((TextPart("日" * 40), ReasoningPart("日" * 4)))) == 33 + OVERHEAD


def test_json_is_denser_than_prose() -> None:
    assert message_tokens(AssistantMessage((ToolCall("a", "name", "x" * 36),))) == 13 + CALL + OVERHEAD
    assert message_tokens(ToolResultMessage("a", "name", '{"k": 1234567890123}')) == 6 + OVERHEAD
    assert message_tokens(ToolResultMessage("a", "name", "k is 12345678901234 ")) == 5 + OVERHEAD


@pytest.mark.parametrize(
    "part, tokens",
    [
        (ImagePart(data=b"1"), PICTURE),
        (ImagePart(url="https://example.org/a.png", detail="low"), SMALL_PICTURE),
        (FilePart(data=b"1"), DOCUMENT),
        (FilePart(artifact_id="a"), DOCUMENT),
        (FilePart(data=b"1" * 120_000), 3 * DOCUMENT),
        (FilePart("text/plain", data=b"1" * 400), 100),
    ],
)
def test_pictures_and_files_have_a_price_of_their_kind(part: ImagePart | FilePart, tokens: int) -> None:
    assert message_tokens(UserMessage((TextPart("x" * 4), part))) == 1 + OVERHEAD + tokens


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_any_text_has_a_count_and_more_text_never_a_smaller_one(text: str, more: str) -> None:
    assert 0 <= text_tokens(text) <= text_tokens(text + more)
    assert OVERHEAD <= message_tokens(UserMessage("say " + text)) <= message_tokens(UserMessage("say " + text + more))


def test_a_tool_costs_its_name_description_and_schema() -> None:
    bare = ToolSpec("look", "", {})
    assert tool_tokens(bare) < tool_tokens(ToolSpec("look", "x" * 400, {})) - 50


def test_an_estimate_says_so_and_never_counts_something_as_nothing() -> None:
    assert estimated(10, 1) == Usage(10, 1, calls=1, estimated=True)
