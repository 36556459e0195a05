"""What a session keeps beside its messages: notes and a todo list.

Owns: these values and the bounds of notes. Must not know: records, tools, rendering.
Read next: `context_records.py`, `../core/note_rules.py`, `../core/todo_rules.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Literal

from msgspec import Struct

from .errors import ConfigError

LEAST_INJECTED = 500
"""A list shorter than this says hardly more than that it was cut."""

TodoStatus = Literal["pending", "in_progress", "done"]


class Note(Struct, frozen=True, gc=False, omit_defaults=True):
    """One note of a session."""

    note_id: str
    content: str
    pinned: bool = False
    """True: it is not removed to make room, and hidden last."""


class TodoItem(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing to do."""

    id: str
    """Chosen by the model, unique in its list."""
    text: str
    status: TodoStatus = "pending"


class NotesPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a session's notes; an impossible value is a `ConfigError` that lists all problems."""

    max_notes: int = 50
    max_note_chars: int = 1000
    """A longer note is refused and never cut."""
    inject_max_chars: int = 8000
    """Characters of the list that the model sees in each request: 0, or at least 500."""
    eviction: Literal["reject", "fifo"] = "reject"
    """What a note beyond `max_notes` does: it is refused, or the oldest unpinned one makes room."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a positive whole number, not {value!r}"
            for name, value in (("max_notes", self.max_notes), ("max_note_chars", self.max_note_chars))
            if type(value) is not int or value < 1
        ]
        limit = self.inject_max_chars
        if type(limit) is not int or not (limit == 0 or limit >= LEAST_INJECTED):
            problems.append(f"inject_max_chars must be 0 or at least {LEAST_INJECTED}, not {limit!r}")
        if self.eviction not in ("reject", "fifo"):
            problems.append(f"eviction must be reject or fifo, not {self.eviction!r}")
        if problems:
            raise ConfigError(problems)
