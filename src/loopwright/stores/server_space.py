"""Figures and space of the tables on a server: counts, sizes, unreferenced artifacts, giving space back.

Owns: what `StoreUpkeep` promises. Must not know: any server's SQL, connections' lives, event loops.
Read next: `server_upkeep.py` for where each of these runs, `sqlite_space.py` for the same in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from ..model.errors import StoreError
from ..ports.store_upkeep import Reclaimed, StoreFigures
from . import server_forks
from .forks import JournalPart
from .server_dialect import ServerConnection, Statements
from .server_line import transaction
from .server_reads import ServerReads

_COUNTS: Final = StoreFigures.__struct_fields__[:10]
"""What `Statements.FIGURES` answers, in its order; then comes the version."""


class SpareArtifact(Struct, frozen=True):
    """An old artifact that no record of its session named when they were looked through."""

    id: int
    artifact_id: str
    session_id: str
    key: int
    position: int
    """Of the session then."""
    complete: int


async def figures(connection: ServerConnection, sql: Statements, cleanup: Sequence[str]) -> StoreFigures:
    """See `StoreUpkeep.figures`; `cleanup` is what migrations left."""
    reads = ServerReads(connection, sql)
    ((*counts, version),) = await reads.snapshot(lambda: connection.rows(sql.FIGURES))
    ((used, free),) = await connection.rows(sql.DISK)
    named: dict[str, Any] = dict(zip(_COUNTS, counts, strict=True))
    return StoreFigures(
        **named, file_bytes=int(used), free_bytes=int(free), schema_version=version, cleanup=tuple(cleanup)
    )


async def session_sizes(connection: ServerConnection, sql: Statements) -> dict[str, int]:
    """See `StoreUpkeep.session_sizes`."""
    return {session_id: int(size) for session_id, size in await connection.rows(sql.SIZES)}


async def spare_artifacts(connection: ServerConnection, sql: Statements, older_than: float) -> list[SpareArtifact]:
    """Old artifacts that no record refers to."""
    old = [SpareArtifact(*row) for row in await connection.rows(sql.OLD_ARTIFACTS, older_than)]
    found: list[SpareArtifact] = []
    for _, group in groupby(old, lambda one: one.key):
        of_session = list(group)
        own = JournalPart(of_session[0].key, 0, of_session[0].position)
        named = await server_forks.names_in(connection, sql, [own])
        found += [one for one in of_session if not one.complete or one.artifact_id not in named]
    return found


async def hide_artifact(one: SpareArtifact, older_than: float, sql: Statements, connection: ServerConnection) -> bool:
    """Makes it unknown, unless something came to refer to it since it was found; then its rows can go."""
    async with transaction(connection, sql.BEGIN, sql):
        # Whatever could come to refer to it is written under this lock.
        if not await connection.rows(sql.HEADS_LOCKED, [one.session_id]):
            return False
        if await connection.rows(sql.REFERS, one.key, one.position, one.artifact_id.encode()):
            return False
        await connection.run(sql.HIDE_ARTIFACT, one.id, older_than)
        return bool(await connection.rows(sql.HIDDEN_LOCKED, one.id, older_than))


async def remove_hidden(one: SpareArtifact, older_than: float, sql: Statements, connection: ServerConnection) -> bool:
    """One batch of rows of a hidden artifact, at last the artifact; False when nothing is left to do."""
    async with transaction(connection, sql.BEGIN, sql):
        if not await connection.rows(sql.HIDDEN_LOCKED, one.id, older_than):
            return False
        await connection.run(sql.SWEEP_HIDDEN_ROWS, one.id)
        if await connection.rows(sql.ARTIFACT_ROW_LEFT, one.id):
            return True
        await connection.run(sql.SWEEP_HIDDEN, one.id)
        return False


async def vacuum(sql: Statements, connection: ServerConnection) -> Reclaimed:
    """See `StoreUpkeep.vacuum`. Each table by itself; others read and write meanwhile."""
    before = await size_on_disk(sql, connection)
    for statement in sql.VACUUM:
        for row in await connection.rows(statement):
            if "error" in [str(value).lower() for value in row]:  # a server that tells by rows, not by errors
                raise StoreError(
                    f"{statement}: {row[-1]}; nothing was lost; free space or ask for the right, then again"
                )
    return Reclaimed(before, await size_on_disk(sql, connection))


async def size_on_disk(sql: Statements, connection: ServerConnection) -> int:
    """Bytes of our tables with their indexes."""
    ((used, _),) = await connection.rows(sql.DISK)
    return int(used)
