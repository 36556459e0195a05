"""A fold by a model that may look into the parts and keep the session's notes before it writes.

Owns: `AgenticFold`, its tools and their bounds. Must not know: when it is asked, where notes are stored.
Read next: `fold_input.py`, `summary_fold.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..core.calls import with_unique_ids
from ..core.note_rules import NoteChange, added, deleted, new_note_id, updated, with_change
from ..model.call_errors import ToolFailure
from ..model.errors import ConfigError
from ..model.messages import Message, ToolCall, ToolResultMessage, UserMessage
from ..model.notes import Note, NotesPolicy
from ..model.specs import ToolSpec
from ..ports.fold import FoldDesk, FoldResult, FoldTask
from ..ports.llm import LLMRequest, LLMService
from ..prompts import prompt
from .fold_input import LEAST_ROOM, messages_of, room_for, shown, so_far, whole
from .summary_fold import OUTPUT_SHARE, instructed
from .telling import cut

POLICY = NotesPolicy()
MAX_CALLS = 16
"""Calls of one reply that are carried out."""


class AgenticFold(Struct, frozen=True, kw_only=True):
    """Lets a model read the parts, add, change and remove notes of the session, and write the note, in `max_rounds` calls.

    A text without calls counts as the note. Calls of tools that are not there, or with arguments that do not fit, are
    answered with what is wrong; when all rounds went by without a note, the fold has failed and nothing is changed.
    Raises: `ConfigError` for `max_rounds` below 1.
    """

    keep_last_sends: int = 4
    """Newest sends that stay word for word."""
    trigger_ratio: float = 0.75
    """Share of the context budget from which a fold is made in the background."""
    summary_max_tokens: int = 5000
    """What a note may be at most; a quarter of the context budget when that is less."""
    summary_llm: LLMService | None = None
    """Who does it; None: the loop's own model."""
    max_rounds: int = 4
    """Model calls of one fold, at least 1; the last one can only finish."""
    system_prompt: str | None = None
    """Instructions instead of the library's own."""

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ConfigError(f"AgenticFold: max_rounds must be at least 1, not {self.max_rounds!r}")

    @property
    def fold_id(self) -> str:
        """ "agentic"."""
        return "agentic"

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        """The note and what became of notes, or None when the model gave none. Raises: what the desk raises."""
        own = f"{prompt('fold_summary')}\n\n{prompt('fold_agent')}".replace("{rounds}", str(self.max_rounds))
        instructions = instructed(own if self.system_prompt is None else self.system_prompt, task)
        # Half of a request is for the parts as they are first shown, half for what the model reads of them then.
        room = max(room_for(task, instructions) // 2, LEAST_ROOM)
        book = _Desktop(task, max(room // max(self.max_rounds, 1), 200))
        messages: list[Message] = [UserMessage(_overview(task, room))]
        for left in range(self.max_rounds - 1, -1, -1):
            request = LLMRequest(
                messages=tuple(messages),
                system_prompt=instructions,
                tools=_tools() if left else _tools()[-1:],
                tool_choice="auto" if left else "finish",
                max_output_tokens=OUTPUT_SHARE * task.note_tokens,
            )
            reply = await desk.complete(request, llm=self.summary_llm)
            if not reply.tool_calls:
                return book.result(reply.text)
            reply = msgspec.structs.replace(reply, tool_calls=with_unique_ids(reply.tool_calls))
            messages += [reply.message(), *book.answered(reply.tool_calls)]
            if book.note.strip():
                return book.result(book.note)
        return None


class _Desktop:
    """What one fold has read and written so far; an object because calls change it one after the other."""

    def __init__(self, task: FoldTask, page: int) -> None:
        self.note = ""
        self._parts = {part.label: part for part in task.parts}
        self._before = task.notes
        self._notes = task.notes
        self._page = page
        self._left = page

    def result(self, note: str) -> FoldResult | None:
        """What came of the fold; None without a note."""
        if not note.strip():
            return None
        return FoldResult(
            note=note,
            written=tuple([one for one in self._notes if one not in self._before]),
            removed=tuple([one.note_id for one in self._before if one.note_id not in self._ids]),
        )

    def answered(self, calls: tuple[ToolCall, ...]) -> list[ToolResultMessage]:
        """The results of a reply's calls, all of them together at most a page long."""
        self._left = self._page
        results: list[ToolResultMessage] = []
        for number, call in enumerate(calls):
            ok, text = (False, "too many calls in one reply") if number >= MAX_CALLS else self._answer(call)
            results.append(ToolResultMessage(call.id, call.name, text, ok))
        return results

    def _answer(self, call: ToolCall) -> tuple[bool, str]:
        shape = _SHAPES.get(call.name)
        if shape is None:
            return False, f"there is no tool {cut(call.name, 64)!r}; there are {', '.join(_SHAPES)}"
        try:
            given = msgspec.convert(call.parsed(), shape, strict=False)
        except (ValueError, RecursionError) as error:
            return False, f"the arguments do not fit: {cut(str(error), 300)}"
        if isinstance(given, _ReadSend):
            return self._read(given)
        if isinstance(given, _Finish):
            self.note = given.note
            return (True, "done") if given.note.strip() else (False, "the note is empty; give its whole text")
        try:
            return True, self._keep(given)
        except ToolFailure as error:
            return False, str(error)

    def _read(self, given: _ReadSend) -> tuple[bool, str]:
        part = self._parts.get(given.label)
        if part is None:
            return False, f"there is no part #{given.label}; there are {', '.join(f'#{one}' for one in self._parts)}"
        text = whole(part)
        page = text[given.offset : given.offset + self._left]
        end = given.offset + len(page)
        self._left -= len(page)
        if end >= len(text):
            return True, page or f"the part has {len(text)} characters"
        return True, f"{page}\n[{len(text) - end} characters follow: offset {end}, in your next reply]"

    def _keep(self, given: _WriteNote | _RemoveNote) -> str:
        """Changes a note. Raises: `ToolFailure` that says what is wrong."""
        if isinstance(given, _RemoveNote):
            changes: tuple[NoteChange, ...] = (deleted(self._notes, given.note_id),)
        elif given.note_id is not None:
            changes = (updated(self._notes, given.note_id, given.content, given.pinned, POLICY),)
        else:
            changes = added(self._notes, Note(self._new_id(), given.content, given.pinned or False), POLICY)
        for change in changes:
            self._notes = with_change(self._notes, change)
        return f"{'removed' if isinstance(given, _RemoveNote) else 'written as'} {changes[-1].note_id}"

    @property
    def _ids(self) -> set[str]:
        return {note.note_id for note in self._notes}

    def _new_id(self) -> str:
        """An id that no note has; the same fold makes the same ones."""
        count = 0
        while (made := new_note_id(f"{min(self._parts):06x}{count:04x}", self._notes)) in self._ids:
            count += 1
        return made


class _ReadSend(Struct, frozen=True, forbid_unknown_fields=True):
    label: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError("offset must be at least 0")


class _WriteNote(Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    note_id: str | None = None
    pinned: bool | None = None


class _RemoveNote(Struct, frozen=True, forbid_unknown_fields=True):
    note_id: str


class _Finish(Struct, frozen=True, forbid_unknown_fields=True):
    note: str


_SHAPES: dict[str, type[_ReadSend | _WriteNote | _RemoveNote | _Finish]] = {
    "read_send": _ReadSend,
    "write_note": _WriteNote,
    "remove_note": _RemoveNote,
    "finish": _Finish,
}


def _tools() -> tuple[ToolSpec, ...]:
    return tuple([ToolSpec(name, _description(name), _schema(shape)) for name, shape in _SHAPES.items()])


def _description(name: str) -> str:
    return prompt(f"fold/{name}").replace("{chars}", f"{POLICY.max_note_chars:,}")


def _schema(shape: type[Struct]) -> dict[str, Any]:
    """The arguments as every provider takes them: one object, without references."""
    found, parts = msgspec.json.schema_components([shape])
    name = found[0]["$ref"].rpartition("/")[2]
    return {key: value for key, value in parts[name].items() if key != "title"}


def _overview(task: FoldTask, room: int) -> str:
    """The note so far, the session's notes and the parts, each shortened so that all are seen."""
    messages = messages_of(task, room)
    share = max(room // max(len(messages), 1), 40)
    short = [msgspec.structs.replace(one, text=cut(one.text, share)) for one in messages]
    notes = "\n".join([f"[{note.note_id}{', pinned' if note.pinned else ''}] {note.content}" for note in task.notes])
    kept = f"Notes of this conversation:\n{notes}\n\n" if notes else ""
    return so_far(task.prior) + kept + cut(shown(short), room * 2, "read_send shows it")
