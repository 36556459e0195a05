"""The cursor that work inside a transaction gets, and what becomes of an error of that work.

Owns: rows, the first fault, the end of the cursor; the boundary at which anything that work raises is an `OnCommitError`.
Must not know: any database, threads.
Read next: `sqlite_work.py`, `server_work.py`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..model.call_errors import OnCommitError
from ..model.errors import UsageError
from ..ports.store import RunInside
from ..ports.transaction_work import OnCommit

Send: TypeAlias = Callable[[str, Sequence[Any]], tuple[list[tuple[Any, ...]], int]]
"""Carries out one statement: all its rows, and how many it changed or else answered."""


class WorkCursor:
    """See `TransactionCursor`. Concurrency: one thread at a time; `close` from any."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._rows: list[tuple[Any, ...]] = []
        self._closed = False
        self.rowcount = -1
        self.fault: BaseException | None = None
        """What the first statement that failed raised."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> WorkCursor:
        """See `TransactionCursor.execute`. Raises what the database says, and that again for each later statement."""
        if self._closed:
            raise UsageError("this cursor's transaction is over; use it inside the function given to on_commit only")
        if self.fault is not None:
            raise self.fault
        try:
            rows, self.rowcount = self._send(statement, values)
        except BaseException as error:
            self.fault = error
            raise
        self._rows = rows[::-1]
        return self

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> WorkCursor:
        """See `TransactionCursor.executemany`."""
        count = 0
        for row in rows:
            count += self.execute(statement, row).rowcount
        self.rowcount = count
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """See `TransactionCursor.fetchone`."""
        return self._rows.pop() if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """See `TransactionCursor.fetchall`."""
        rows, self._rows = self._rows[::-1], []
        return rows

    def close(self) -> None:
        """Nothing is carried out any more."""
        self._closed = True


def perform(op: RunInside, cursor: WorkCursor) -> None:
    """Calls the functions in their order. Raises `OnCommitError` from whatever the first bad one raised or caught.

    A `KeyboardInterrupt` in the main thread goes on as such: a person asked the process to end.
    """
    for work in op.works:
        try:
            _call(work, cursor)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise OnCommitError(op.call_id, said(error)) from error
        if cursor.fault is not None:
            raise OnCommitError(op.call_id, said(cursor.fault)) from cursor.fault


def too_slow(op: RunInside, limit_s: float) -> OnCommitError:
    """The error of work that was not done in time."""
    why = f"it took longer than {limit_s:g} s; do less in it, or do it before, outside of the transaction"
    return OnCommitError(op.call_id, why, limit_s=limit_s)


def said(error: BaseException) -> str:
    """An error in one line, with its kind."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except BaseException as odd:  # noqa: BLE001 - a tool's error, whose text is the tool's code too
        return f"{kind} (its text cannot be shown: {type(odd).__name__})"


def _call(work: OnCommit, cursor: WorkCursor) -> None:
    answer = work(cursor)
    if inspect.isawaitable(answer):
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        raise UsageError("the function is not synchronous: it answered something to await")
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise UsageError("the function answered a generator, of which nothing has run; give a function without yield")
