"""Messages as plain text: of calls, results, pictures; bounded, and unable to forge a frame.

Owns: how a message reads as text. Must not know: who reads it (`projected.py`, `summary_fold.py`, `agentic_fold.py`).
Read next: `../core/fencing.py`.
"""

from __future__ import annotations

from ..core.calls import shortened
from ..core.fencing import inside
from ..model.messages import AssistantMessage, FilePart, ImagePart, Message, TextPart, ToolCall, ToolResultMessage

Parts = tuple[TextPart | ImagePart | FilePart, ...]


def told(message: Message, limit: int) -> str:
    """Who said what, at most about `limit` characters of it, with head and tail where it is longer."""
    if isinstance(message, AssistantMessage):
        lines = [
            f"assistant calls {part.name}({cut(part.arguments, limit)})"
            if isinstance(part, ToolCall)
            else f"assistant: {cut(part.text, limit)}"
            for part in message.parts
            if isinstance(part, ToolCall | TextPart)
        ]
        return inside("\n".join(lines))
    if isinstance(message, ToolResultMessage):
        text = f"{message.name} {'answered' if message.ok else 'failed'}: {cut(seen(message.content), limit)}"
    else:
        text = f"person: {cut(seen(message.content), limit)}"
    return inside(text)


def seen(content: str | Parts) -> str:
    """The text of content, with words in the place of pictures and files."""
    if isinstance(content, str):
        return content
    return "".join([part.text if isinstance(part, TextPart) else f"[{thing(part)}]" for part in content])


def thing(part: ImagePart | FilePart) -> str:
    """A picture or file in words."""
    name = "picture" if isinstance(part, ImagePart) else f"file {part.name}".rstrip()
    return f"{name}, {part.media_type}"


def cut(text: str, limit: int, why: str = "not shown here") -> str:
    """Head and tail of `text` when it has more than `limit` characters."""
    return str(shortened(text, limit, why))


def line(text: str, limit: int) -> str:
    """`text` on one line, its end left out when it is longer than `limit`."""
    text = " ".join(text[: limit * 4].split())
    return text if len(text) <= limit else f"{text[: max(limit - 1, 1)]}…"
