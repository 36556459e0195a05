"""What stands behind the window in a request: recalled memory, notes, the todo list, each in a frame of its own.

Owns: order, frames and bounds of these texts. Must not know: who recalls, when a request is made.
What is said here is data in the user's role, never an instruction with the authority of the system. It changes from call
to call, so it stands last, where it disturbs no provider's prefix cache, and is in no journal.
Read next: `note_rules.py`, `todo_rules.py`, `../engine/tail.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.messages import UserMessage
from ..model.notes import Note, TodoItem
from ..prompts import prompt
from .estimate import CHARS_PER_TOKEN, message_tokens, text_tokens
from .fencing import framed, inside
from .note_rules import rendered_notes
from .todo_rules import rendered_todo

TAIL_SHARE = 4
"""The tail may be one part in so many of the context budget."""
SHORTEST_PIECE = 20
"""Tokens of a text that was cut, at least: less says nothing."""


def tail(
    recalled: Sequence[str],
    notes: tuple[Note, ...],
    todo: tuple[TodoItem, ...],
    notes_chars: int,
    room: int | None = None,
) -> tuple[UserMessage, ...]:
    """The messages behind the window; empty when there is nothing to say. `recalled` are lines made by `fitting`.

    `room`: tokens that all of them may be, estimated, by `tail_room`: half of it for notes, half for the todo list, and
    for memory what these leave. None: as long as they are.
    """
    half = None if room is None else room // 2
    said = [
        _within("session_notes", lambda most: rendered_notes(notes, min(most, notes_chars)), notes_chars, half),
        _within("todo_list", lambda most: rendered_todo(todo)[:most], len(rendered_todo(todo)), half),
    ]
    lists = [message for message in said if message is not None]
    left = None if room is None else room - sum([message_tokens(message) for message in lists])
    memory = "\n".join([prompt("tail_memory"), *recalled]) if recalled else ""
    first = _within("recalled_memory", lambda most: memory[:most], len(memory), left)
    return tuple(lists if first is None else [first, *lists])


def _within(tag: str, shown: Callable[[int], str], most: int, room: int | None) -> UserMessage | None:
    """The framed text with the most characters, at most `most`, that is no more than `room` tokens; None without any."""
    while most > 0 and (text := inside(shown(most))):
        message = UserMessage(framed(tag, text))
        if room is None or (size := message_tokens(message)) <= room:
            return message
        most = min(min(most, len(text)) * max(room, 0) // size, most - 1)
    return None


def fitting(texts: Sequence[str], budget_tokens: int) -> tuple[str, ...]:
    """What of `texts`, best first, is shown for at most `budget_tokens`, frame included, as one list item each.

    The one that goes over the budget is cut there, and those behind it are left out.
    """
    left = budget_tokens - message_tokens(UserMessage(framed("recalled_memory", prompt("tail_memory"))))
    lines: list[str] = []
    for text in texts:
        if left < SHORTEST_PIECE:
            break
        line = _item(text, 2 * left * CHARS_PER_TOKEN)
        cost = text_tokens(line) + 1
        if cost > left:
            line = _cut(line, left - 1)
            cost = left
        lines.append(line)
        left -= cost
    return tuple(lines)


def tail_room(budget: int | None, ratio: float) -> int | None:
    """Estimated tokens of the whole tail, for a model with so many real tokens for one of our estimate."""
    return None if budget is None else int(budget / ratio) // TAIL_SHARE


def _item(text: str, most: int) -> str:
    """One item of a list; further lines are indented, so that no text looks like two."""
    kept = inside(text[:most].strip())
    return "- " + "\n  ".join(kept.splitlines())


def _cut(line: str, tokens: int) -> str:
    kept = line[: len(line) * tokens // max(text_tokens(line), 1)]
    while text_tokens(f"{kept}…") > tokens:
        kept = kept[: len(kept) * 9 // 10]
    return f"{kept}…"
