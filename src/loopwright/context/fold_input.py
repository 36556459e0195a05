"""What a fold is made of, as text of a bounded size.

Owns: how parts are rendered, and which of them go into one request. Must not know: models, what is made of it.
Read next: `summary_fold.py`, `agentic_fold.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..core.estimate import CHARS_PER_TOKEN
from ..core.fencing import framed, inside
from ..ports.fold import FoldedPart, FoldTask
from .telling import cut, told

LEAST_ROOM = 1_000
"""Characters that one request may always hold of the parts, however small the budget is."""
MESSAGE_CHARS = 4_000
"""Characters of one message that go into a note; of a longer one head and tail."""


class Told(Struct, frozen=True):
    """A message as text, with the part that it is from."""

    label: int
    text: str


def room_for(task: FoldTask, prompt: str) -> int:
    """Characters of the parts that fit into one request, beside its instructions, the note so far and the new one."""
    taken = len(prompt) + 2 * task.note_tokens * CHARS_PER_TOKEN
    return max(task.input_tokens * CHARS_PER_TOKEN - taken, LEAST_ROOM)


def messages_of(task: FoldTask, room: int) -> list[Told]:
    """All messages of the parts in order, each of them small enough for a request."""
    limit = min(MESSAGE_CHARS, room // 2)
    texts = [(part.label, told(message, limit).strip()) for part in task.parts for message in part.messages]
    return [Told(label, cut(text, room)) for label, text in texts if text]


def filled(messages: Sequence[Told], room: int) -> int:
    """How many of the first messages fit into `room` characters; at least one."""
    size = 0
    for count, message in enumerate(messages):
        size += len(message.text) + 1
        if size > room and count:
            return count
    return len(messages)


def shown(messages: Sequence[Told]) -> str:
    """The messages in the frames of their parts."""
    return "\n\n".join([framed("folded_send", text, label) for label, text in _by_part(messages)])


def so_far(note: str | None) -> str:
    """The note so far in its frame; "" when there is none."""
    return framed("conversation_so_far", inside(note)) + "\n\n" if note else ""


def whole(part: FoldedPart) -> str:
    """A part as text, word for word."""
    return "\n".join([told(message, 1 << 62) for message in part.messages])


def _by_part(messages: Sequence[Told]) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    for place, message in enumerate(messages):
        lines.append(message.text)
        if place + 1 == len(messages) or messages[place + 1].label != message.label:
            yield message.label, "\n".join(lines)
            lines = []
