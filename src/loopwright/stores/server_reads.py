"""What is read from a server: rows into values, as of one moment where several statements belong together.

Owns: reading. Must not know: any server, connections' lives, locks.
Read next: `server_batch.py` for writing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ..model.errors import SessionGoneError, SessionNotFoundError, StoreCorruptError
from ..ports.artifact import Artifact
from ..ports.store import Claimable, ClaimQuery, DueTimer, Head, InboxItem, Lookup, SessionQuery, StoredRecord
from ..ports.store_admin import StoreProblem, UncertainCall
from . import ownership, server_forks
from .budget_guard import budget_problem
from .derived import KEY_AT, head_of, soonest, timer_names
from .effect_ledger import LEDGER_KINDS, uncertain_calls
from .forks import JournalPlace
from .server_dialect import ServerConnection, Statements
from .slices import bytes_of, damage_of, rows_of

T = TypeVar("T")


class ServerReads:
    """The reads of one connection."""

    def __init__(self, connection: ServerConnection, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql

    async def snapshot(self, read: Callable[[], Awaitable[T]]) -> T:
        """Several statements as of one moment."""
        await self._connection.run(self._sql.BEGIN_READ)
        try:
            return await read()
        finally:
            await self._connection.run(self._sql.COMMIT)

    async def records(self, session_id: str, after: int, limit: int | None) -> Sequence[StoredRecord]:
        """See `Store.read`."""

        async def read() -> Sequence[StoredRecord]:
            place = await self.place(session_id)
            start = max(after, 0)
            stop = place.position if limit is None else min(place.position, start + limit)
            found: list[StoredRecord] = []
            for part in await server_forks.parts_of(self._connection, self._sql, place, start, stop):
                rows = await self._connection.rows(self._sql.RECORDS, part.key, part.start, part.stop)
                found += [StoredRecord(at, kind, version, when, bytes(body)) for at, kind, version, when, body in rows]
            if len(found) != max(stop - start, 0) or (found and found[0].position != start):
                raise StoreCorruptError(
                    f"journal of session {session_id!r} has {len(found)} of the records {start} to {stop - 1};"
                    " restore a backup"
                )
            return found

        return await self.snapshot(read)

    async def lookup(self, session_id: str, item_id: str | None) -> Lookup:
        """See `Store.lookup`."""
        found, _ = await self.snapshot(lambda: self.found(session_id, item_id))
        return found

    async def found(self, session_id: str, item_id: str | None) -> tuple[Lookup, int]:
        """See `Store.lookup`; and the number that the session's other rows refer to. Inside a snapshot."""
        head, key = await self._head(session_id)
        items = [InboxItem(*row) for row in await self._connection.rows(self._sql.WAITING, key)]
        position = None
        if item_id is not None:
            found = await self._connection.rows(self._sql.ITEM_POSITION, key, item_id)
            position = found[0][0] if found else None
        return Lookup(head, tuple(items), position), key

    async def place(self, session_id: str) -> JournalPlace[int]:
        """Where a session's own records are. Raises `SessionNotFoundError`, `SessionGoneError`."""
        rows = await self._connection.rows(self._sql.HEAD, session_id)
        if not rows:
            await self._missing(session_id)
        return server_forks.as_place(*rows[0])

    async def heads(self, query: SessionQuery) -> Sequence[Head]:
        """See `Store.list`."""
        names = None if query.agent_names is None else list(query.agent_names)
        rows = await self._connection.rows(
            self._sql.LIST, query.status, names, query.parent_id, query.before, query.limit, query.kind
        )
        return [self._head_of(row) for row in rows]

    async def claimable(self, query: ClaimQuery) -> Claimable:
        """See `Store.claim`."""
        names = list(query.agent_names)
        interrupted: Sequence[Any] = ()
        if not query.timers_only:
            dead = list(ownership.abandoned())
            interrupted = await self._connection.rows(self._sql.INTERRUPTED, names, dead, query.max_format, query.limit)
        due: list[DueTimer] = []
        later: list[float | None] = []
        for name in timer_names(query):
            asked = name, query.now, query.max_format, names
            rows = await self._connection.rows(self._sql.DUE, *asked, query.limit)
            due += [DueTimer(session_id, timer_id, at, bytes(body)) for session_id, timer_id, at, body in rows]
            later.append((await self._connection.rows(self._sql.NEXT_DUE, *asked))[0][0])
        return Claimable(tuple([self._head_of(row) for row in interrupted]), *soonest(query, due, later))

    async def renewed(self, session_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Epoch and inbox count of the named sessions that exist."""
        rows = await self._connection.rows(self._sql.RENEWED, list(session_ids))
        return {session_id: (epoch, inbox_seq) for session_id, epoch, inbox_seq in rows}

    async def uncertain(self) -> Sequence[UncertainCall]:
        """See `StoreAdmin.uncertain_calls`."""
        rows = await self._connection.rows(self._sql.OF_KINDS, list(LEDGER_KINDS))
        return uncertain_calls(
            (session_id, StoredRecord(position, kind, version, at, bytes(body)))
            for session_id, position, kind, version, at, body in rows
        )

    async def artifact(self, artifact_id: str) -> Artifact | None:
        """What is known about a complete artifact."""
        rows = await self._connection.rows(self._sql.ARTIFACT, artifact_id)
        return Artifact(*rows[0][1:]) if rows else None

    async def artifact_data(self, artifact_id: str, offset: int, limit: int | None) -> bytes:
        """Bytes from `offset`; b"" past the end and for an unknown artifact."""
        rows = await self._connection.rows(self._sql.ARTIFACT, artifact_id)
        if not rows:
            return b""
        id_, size = rows[0][0], rows[0][4]
        wanted = rows_of(size, offset, limit)
        if not wanted:
            return b""
        parts = await self._connection.rows(self._sql.ARTIFACT_ROWS, id_, wanted.start, wanted.stop)
        return bytes_of(artifact_id, parts, size=size, offset=offset, limit=limit)

    async def problems(self) -> list[StoreProblem]:
        """See `StoreAdmin.check`."""
        todo = "export what can be read, then delete the session"
        found: list[StoreProblem] = []
        for session_id, position, count, first, last in await self._connection.rows(self._sql.GAPS):
            what = f"the head is at position {position}, the journal has {count} records from {first} to {last}"
            found.append(StoreProblem(session_id, what, todo))
        for (session_id,) in await self._connection.rows(self._sql.HEADS_ASTRAY):
            what = "window start, checkpoint or inbox count of the head do not fit its journal"
            found.append(StoreProblem(session_id, what, todo))
        for session_id, base_id, base_position in await self._connection.rows(self._sql.FORKS_ASTRAY):
            what = f"it is a fork, and session {base_id} has not the records before {base_position} that it reads of it"
            found.append(StoreProblem(session_id, what, "restore a backup"))
        for session_id, *artifact in await self._connection.rows(self._sql.ARTIFACTS_ASTRAY):
            found.append(StoreProblem(session_id, *damage_of(*artifact)))
        for key, held, open_ in await self._connection.rows(self._sql.BUDGETS_ASTRAY):
            found.append(StoreProblem(None, *budget_problem(key, held, open_)))
        for (count,) in await self._connection.rows(self._sql.STRAYS):
            if count:
                what = f"{count} records belong to no session"
                found.append(
                    StoreProblem(None, what, "they do no harm; copy the sessions to a new database to lose them")
                )
        return found

    async def _head(self, session_id: str) -> tuple[Head, int]:
        rows = await self._connection.rows(self._sql.HEAD_AND_LEFT, session_id)
        if not rows:
            await self._missing(session_id)
        return self._head_of(rows[0]), rows[0][KEY_AT]

    def _head_of(self, row: Sequence[Any]) -> Head:
        """A head from `HEAD_COLUMNS` and how long its owner is still alive."""
        *columns, left = row
        return head_of(columns, lambda owner: 0.0 if ownership.is_abandoned(owner) else max(left or 0.0, 0.0))

    async def _missing(self, session_id: str) -> None:
        if await self._connection.rows(self._sql.GONE, [session_id]):
            raise SessionGoneError(session_id)
        raise SessionNotFoundError(session_id)
