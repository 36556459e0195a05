"""Notes and the todo list as the handler of one call sees and changes them.

Owns: `Draft`: what a call has written, until its result is stored or it failed. Must not know: the rules of notes
(`core/note_rules.py`), commits.
What is written becomes records that ride in the commit of the call's result. Until then the other calls of the batch see
it, so that together they keep the bounds. Read next: `ports/note_book.py`, `tool_call.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from ..config import AgentLoopConfig
from ..core.context_state import ContextFacts
from ..core.note_rules import NoteChange, with_change
from ..model.context_records import NoteWritten, TodoWritten
from ..model.errors import UsageError
from ..model.event_types import AgentEventType
from ..model.notes import Note, NotesPolicy, TodoItem
from .journal import checked_record
from .running import RunContext

Written: TypeAlias = NoteWritten | TodoWritten


class Draft:
    """What one call of a handler writes. Concurrency: from the handler's task or thread, which may outlive its call."""

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self._is_over = False
        self.notes = _Notes(self)
        self.todo = _Todo(self)

    def write(self, record: Written) -> None:
        """Notes a change. Raises: `ConfigError` for what cannot be stored, `UsageError` after the handler has ended."""
        if self._is_over:
            raise UsageError("notes and todo came after the handler had ended; nothing was written")
        checked_record(record, 0.0)
        if isinstance(record, NoteWritten) and record.content is None:
            # Results commit in any order: what another call wrote of this note must not come back after it went.
            self.run.drafted = [
                one for one in self.run.drafted if one[0] is self or not _writes(one[1], record.note_id)
            ]
        self.run.drafted.append((self, record))

    def close(self) -> tuple[Written, ...]:
        """The handler has returned: what it wrote."""
        self._is_over = True
        return tuple([record for draft, record in self.run.drafted if draft is self])

    def drop(self) -> None:
        """It is stored, or will never be."""
        self._is_over = True
        self.run.drafted = [(draft, record) for draft, record in self.run.drafted if draft is not self]

    def facts(self) -> ContextFacts:
        """What is stored."""
        return self.run.state.facts.context or ContextFacts()


def _writes(record: Written, note_id: str) -> bool:
    return isinstance(record, NoteWritten) and record.note_id == note_id


class _Notes:
    """See `ports.note_book.NoteBook`."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @property
    def policy(self) -> NotesPolicy:
        return policy_of(self._draft.run.kernel.config)

    def all(self) -> tuple[Note, ...]:
        notes = self._draft.facts().notes
        for _, record in tuple(self._draft.run.drafted):
            if isinstance(record, NoteWritten):
                notes = with_change(notes, NoteChange(record.note_id, record.content, record.pinned))
        return notes

    def write(self, note_id: str, content: str | None, *, pinned: bool = False) -> None:
        self._draft.write(NoteWritten(note_id, content, pinned))


class _Todo:
    """See `ports.note_book.TodoList`."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def items(self) -> tuple[TodoItem, ...]:
        written = [record for _, record in tuple(self._draft.run.drafted) if isinstance(record, TodoWritten)]
        return written[-1].items if written else self._draft.facts().todo

    def write(self, items: tuple[TodoItem, ...]) -> None:
        self._draft.write(TodoWritten(tuple(items)))


def announce(run: RunContext, written: tuple[Written, ...]) -> None:
    """Tells observers of a todo list that was stored."""
    for record in written:
        if isinstance(record, TodoWritten):
            counts = Counter(item.status for item in record.items)
            run.emit(
                AgentEventType.TODO_UPDATED, record.items, {str(status): count for status, count in counts.items()}
            )


def policy_of(config: AgentLoopConfig) -> NotesPolicy:
    """The bounds of notes that a loop keeps."""
    return config.notes or NotesPolicy()
