"""The cursor that work inside a transaction gets, and what becomes of an error of that work.

Owns: rows, the first fault, the end of the cursor; the boundary at which anything that work raises is an `OnCommitError`.
Must not know: any database, threads.
Read next: `sqlite_work.py`, `server_work.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..model.call_errors import OnCommitError
from ..model.errors import UsageError
from ..ports.store import RunInside

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
    """Calls the functions in their order. Raises `OnCommitError` from whatever the first bad one raised or caught."""
    for work in op.works:
        try:
            answer = work(cursor)
        except (Exception, SystemExit) as error:
            raise OnCommitError(op.call_id, said(error)) from error
        if inspect.isawaitable(answer):
            close = getattr(answer, "close", None)
            if close is not None:
                close()
            raise OnCommitError(op.call_id, "the function is not synchronous: it answered something to await")
        if cursor.fault is not None:
            raise OnCommitError(op.call_id, said(cursor.fault)) from cursor.fault


def too_slow(op: RunInside, limit_s: float) -> OnCommitError:
    """The error of work that was not done in time."""
    why = f"it took longer than {limit_s:g} s; do less in it, or do it before, outside of the transaction"
    return OnCommitError(op.call_id, why, limit_s=limit_s)


def said(error: BaseException) -> str:
    """An error in one line, with its kind."""
    return f"{type(error).__name__}: {error}"
