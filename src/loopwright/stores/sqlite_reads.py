"""What is read from the SQLite store, and what an operator does to it.

Owns: rows into values, consistent snapshots, deletion in batches, the check. Must not know: threads, leases' rules.
Read next: `sqlite_statements.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ..late import Late
from ..model.errors import SessionGoneError, SessionNotFoundError, StoreCorruptError
from ..ports.store import (
    DueTimer,
    Head,
    InboxItem,
    Lookup,
    SessionQuery,
    StoredRecord,
)
from . import ownership
from . import sqlite_statements as sql
from .derived import KEY_AT, head_of
from .sqlite_schema import Execute

if TYPE_CHECKING:
    from . import sqlite_forks
else:
    sqlite_forks = Late("loopwright.stores.sqlite_forks")

T = TypeVar("T")

_POSITION_MASK = sql.POSITIONS_PER_SESSION - 1


def snapshot(execute: Execute, read: Callable[[], T]) -> T:
    """Runs several reads as of one moment. Raises `StoreCorruptError` for a value of a type that nobody stores there: a
    column of SQLite holds what somebody puts into it."""
    execute("BEGIN")
    try:
        return read()
    except (TypeError, AttributeError) as error:
        raise StoreCorruptError(
            f"a row has a value of another type ({error}); the database was changed: restore a backup"
        ) from error
    finally:
        execute("COMMIT")


SHORT_READ: Final = 2500
"""Records that the event loop reads by itself, about a millisecond; more would keep other sessions waiting.

A thousand messages with the starts and ends of their sends and the checkpoints among them are a few more than 2,000."""


class LongReadError(Exception):
    """More records are asked for than the event loop should read."""


def short_records(execute: Execute, session_id: str, after: int, limit: int | None) -> Sequence[StoredRecord]:
    """`records`, or `LongReadError` when there are too many of them for the event loop."""
    position = _place(execute, session_id)[1]
    if min(position - max(after, 0), position if limit is None else limit) > SHORT_READ:
        raise LongReadError
    return records(execute, session_id, after, limit)


def records(execute: Execute, session_id: str, after: int, limit: int | None) -> Sequence[StoredRecord]:
    """See `Store.read`."""
    place = _place(execute, session_id)
    key, position, base_id, base_position = place
    start = max(after, 0)
    stop = position if limit is None else min(position, start + limit)
    found: list[StoredRecord] = []
    if base_id is not None and start < base_position:
        for part in sqlite_forks.parts_of(execute, sqlite_forks.as_place(*place), start, stop):
            found += _rows(execute, part.key, part.start, part.stop)
    elif start < stop:
        found = _rows(execute, key, start, stop)
    if len(found) != max(stop - start, 0) or (found and found[0].position != start):
        raise StoreCorruptError(
            f"journal of session {session_id!r} has {len(found)} of the records {start} to {stop - 1}; restore a backup"
        )
    return found


def lookup(execute: Execute, session_id: str, item_id: str | None) -> Lookup:
    """See `Store.lookup`."""
    row = execute(sql.HEAD, (session_id,)).fetchone()
    if row is None:
        raise _missing(execute, session_id)
    key = row[KEY_AT]
    waiting = [InboxItem(*item) for item in execute(sql.WAITING, (key,)).fetchall()]
    position = None
    if item_id is not None:
        found = execute(sql.ITEM_POSITION, (key, item_id)).fetchone()
        position = found[0] if found else None
    return Lookup(head_of(row, Owners(execute).remaining_s), tuple(waiting), position)


def heads(execute: Execute, query: SessionQuery) -> Sequence[Head]:
    """See `Store.list`."""
    owners = Owners(execute)
    names = None if query.agent_names is None else json.dumps(query.agent_names)
    statement = sql.LIST if query.parent_id is None else sql.LIST_CHILDREN
    asked = (query.status, names, query.parent_id, query.before, query.limit, query.kind)
    rows = execute(statement, asked).fetchall()
    return [head_of(row, owners.remaining_s) for row in rows]


def timers(execute: Execute, session_id: str) -> Sequence[DueTimer]:
    """See `StoreAdmin.timers`."""
    key = _place(execute, session_id)[0]
    return [DueTimer(session_id, *row) for row in execute(sql.ARMED, (key,)).fetchall()]


def renewed(execute: Execute, session_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Epoch and inbox count of the named sessions that exist."""
    rows = execute(sql.RENEWED, (json.dumps(list(session_ids)),)).fetchall()
    return {session_id: (epoch, inbox_seq) for session_id, epoch, inbox_seq in rows}


def of_kinds(execute: Execute, kinds: Sequence[str]) -> Iterator[tuple[str, StoredRecord]]:
    """Records of some kinds in all sessions, in order within each."""
    for session_id, *record in execute(sql.OF_KINDS, (json.dumps(kinds),)):
        yield session_id, StoredRecord(*record)


class Owners:
    """Which owners live, asked at most once each: finding out may need a look at the process."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._now = ownership.monotonic()
        self._known: dict[str, float] = {}
        self._rows: list[ownership.OwnerRow] | None = None

    def remaining_s(self, owner: str) -> float:
        """Seconds until this owner's leases can be taken."""
        if owner not in self._known:
            row = self._execute(sql.OWNER, (owner,)).fetchone()
            self._known[owner] = ownership.remaining_s(ownership.OwnerRow(*row) if row else None, self._now)
        return self._known[owner]

    def alive(self) -> list[str]:
        """Owners whose leases cannot be taken."""
        return [row.owner for row in self._all() if self._known[row.owner] > 0]

    def gone(self) -> list[tuple[str, float]]:
        """Owners whose leases can be taken, each with the end of its heartbeat."""
        return [(row.owner, row.expires) for row in self._all() if self._known[row.owner] <= 0]

    def _all(self) -> list[ownership.OwnerRow]:
        if self._rows is None:
            self._rows = [ownership.OwnerRow(*row) for row in self._execute(sql.OWNERS).fetchall()]
            self._known.update({row.owner: ownership.remaining_s(row, self._now) for row in self._rows})
        return self._rows


def _rows(execute: Execute, key: int, start: int, stop: int) -> list[StoredRecord]:
    first = key << 32
    # Row by row, not fetched as a whole: thousands of tuples at once would only give the garbage collector work.
    rows = execute(sql.RECORDS, (first + start, first + stop))
    return [StoredRecord(id_ & _POSITION_MASK, kind, version, at, body) for id_, kind, version, at, body in rows]


def _place(execute: Execute, session_id: str) -> tuple[int, int, str | None, int]:
    found: tuple[int, int, str | None, int] | None = execute(sql.KEY_AND_POSITION, (session_id,)).fetchone()
    if found is None:
        raise _missing(execute, session_id)
    return found


def _missing(execute: Execute, session_id: str) -> Exception:
    gone = execute(sql.IS_GONE, (session_id,)).fetchone()
    return SessionGoneError(session_id) if gone else SessionNotFoundError(session_id)
