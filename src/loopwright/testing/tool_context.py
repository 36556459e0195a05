"""A tool context without a run, for tests of tool handlers.

Owns: `FakeToolContext`, and the notes, todo list and timers that it has. Must not know: runs.
Read next: `ports/tool.py` (what a context promises).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ..core.note_rules import NoteChange, with_change
from ..core.recall_rules import RecallSearch
from ..core.text_ranges import encoded, slice_of
from ..core.timer_rules import shown_timer
from ..engine.cron import CronTimes
from ..model.call_errors import ToolFailure
from ..model.notes import Note, NotesPolicy, TodoItem
from ..model.timer_spec import Timer, TimerBody
from ..ports.cancellation import CancellationToken
from ..ports.child_agents import Agents
from ..ports.history import HistoryPiece
from ..ports.tool import InputNeeded, OutputSlice, Woken
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


class FakeTimerBook:
    """Timers in memory, which never fire. `at` is its clock; cron expressions are read as in a run (extra `cron`)."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0
        self.cron = CronTimes()
        self._armed: dict[str, Timer] = {}

    def now(self) -> float:
        """`at`."""
        return self.at

    async def armed(self) -> Sequence[Timer]:
        """What was armed and not cancelled, by due time."""
        return sorted(self._armed.values(), key=lambda timer: (timer.due_at, timer.id))

    def arm(self, timer_id: str, due_at: float, body: TimerBody) -> None:
        """Arms it at once, whatever the bounds say: the tool keeps them."""
        self._armed[timer_id] = shown_timer("sess_test", timer_id, due_at, body)

    def cancel(self, timer_id: str) -> None:
        """Takes it away at once."""
        self._armed.pop(timer_id, None)


class FakeHistory:
    """Pieces in memory, all of which can be found."""

    def __init__(self, pieces: Sequence[HistoryPiece] = ()) -> None:
        self._pieces = tuple(pieces)

    async def pieces(self, label: int) -> AsyncIterator[HistoryPiece]:
        """Those of one send. Raises: `ToolFailure` when there are none."""
        found = [piece for piece in self._pieces if piece.label == label]
        if not found:
            raise ToolFailure(f"no send #{label}")
        for piece in found:
            yield piece

    async def search(
        self, query: str, *, limit: int, from_send: int | None = None, to_send: int | None = None
    ) -> Sequence[HistoryPiece]:
        """As in a session where everything is folded."""
        search = RecallSearch(query)
        for piece in self._pieces:
            if (from_send or 0) <= piece.label and (to_send is None or piece.label <= to_send):
                search.look(piece)
        places = {(piece.label, piece.part): piece for piece in self._pieces}
        return [places[place] for place in search.best(limit)]


class FakeToolContext:
    """Everything a handler can ask of a `ToolContext`, with plain values.

    `outputs` are the stored outputs that `read_output` serves, by id; `notes`, `todo` and `timers` begin empty. `history` is
    what can be recalled. Set `answers` to what a person says to `ask`, one after the other; `asked` is what was asked.
    Cancel `cancellation` to stop the handler under test.
    """

    def __init__(
        self,
        *,
        session_id: str = "sess_test",
        call_id: str = "call_test",
        tool_name: str = "tool",
        idempotency_key: str = "0" * 64,
        outputs: Mapping[str, str] | None = None,
        history: Sequence[HistoryPiece] = (),
    ) -> None:
        self.session_id = session_id
        self.call_id = call_id
        self.tool_name = tool_name
        self.idempotency_key = idempotency_key
        self.round_index = 1
        self.cancellation = CancellationToken()
        self.scratch: dict[str, Any] = {}
        self.notes = FakeNoteBook()
        self.todo = FakeTodoList()
        self.timers = FakeTimerBook()
        self.history = FakeHistory(history)
        self.woken: Woken | None = None
        self.asked: list[InputNeeded] = []
        self.answers: list[Any] = []
        self.told: list[tuple[float, float | None, str]] = []
        """What was given to `progress`."""
        self._outputs = dict(outputs or {})
        self._works: list[OnCommit] = []

    @property
    def agents(self) -> Agents:
        """Raises: `ToolFailure`: children need a loop."""
        raise ToolFailure("agents need a running session; test this tool with a StatefulAgentLoop on memory:")

    async def ask(
        self,
        prompt: str,
        *,
        kind: str = "text",
        options: Sequence[str] = (),
        schema: dict[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> Any:
        """The next of `answers`, unchecked. Raises: `ToolFailure` when there are no more."""
        more = dict(metadata or {}) if source is None else {**(metadata or {}), "source": source}
        self.asked.append(InputNeeded(prompt, kind, tuple(options), schema, more))
        if not self.answers:
            raise ToolFailure(f"nobody answers {prompt!r}; set `answers` of the FakeToolContext")
        return self.answers.pop(0)

    async def read_output(self, artifact_id: str, *, offset: int = 0, limit: int = 20_000) -> OutputSlice:
        """A part of an output given at construction. Raises: `ToolFailure` for an unknown id."""
        if artifact_id not in self._outputs:
            raise ToolFailure(f"no stored output {artifact_id!r}; known: {', '.join(self._outputs) or 'none'}")
        data = encoded(self._outputs[artifact_id])
        return slice_of(data, 0, len(data), offset, limit)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Keeps it in `told`."""
        self.told.append((done, total, message))

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
