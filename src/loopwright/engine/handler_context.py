"""What a tool's handler gets: who it is, and the ways to everything that it may ask for.

Owns: `HandlerContext`; see `ports.tool.ToolContext` for the promises. Must not know: when handlers run (`tool_call.py`).
Read next: `tool_call.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..core.calls import text_of
from ..core.state import OpenCall
from ..late import Late
from ..model.errors import ConfigError, UsageError
from ..model.event_types import AgentEventType
from ..model.records import Effect
from ..ports.cancellation import CancellationToken
from ..ports.tool import InputNeeded, OutputSlice, Woken
from ..ports.transaction_work import OnCommit, TransactionHost
from .outputs import read_slice
from .running import RunContext

if TYPE_CHECKING:
    from ..model.family_records import CallWaits
    from ..ports.history import SessionHistory
    from ..ports.note_book import NoteBook, TodoList
    from ..ports.timer_book import TimerBook
    from . import children, handler_questions, past_sends, session_lists, timer_draft
    from .children import CallChildren
    from .handler_questions import CallQuestions
    from .session_lists import Draft, Written
    from .timer_draft import TimerDraft
else:
    children = Late("loopwright.engine.children")
    handler_questions = Late("loopwright.engine.handler_questions")
    past_sends = Late("loopwright.engine.past_sends")
    session_lists = Late("loopwright.engine.session_lists")
    timer_draft = Late("loopwright.engine.timer_draft")

LONGEST_PROGRESS = 500
"""Characters of what a handler says of its progress."""

Left: TypeAlias = "tuple[tuple[OnCommit, ...], tuple[Written, ...], TimerDraft | None]"
"""What a handler wants done with its result: work in the commit, records, timers."""


class CallMustWait(BaseException):
    """Leaves a handler whose call goes on later; like a cancellation, so that nothing that catches errors holds it up."""

    def __init__(self, waits: CallWaits) -> None:
        super().__init__(waits.child_id)
        self.waits = waits


class CallMustAsk(BaseException):
    """Leaves a handler that asked a person; likewise."""

    def __init__(self, needed: InputNeeded) -> None:
        super().__init__(needed.prompt)
        self.needed = needed


def leaving_in(several: BaseExceptionGroup[BaseException]) -> CallMustWait | CallMustAsk:
    """The first leave among what the tasks of a handler raised; its run again finds the others. Raises `several` without one."""
    left: list[BaseException] = [several]
    while left:
        one = left.pop(0)
        if isinstance(one, CallMustWait | CallMustAsk):
            return one
        if isinstance(one, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", one).exceptions
    raise several


class HandlerContext:
    """What a handler gets; see `ports.tool.ToolContext` for the promises."""

    __slots__ = (
        "_call",
        "_children",
        "_draft",
        "_effect",
        "_is_over",
        "_questions",
        "_run",
        "_timers",
        "_token",
        "_works",
        "call_id",
        "idempotency_key",
        "round_index",
        "scratch",
        "session_id",
        "tool_name",
    )

    def __init__(self, run: RunContext, call: OpenCall, name: str, key: str, effect: Effect) -> None:
        self._run = run
        self._token: CancellationToken | None = None
        self._effect: Effect = effect
        self._works: tuple[OnCommit, ...] = ()
        self._is_over = False
        self._draft: Draft | None = None
        self._call = call
        self._timers: TimerDraft | None = None
        self._children: CallChildren | None = None
        self._questions: CallQuestions | None = None
        self.session_id = run.session_id
        self.call_id = call.call.id
        self.tool_name = name
        self.idempotency_key = key
        self.round_index = run.round
        self.scratch = run.journal.actor.scratch

    @property
    def cancellation(self) -> CancellationToken:
        """Stops with the run; made when a handler first asks, which few do."""
        if self._token is None:
            self._token = self._run.token.child()
        return self._token

    @property
    def history(self) -> SessionHistory:
        """The session's journal as of the last commit."""
        return past_sends.JournalHistory(self._run.kernel.store, self.session_id, self._run.state)

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
        """What a person answers; leaves the handler when nobody did yet."""
        if self._is_over:
            raise UsageError(f"a question of call {self.call_id!r} came after its handler had ended; it is not asked")
        if self._questions is None:
            self._questions = handler_questions.CallQuestions(self._call, self._run.kernel.limits.validate)
        more = dict(metadata or {}) if source is None else {**(metadata or {}), "source": source}
        return self._questions.answer(InputNeeded(prompt, kind, tuple(options), schema, more))

    async def read_output(self, artifact_id: str, *, offset: int = 0, limit: int = 20_000) -> OutputSlice:
        """A part of a stored output of this session, or of what it reads as a fork."""
        return await read_slice(self._run.kernel, self.session_id, artifact_id, offset, limit)

    def on_commit(self, fn: OnCommit) -> None:
        """Work for the transaction that records the result."""
        if self._is_over:
            raise UsageError(f"on_commit of call {self.call_id!r} came after its handler had ended; nothing was noted")
        if self._effect == "pure":
            raise ConfigError(f"tool {self.tool_name!r} is declared pure and must not write; declare it idempotent")
        if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise ConfigError(
                f"on_commit of {self.tool_name!r} takes a synchronous function without yield: it runs inside a commit"
            )
        if not isinstance(self._run.kernel.store, TransactionHost):
            raise ConfigError("on_commit needs a store with transactions: SQLite, PostgreSQL, MySQL or MariaDB")
        self._works = (*self._works, fn)

    @property
    def notes(self) -> NoteBook:
        """The session's notes; what is written is stored with the result."""
        return self._drafted().notes

    @property
    def todo(self) -> TodoList:
        """The session's todo list; likewise."""
        return self._drafted().todo

    @property
    def timers(self) -> TimerBook:
        """The session's timers; what is armed or cancelled is stored with the result."""
        if self._timers is None:
            self._timers = timer_draft.TimerDraft(self._run)
        return self._timers

    def _drafted(self) -> Draft:
        if self._draft is None:
            self._draft = session_lists.Draft(self._run)
        return self._draft

    @property
    def agents(self) -> CallChildren:
        """Children of this session."""
        if self._children is None:
            self._children = children.CallChildren(self._run, self.call_id, self.idempotency_key, self._effect)
        return self._children

    @property
    def woken(self) -> Woken | None:
        """What happened, when the call waited for it."""
        woken = self._call.woken
        return None if woken is None else Woken(woken.why, woken.payload)

    @property
    def spawned(self) -> CallChildren | None:
        """What became of the call's children, for its result; None when it asked for none."""
        return self._children

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """An event, while the handler runs."""
        if not self._is_over:
            told = text_of(message)[:LONGEST_PROGRESS]
            self._run.emit(AgentEventType.TOOL_PROGRESS, self.call_id, self.tool_name, done, total, told)

    def left(self) -> Left:
        """The handler has ended: what it wants done with its result."""
        self._is_over = True
        timed = self._timers if self._timers is not None and self._timers.close() else None
        return self._works, () if self._draft is None else self._draft.close(), timed

    def drop(self) -> None:
        """What it wrote is stored, or will never be."""
        self._is_over = True
        if self._draft is not None:
            self._draft.drop()
        if self._timers is not None:
            self._timers.drop()
