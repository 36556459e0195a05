"""What stands behind the window in a request: recalled memory, notes, the todo list, each in a frame of its own.

Owns: order, frames and bounds of these texts. Must not know: who recalls, when a request is made.
What is said here is data in the user's role, never an instruction with the authority of the system. It changes from call
to call, so it stands last, where it disturbs no provider's prefix cache, and is in no journal.
Read next: `note_rules.py`, `todo_rules.py`, `../engine/tail.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.messages import UserMessage
from ..model.notes import Note, TodoItem
from ..prompts import prompt
from .estimate import CHARS_PER_TOKEN, message_tokens, text_tokens
from .fencing import framed, inside
from .note_rules import rendered_notes
from .todo_rules import rendered_todo

NOTES_SHARE = 8
"""Notes may be shown as one part in so many of the context budget."""
SHORTEST_PIECE = 20
"""Tokens of a text that was cut, at least: less says nothing."""


def tail(
    recalled: Sequence[str], notes: tuple[Note, ...], todo: tuple[TodoItem, ...], notes_chars: int
) -> tuple[UserMessage, ...]:
    """The messages behind the window; empty when there is nothing to say. `recalled` are lines made by `fitting`."""
    shown = [
        ("recalled_memory", "\n".join([prompt("tail_memory"), *recalled]) if recalled else ""),
        ("session_notes", inside(rendered_notes(notes, notes_chars))),
        ("todo_list", inside(rendered_todo(todo))),
    ]
    return tuple([UserMessage(framed(tag, text)) for tag, text in shown if text])


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


def notes_room(most: int, budget: int | None) -> int:
    """Characters of the notes in one request: `most`, or less so that they do not fill the context budget."""
    return most if budget is None else min(most, budget * CHARS_PER_TOKEN // NOTES_SHARE)


def _item(text: str, most: int) -> str:
    """One item of a list; further lines are indented, so that no text looks like two."""
    kept = inside(text[:most].strip())
    return "- " + "\n  ".join(kept.splitlines())


def _cut(line: str, tokens: int) -> str:
    kept = line[: len(line) * tokens // max(text_tokens(line), 1)]
    while text_tokens(f"{kept}…") > tokens:
        kept = kept[: len(kept) * 9 // 10]
    return f"{kept}…"
