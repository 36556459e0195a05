"""The seam to what a session keeps beside its messages: notes and a todo list, as a tool's handler sees them.

Owns: `NoteBook`, `TodoList`, and `SessionLists`, which a tool context is where a run keeps them. Must not know: records, the rules of what may be written.
Read next: `tool.py`, `../core/note_rules.py`, `../core/todo_rules.py`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..model.notes import Note, NotesPolicy, TodoItem


class NoteBook(Protocol):
    """The notes of a session, as a handler sees and changes them."""

    @property
    def policy(self) -> NotesPolicy:
        """The bounds that hold in this session; whoever writes keeps them."""
        ...

    def all(self) -> tuple[Note, ...]:
        """The notes, oldest first: the stored ones with the changes of this call and of calls that run beside it."""
        ...

    def write(self, note_id: str, content: str | None, *, pinned: bool = False) -> None:
        """Writes a note, or deletes it with None; stored in the commit that records this call's result, or not at all."""
        ...


class TodoList(Protocol):
    """The todo list of a session, as a handler sees and changes it."""

    def items(self) -> tuple[TodoItem, ...]:
        """The list: the stored one, or the last one written by this call or by calls that run beside it."""
        ...

    def write(self, items: tuple[TodoItem, ...]) -> None:
        """Replaces the list; stored in the commit that records this call's result, or not at all."""
        ...


@runtime_checkable
class SessionLists(Protocol):
    """What a `ToolContext` is besides, where the run keeps notes and a todo list for its session.

    From the handler's task or thread; what is written after the handler has returned is not taken.
    """

    @property
    def notes(self) -> NoteBook:
        """The session's notes."""
        ...

    @property
    def todo(self) -> TodoList:
        """The session's todo list."""
        ...
