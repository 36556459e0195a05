"""A tool's own statements inside a transaction of ours on a SQLite file.

Owns: what such statements may do, enforced by SQLite itself for each of them, and for how long. Must not know: transitions.
Read next: `work_cursor.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import apsw

from ..model.errors import UsageError
from ..ports.store import RunInside
from .work_cursor import WorkCursor, perform, too_slow

LIMIT_S: Final = 0.05
"""Every other writer of the file waits meanwhile, and the event loop may."""

STEPS: Final = 1000
"""SQLite looks at the clock after so many steps of its machine: some ten microseconds."""

_ALLOWED: Final = frozenset({
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_INSERT,
    apsw.SQLITE_UPDATE,
    apsw.SQLITE_DELETE,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
})  # fmt: skip
"""Data in, data out. No transaction, savepoint, schema, ATTACH, PRAGMA."""

_OF_THE_STORE: Final = (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.NoMemError)
"""Faults of the file, whose statement ever meets them."""


def run_inside(connection: apsw.Connection, op: RunInside) -> None:
    """Does the work in the open transaction. Raises `OnCommitError`, or a fault of the file; what was written is the
    caller's to undo, and the transaction itself may be undone already.

    The cursor keeps no statement open, and whatever the work does, the connection is afterwards as it was.
    """
    deadline = time.monotonic() + LIMIT_S
    native = connection.cursor()

    def send(statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        if not connection.in_transaction:
            raise UsageError("a statement before this one undid the transaction")
        before = connection.total_changes()
        # Not from the cache: a statement of ours that is spelled the same was prepared without asking `_judged`.
        try:
            found: Any = native.execute(statement, values or None, can_cache=False)  # pyright: ignore[reportUnknownMemberType]
        except apsw.AuthError as error:
            raise UsageError(
                f"on_commit reads and writes data in tables of your own, nothing else ({error})"
            ) from error
        rows: list[tuple[Any, ...]] = found.fetchall()
        return rows, len(rows) if connection.total_changes() == before else connection.changes()

    cursor = WorkCursor(send)
    connection.authorizer = _judged
    connection.set_progress_handler(lambda: time.monotonic() >= deadline, STEPS)
    try:
        perform(op, cursor)
    except Exception as error:
        if isinstance(cursor.fault, _OF_THE_STORE):
            raise cursor.fault from error
        if time.monotonic() >= deadline:
            raise too_slow(op, LIMIT_S) from error
        raise
    finally:
        cursor.close()
        native.close(True)
        connection.set_progress_handler(None)
        connection.authorizer = None
    if time.monotonic() >= deadline:
        raise too_slow(op, LIMIT_S)


def _judged(action: int, first: str | None, _second: str | None, _database: str | None, _inner: str | None) -> int:
    """SQLite asks for each thing that a statement would do, also by way of views and triggers."""
    if action not in _ALLOWED or (first or "").lower().startswith("lw_"):
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK
