"""Token counts where nobody counted.

Owns: the rough rule, the same in every process. Must not know: tokenizers, models, what providers said (`calibration.py`).
Sources, as of 2026: about four bytes a token for prose in the tokenizers of the large providers, and so about four ASCII
characters or fewer characters of other scripts, whose letters take two to four bytes; JSON is denser, with a token for most
of its punctuation; pictures and documents by the providers' own rules of thumb.
Read next: `calibration.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.codec import encode
from ..model.messages import AssistantMessage, FilePart, ImagePart, Message, TextPart, ToolCall
from ..model.specs import ToolSpec
from ..model.usage import Usage

CHARS_PER_TOKEN = 4
"""Characters that a token holds when text is to be cut to a number of tokens."""
PROSE_BYTES = 4
JSON_BYTES = 3
"""UTF-8 bytes a token."""
SCHEMA_BYTES = 7
"""The same of a tool's definition as JSON: providers show it to the model in a terser form (5 to 12 in recorded traffic)."""
OVERHEAD = 4
"""Tokens a message costs beside its text."""
CALL = 8
"""Tokens a call costs beside its name and arguments: its id and what frames it."""
PICTURE = 800
"""Tokens counted for a picture: those of a square of about 1,000 pixels at the large providers."""
SMALL_PICTURE = 85
"""The same where the provider was asked for little detail."""
DOCUMENT = 2000
"""Tokens counted for a document of any size that is not text: about one page with its picture."""
BYTES_PER_PAGE = 50_000
"""Bytes of a document that are about one page."""


def message_tokens(message: Message) -> int:
    """A rough count for one message."""
    if isinstance(message, AssistantMessage):
        size = 0
        for part in message.parts:
            if isinstance(part, ToolCall):
                size += CALL + (len(part.name) + _bytes(part.arguments)) // JSON_BYTES
            else:
                size += (len(part.text) if part.text.isascii() else _bytes(part.text)) // PROSE_BYTES
        return size + OVERHEAD
    content = message.content
    if isinstance(content, str):
        size = len(content) if content.isascii() else _bytes(content)  # asking is cheap: it is a flag of the string
        return size // (JSON_BYTES if content.startswith(_JSON) else PROSE_BYTES) + OVERHEAD
    return sum([part_tokens(part) for part in content]) + OVERHEAD


_JSON = ("{", "[")
"""How text begins that is counted as JSON: most of what tools answer."""


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def part_tokens(part: TextPart | ImagePart | FilePart) -> int:
    """A rough count for a part of a content."""
    if isinstance(part, TextPart):
        return text_tokens(part.text)
    if isinstance(part, ImagePart):
        return SMALL_PICTURE if part.detail == "low" else PICTURE
    size = 0 if part.data is None else len(part.data)
    if part.media_type.startswith("text/"):
        return size // PROSE_BYTES
    return DOCUMENT * max(-(-size // BYTES_PER_PAGE), 1)


def text_tokens(text: str) -> int:
    """A rough count for text without the overhead of a message."""
    return _bytes(text) // PROSE_BYTES


def tool_tokens(spec: ToolSpec) -> int:
    """A rough count for a tool's definition."""
    return len(encode(spec)) // SCHEMA_BYTES + OVERHEAD


def fixed_tokens(instructions: str | None, tools: Iterable[ToolSpec]) -> int:
    """A rough count for what a request holds before its messages."""
    return text_tokens(instructions or "") + sum([tool_tokens(spec) for spec in tools])


def estimated(input_tokens: int, output_characters: int) -> Usage:
    """Usage of one call from what is known about it, marked as estimated."""
    return Usage(
        input_tokens=input_tokens, output_tokens=-(-output_characters // CHARS_PER_TOKEN), calls=1, estimated=True
    )
