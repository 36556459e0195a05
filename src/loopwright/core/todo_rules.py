"""The rules of a todo list: what a list must be, and what the model sees of it.

Owns: these rules. Must not know: records, tools, where the list is stored.
Read next: `../model/notes.py`, `../tools/todo.py`.
"""

from __future__ import annotations

from collections import Counter

from ..model.call_errors import ToolFailure
from ..model.notes import TodoItem, TodoStatus
from ..prompts import prompt

MAX_ITEMS = 20
MAX_ITEM_CHARS = 500
MAX_ID_CHARS = 64

_MARKS: dict[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


def checked_todo(items: tuple[TodoItem, ...]) -> tuple[TodoItem, ...]:
    """The list with texts trimmed. Raises: `ToolFailure` that names every problem at once."""
    cleaned = tuple([TodoItem(item.id.strip(), " ".join(item.text.split()), item.status) for item in items])
    problems = [problem for place, item in enumerate(cleaned, 1) for problem in _item_problems(place, item)]
    if len(cleaned) > MAX_ITEMS:
        problems.append(f"{len(cleaned)} items, {MAX_ITEMS} are allowed: merge small steps or drop finished ones")
    twice = [name for name, count in Counter(item.id for item in cleaned).items() if count > 1 and name]
    if twice:
        problems.append(f"each id may occur once: {', '.join(twice[:MAX_ITEMS])}")
    running = [item.id for item in cleaned if item.status == "in_progress"]
    if len(running) > 1:
        problems.append(f"one item may be in_progress, not {len(running)}: {', '.join(running[:MAX_ITEMS])}")
    if problems:
        raise ToolFailure("the list was not changed: " + "; ".join(problems))
    return cleaned


def rendered_todo(items: tuple[TodoItem, ...]) -> str:
    """What the model sees of the list in each request; "" for an empty one."""
    return f"{prompt('todo')}\n{listed_todo(items)}" if items else ""


def listed_todo(items: tuple[TodoItem, ...]) -> str:
    """One line an item, and how many are done."""
    done = sum(item.status == "done" for item in items)
    lines = [f"{_MARKS[item.status]} {item.id}: {item.text}" for item in items]
    return "\n".join([*lines, f"({done} of {len(items)} done)"])


def _item_problems(place: int, item: TodoItem) -> list[str]:
    problems: list[str] = []
    if not item.id or len(item.id) > MAX_ID_CHARS or len(item.id.splitlines()) > 1:
        problems.append(f"item {place} needs an id of 1 to {MAX_ID_CHARS} characters in one line")
    if not item.text or len(item.text) > MAX_ITEM_CHARS:
        problems.append(f"item {place} needs a text of 1 to {MAX_ITEM_CHARS} characters")
    return problems[:1] if place > MAX_ITEMS else problems
