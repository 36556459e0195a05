"""A tool context without a run, for tests of tool handlers.

Owns: `FakeToolContext`, and the notes and todo list that it has. Must not know: the engine.
Read next: `ports/tool.py` (what a context promises).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.note_rules import NoteChange, with_change
from ..core.text_ranges import encoded, slice_of
from ..model.call_errors import ToolFailure
from ..model.notes import Note, NotesPolicy, TodoItem
from ..ports.cancellation import CancellationToken
from ..ports.tool import OutputSlice
from ..ports.transaction_work import OnCommit, TransactionCursor


class FakeNoteBook:
    """Notes in memory; what is written is there at once. `policy` may be replaced."""

    def __init__(self) -> None:
        self.policy = NotesPolicy()
        self._notes: tuple[Note, ...] = ()

    def all(self) -> tuple[Note, ...]:
        """What was written, oldest first."""
        return self._notes

    def write(self, note_id: str, content: str | None, *, pinned: bool = False) -> None:
        """Writes or deletes a note, whatever the policy says: the tool keeps it."""
        self._notes = with_change(self._notes, NoteChange(note_id, content, pinned))


class FakeTodoList:
    """A todo list in memory."""

    def __init__(self) -> None:
        self._items: tuple[TodoItem, ...] = ()

    def items(self) -> tuple[TodoItem, ...]:
        """What was written last."""
        return self._items

    def write(self, items: tuple[TodoItem, ...]) -> None:
        """Replaces the list, whatever it holds: the tool checks it."""
        self._items = items


class FakeToolContext:
    """Everything a handler can ask of a `ToolContext`, with plain values.

    `outputs` are the stored outputs that `read_output` serves, by id; `notes` and `todo` begin empty. Cancel `cancellation` to stop the handler under test.
    """

    def __init__(
        self,
        *,
        session_id: str = "sess_test",
        call_id: str = "call_test",
        tool_name: str = "tool",
        idempotency_key: str = "0" * 64,
        round_index: int = 1,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        self.session_id = session_id
        self.call_id = call_id
        self.tool_name = tool_name
        self.idempotency_key = idempotency_key
        self.round_index = round_index
        self.cancellation = CancellationToken()
        self.scratch: dict[str, Any] = {}
        self.notes = FakeNoteBook()
        self.todo = FakeTodoList()
        self._outputs = dict(outputs or {})
        self._works: list[OnCommit] = []

    async def read_output(self, artifact_id: str, *, offset: int = 0, limit: int = 20_000) -> OutputSlice:
        """A part of an output given at construction. Raises: `ToolFailure` for an unknown id."""
        if artifact_id not in self._outputs:
            raise ToolFailure(f"no stored output {artifact_id!r}; known: {', '.join(self._outputs) or 'none'}")
        data = encoded(self._outputs[artifact_id])
        return slice_of(data, 0, len(data), offset, limit)

    def on_commit(self, fn: OnCommit) -> None:
        """Keeps the function for `commit`."""
        self._works.append(fn)

    def commit(self, cursor: TransactionCursor) -> None:
        """Calls what was given to `on_commit`, in order and once, as the commit of the result does; any DB-API cursor will do.

        Raises what a function raises; the transaction is yours.
        """
        works, self._works = self._works, []
        for fn in works:
            fn(cursor)
