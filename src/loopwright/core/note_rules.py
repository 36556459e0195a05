"""The rules of a session's notes: what may be written, what makes room, what the model sees.

Owns: these rules, as functions from notes to changes. Must not know: records, tools, where notes are stored.
Read next: `../model/notes.py`, `../tools/note.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..model.call_errors import NotesFullError, ToolFailure
from ..model.notes import Note, NotesPolicy
from ..prompts import prompt

_SHORTEST_ID = 6
_PREVIEW = 60


class NoteChange(NamedTuple):
    """What becomes of one note."""

    note_id: str
    content: str | None
    """None: the note is deleted."""
    pinned: bool


def new_note_id(key: str, notes: Iterable[Note]) -> str:
    """A short id that no note has, made from the key of the call: a call that is repeated gets the same one."""
    taken = {note.note_id for note in notes}
    lengths = range(_SHORTEST_ID, len(key) + 1)
    return next((f"n{key[:length]}" for length in lengths if f"n{key[:length]}" not in taken), f"n{key}")


def added(notes: tuple[Note, ...], note: Note, policy: NotesPolicy) -> tuple[NoteChange, ...]:
    """The changes that add a note: those that make room, and the note itself.

    Raises: `NotesFullError` when there is no room and none may be made, `ToolFailure` for an empty or too long content.
    """
    content = _checked(note.content, policy)
    others = [kept for kept in notes if kept.note_id != note.note_id]
    too_many = len(others) + 1 - policy.max_notes
    evicted: list[Note] = []
    if too_many > 0:
        loose = [kept for kept in others if not kept.pinned]
        if policy.eviction == "reject" or len(loose) < too_many:
            raise NotesFullError(policy.max_notes, len(others) - len(loose), _preview(notes))
        evicted = loose[:too_many]
    return (
        *[NoteChange(kept.note_id, None, pinned=False) for kept in evicted],
        NoteChange(note.note_id, content, note.pinned),
    )


def updated(
    notes: tuple[Note, ...], note_id: str, content: str | None, pinned: bool | None, policy: NotesPolicy
) -> NoteChange:
    """The change of a note; what is None stays as it is.

    Raises: `ToolFailure` for an unknown id, an empty or too long content, or when nothing is to change.
    """
    old = _known(notes, note_id)
    if content is None and pinned is None:
        raise ToolFailure("update needs content, pinned or both")
    return NoteChange(
        note_id,
        old.content if content is None else _checked(content, policy),
        old.pinned if pinned is None else pinned,
    )


def deleted(notes: tuple[Note, ...], note_id: str) -> NoteChange:
    """The change that deletes a note. Raises: `ToolFailure` for an unknown id."""
    return NoteChange(_known(notes, note_id).note_id, None, pinned=False)


def with_change(notes: tuple[Note, ...], change: NoteChange) -> tuple[Note, ...]:
    """The notes after a change: an updated one keeps its place, a new one is the last, so the oldest is the first."""
    note_id, content, pinned = change
    if content is None:
        return tuple([note for note in notes if note.note_id != note_id])
    changed = Note(note_id, content, pinned)
    if all(note.note_id != note_id for note in notes):
        return (*notes, changed)
    return tuple([changed if note.note_id == note_id else note for note in notes])


def rendered_notes(notes: tuple[Note, ...], max_chars: int) -> str:
    """What the model sees of the notes in each request, at most `max_chars`; "" when there are none, or for 0.

    When not all fit, the oldest unpinned ones are hidden first, then the oldest pinned ones, and a last line counts them.
    """
    if not notes or not max_chars:
        return ""
    header = prompt("notes")
    lines = [_line(note) for note in notes]
    if len(header) + sum(len(line) + 1 for line in lines) <= max_chars:
        return "\n".join([header, *lines])
    room = max_chars - len(header) - 1 - len(_hidden(len(notes)))
    shown: set[int] = set()
    pinned_first = sorted(range(len(notes)), key=lambda index: (not notes[index].pinned, -index))
    for index in pinned_first:
        room -= len(lines[index]) + 1
        if room < 0:
            break
        shown.add(index)
    kept = [line for index, line in enumerate(lines) if index in shown]
    return "\n".join([header, *kept, _hidden(len(notes) - len(kept))])


def listed_notes(notes: tuple[Note, ...]) -> str:
    """All notes in full, oldest first."""
    return "\n".join([_line(note) for note in notes]) or "(no notes)"


def _line(note: Note) -> str:
    # Further lines are indented, so that no note looks like two.
    content = "\n  ".join(note.content.splitlines())
    return f"- [{note.note_id}{', pinned' if note.pinned else ''}] {content}"


def _hidden(count: int) -> str:
    return f"({count} older notes are not shown; the action list shows them)"


def _checked(content: str, policy: NotesPolicy) -> str:
    text = content.strip()
    if not text:
        raise ToolFailure("the content is empty; write the note")
    if len(text) > policy.max_note_chars:
        raise ToolFailure(
            f"the note has {len(text)} characters, {policy.max_note_chars} are allowed; shorten it or make several notes"
        )
    return text


def _known(notes: tuple[Note, ...], note_id: str) -> Note:
    for note in notes:
        if note.note_id == note_id:
            return note
    raise ToolFailure(f"there is no note {note_id!r}; the notes are:\n{_preview(notes)}")


def _preview(notes: tuple[Note, ...]) -> str:
    lines = [_line(Note(note.note_id, " ".join(note.content.split())[:_PREVIEW], note.pinned)) for note in notes]
    return "\n".join(lines) or "(no notes)"
