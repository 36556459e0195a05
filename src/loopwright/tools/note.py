"""The tool through which a model keeps notes.

Owns: `note`, and finding what a session keeps. Must not know: how notes are stored, when the model sees them.
Read next: `../core/note_rules.py`.
"""

from __future__ import annotations

from typing import Literal

from ..core.note_rules import NoteChange, added, deleted, listed_notes, new_note_id, updated
from ..model.call_errors import ToolFailure
from ..model.notes import Note
from ..ports.note_book import SessionLists
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of


def note_tool() -> ToolDefinition:
    """`note`: add, update, delete and list the session's notes. Effect idempotent: changes ride with the result."""

    # Async, and it never awaits: between looking at the notes and writing no other call of the batch can come.
    @tool(description=description_of("note"), effect="idempotent", output_limit=100_000, touches="session")
    async def note(
        action: Literal["add", "update", "delete", "list"],
        ctx: ToolContext,
        content: str | None = None,
        note_id: str | None = None,
        pinned: bool | None = None,
    ) -> str:
        """Keep notes.

        Args:
            action: What to do.
            content: The text of the note, for add and update.
            note_id: Which note, for update and delete.
            pinned: Keep the note when room is needed, for add and update.
        """
        book = lists_of(ctx).notes
        notes = book.all()
        if action == "list":
            return listed_notes(notes)
        if action == "add":
            if content is None:
                raise ToolFailure("add needs content")
            new = Note(new_note_id(ctx.idempotency_key, notes), content, pinned or False)
            changes = added(notes, new, book.policy)
        elif note_id is None:
            raise ToolFailure(f"{action} needs note_id; the action list shows the ids")
        elif action == "update":
            changes = (updated(notes, note_id, content, pinned, book.policy),)
        else:
            changes = (deleted(notes, note_id),)
        for change in changes:
            book.write(change.note_id, change.content, pinned=change.pinned)
        return _told(action, changes, len(book.all()), book.policy.max_notes)

    return note


def lists_of(context: ToolContext) -> SessionLists:
    """What the session keeps. Raises: `ToolFailure` where the run keeps nothing."""
    if not isinstance(context, SessionLists):
        raise ToolFailure("this session keeps no notes and no todo list; go on without")
    return context


def _told(action: str, changes: tuple[NoteChange, ...], count: int, most: int) -> str:
    *evicted, last = changes
    done = {"add": "added", "update": "updated", "delete": "deleted"}[action]
    room = f"; dropped to make room: {', '.join(change.note_id for change in evicted)}" if evicted else ""
    return f"{done} {last.note_id}{room} ({count} of {most} notes)"
