"""Token counts where a provider gave none.

Owns: the rough rule. Must not know: tokenizers, models.
Source: about four characters a token for English text in the tokenizers of the large providers (their documents, 2026).
Read next: `engine/model_call.py`.
"""

from __future__ import annotations

from ..model.codec import encode
from ..model.messages import AssistantMessage, Message, ToolCall, content_text
from ..model.specs import ToolSpec
from ..model.usage import Usage

CHARS_PER_TOKEN = 4
OVERHEAD = 4
"""Tokens a message costs beside its text."""
PICTURE = 800
"""Tokens counted for a picture or file whose real cost nobody knows here."""


def message_tokens(message: Message) -> int:
    """A rough count for one message."""
    if isinstance(message, AssistantMessage):
        size = 0
        for part in message.parts:
            size += len(part.arguments) + len(part.name) if isinstance(part, ToolCall) else len(part.text)
        return size // CHARS_PER_TOKEN + OVERHEAD
    content = message.content
    if isinstance(content, str):
        return len(content) // CHARS_PER_TOKEN + OVERHEAD
    others = sum(1 for p in content if getattr(p, "text", None) is None)
    return len(content_text(content)) // CHARS_PER_TOKEN + OVERHEAD + others * PICTURE


def text_tokens(text: str) -> int:
    """A rough count for text without the overhead of a message."""
    return len(text) // CHARS_PER_TOKEN


def tool_tokens(spec: ToolSpec) -> int:
    """A rough count for a tool's definition."""
    return len(encode(spec)) // CHARS_PER_TOKEN + OVERHEAD


def estimated(input_tokens: int, output_characters: int) -> Usage:
    """Usage of one call from what is known about it, marked as estimated."""
    return Usage(
        input_tokens=input_tokens, output_tokens=-(-output_characters // CHARS_PER_TOKEN), calls=1, estimated=True
    )
