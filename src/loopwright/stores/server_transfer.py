"""A session out of the tables on a server, and into them.

Owns: rows of a whole session into values and back, in one transaction. Must not know: any server's SQL, connections'
lives, formats.
Read next: `server_reads.py`, `server_batch.py` for the rows of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ..model.errors import InvariantError, SessionExistsError, StoreUnavailableError
from ..ports.artifact import Artifact
from ..ports.store import DueTimer, Head
from ..ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer
from . import server_forks
from .derived import head_of
from .memory_data import SessionData
from .server_batch import moved_row, new_row
from .server_dialect import ServerConnection, Statements
from .server_line import transaction
from .server_reads import ServerReads
from .slices import slices


async def inventory(connection: ServerConnection, sql: Statements, session_id: str) -> Inventory:
    """See `StoreTransfer.inventory`."""
    reads = ServerReads(connection, sql)

    async def read() -> Inventory:
        found, key = await reads.found(session_id, None)
        known = [KnownItem(*row) for row in await connection.rows(sql.KNOWN_ITEMS, key)]
        timers = [
            StoredTimer(timer_id, due_at, bytes(body), bool(paused))
            for timer_id, due_at, body, paused in await connection.rows(sql.TIMERS, key)
        ]
        before = await server_forks.names_before(connection, sql, await reads.place(session_id))
        artifacts = [Artifact(*row) for row in await connection.rows(sql.ARTIFACTS_OF, key, sorted(before))]
        # Ordered here: ids with odd characters are written otherwise in the tables.
        return Inventory(
            found.head,
            found.waiting,
            tuple(sorted(known, key=lambda one: one.item_id)),
            tuple(sorted(timers, key=lambda one: one.timer_id)),
            tuple(sorted(artifacts, key=lambda one: one.artifact_id)),
        )

    return await reads.snapshot(read)


async def armed(connection: ServerConnection, sql: Statements, session_id: str) -> Sequence[DueTimer]:
    """See `StoreAdmin.timers`."""
    reads = ServerReads(connection, sql)

    async def read() -> Sequence[Sequence[Any]]:
        return await connection.rows(sql.TIMERS, (await reads.place(session_id)).key)

    found = [
        DueTimer(session_id, timer_id, due_at, bytes(body))
        for timer_id, due_at, body, paused in await reads.snapshot(read)
        if not paused
    ]
    return sorted(found, key=lambda one: (one.due_at, one.timer_id))


async def restore(image: SessionImage, asked: list[Head], sql: Statements, connection: ServerConnection) -> Head:
    """See `StoreTransfer.restore`. `asked` is kept from one try to the next: a commit whose answer was lost stands in it."""
    head = structs.replace(image.inventory.head, owner=None, expires_in_s=0.0, base=None)
    async with transaction(connection, sql.BEGIN_DURABLE, sql):
        there = await _locked(image, sql, connection)
        if there and asked:
            if head_of(there[0], lambda _: 0.0) == head:
                return head
            raise StoreUnavailableError(
                f"the connection was lost while session {head.session_id!r} was restored, and others wrote meanwhile;"
                " read the session again before you go on"
            )
        if there:
            raise SessionExistsError(head.session_id)
        await _insert(image, head, sql, connection)
        asked.append(head)
    return head


async def _locked(image: SessionImage, sql: Statements, connection: ServerConnection) -> Sequence[Sequence[Any]]:
    """The row of the session's head, if it is there. Under lock, with those who have the artifacts already: nobody takes
    one away before it is shared."""
    names = [artifact.artifact_id for artifact in image.inventory.artifacts]
    session_id = image.inventory.head.session_id
    rows: list[Sequence[Any]] = []
    held, wanted = set[str](), {session_id, *await _owners(names, sql, connection)}
    while wanted - held:
        rows += await connection.rows(sql.HEADS_LOCKED, sorted(wanted - held))
        held |= wanted
        # Asked again: an artifact may have been passed on while its owner was waited for.
        wanted |= await _owners(names, sql, connection)
    return [row for row in rows if row[0] == session_id]


async def _owners(names: Sequence[str], sql: Statements, connection: ServerConnection) -> set[str]:
    return {row[0] for row in await connection.rows(sql.OWNERS_OF, names)} if names else set()


async def _insert(image: SessionImage, head: Head, sql: Statements, connection: ServerConnection) -> None:
    whole = image.inventory
    await connection.run_many(sql.INSERT_SESSION, [new_row(head)])
    # Asked after the insert, which waits for whoever deletes a session of this id just now.
    if await connection.rows(sql.GONE, [head.session_id]):
        raise SessionExistsError(head.session_id)
    ((_, key),) = await connection.rows(sql.KEYS, [head.session_id])
    await connection.run_many(sql.MOVE_HEAD, [moved_row(key, SessionData(head))])
    records = [(key, n, one.kind, one.version, one.at, one.body) for n, one in enumerate(image.records)]
    if records:
        await connection.run_many(sql.INSERT_RECORD, records)
    waiting = [(key, one.item_id, one.seq, one.kind, one.at, one.body, None) for one in whole.waiting]
    known = [(key, one.item_id, 0, "marked", 0.0, None, one.position) for one in whole.known]
    items = [*waiting, *known]
    if items:
        await connection.run_many(sql.INSERT_ITEM, items)
    timers = [(key, one.timer_id, one.due_at, one.body, int(one.paused), head.agent_name) for one in whole.timers]
    if timers:
        await connection.run_many(sql.RESTORE_TIMER, timers)
    for artifact, data in zip(whole.artifacts, image.artifact_data, strict=True):
        await _insert_artifact(artifact, data, key, head, sql, connection)


async def _insert_artifact(
    artifact: Artifact, data: bytes, key: int, head: Head, sql: Statements, connection: ServerConnection
) -> None:
    if await connection.rows(sql.ARTIFACT_STATE, artifact.artifact_id):
        known = await ServerReads(connection, sql).artifact(artifact.artifact_id)
        if known is None or known.digest != artifact.digest:
            raise InvariantError(f"an artifact of session {head.session_id!r} has the id of another session's")
        if not await connection.rows(sql.HEAD, known.session_id):
            raise StoreUnavailableError(
                f"artifact {artifact.artifact_id!r} is still there of session {known.session_id!r}, which was deleted;"
                " nothing was stored; `loopwright db vacuum` removes what deletions left, then try again"
            )
        await connection.run(sql.SHARE_ARTIFACTS, key, [artifact.artifact_id])
        return
    values = (artifact.artifact_id, head.session_id, artifact.media_type, artifact.size, artifact.digest)
    await connection.run(sql.BEGIN_ARTIFACT, *values)
    ((id_, _),) = await connection.rows(sql.ARTIFACT_STATE, artifact.artifact_id)
    for n, part in slices(data):
        await connection.run(sql.ARTIFACT_ROW, id_, n, part)
    await connection.run(sql.FINISH_ARTIFACT, id_)
