"""What a model keeps for itself in a session: notes and a list of things to do.

Owns: the two values. Must not know: bounds (`core/notes.py`, `core/todo.py`), records.
Read next: `context_records.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Literal

from msgspec import Struct

TodoStatus = Literal["pending", "in_progress", "done"]


class Note(Struct, frozen=True, gc=False, omit_defaults=True):
    """One note of a session."""

    note_id: str
    content: str
    pinned: bool = False
    """True: never dropped to make room."""


class TodoItem(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing to do."""

    id: str
    text: str
    status: TodoStatus = "pending"
