"""Forks on a server: finding the links of a chain, and giving others what they need of a session that goes.

Owns: rows of other sessions that belong to a fork, artifacts that several sessions hold. Must not know: any server's SQL,
connections' lives, who may go.
Every function runs inside a transaction: a snapshot for reading, the heads under lock for writing.
Read next: `forks.py`, `server_batch.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..ports.store import ForkPoint
from .forks import JournalPart, JournalPlace, parts
from .references import artifact_ids_in
from .server_dialect import ServerConnection, Statements

_PAGE: Final = 1000
"""Records whose bodies are looked through at once."""


def as_place(key: int, position: int, base_id: str | None, base_position: int) -> JournalPlace[int]:
    """The place that a row of `Statements.HEAD` says."""
    return JournalPlace(key, position, None if base_id is None else ForkPoint(base_id, base_position))


async def chain(
    connection: ServerConnection, sql: Statements, session_id: str, start: int
) -> dict[str, JournalPlace[int]]:
    """The places of a session and of the links below it that have positions from `start` on, as far as they are there."""
    found: dict[str, JournalPlace[int]] = {}
    asked: str | None = session_id
    # One round trip for some hundred links: servers bound how deep one statement goes.
    while asked is not None:
        rows = await connection.rows(sql.CHAIN, asked, start)
        found |= {link: as_place(*place) for link, *place in rows}
        last = found[rows[-1][0]].base if rows else None
        asked = last.session_id if last is not None and start < last.position else None
    return found


async def parts_of(
    connection: ServerConnection, sql: Statements, own: JournalPlace[int], start: int, stop: int
) -> list[JournalPart[int]]:
    """Where these positions lie; asks nothing where all of them are the session's own."""
    if start >= stop:
        return []
    below: dict[str, JournalPlace[int]] = {}
    if own.base is not None and start < own.base.position:
        below = await chain(connection, sql, own.base.session_id, start)
    return parts(own, start, stop, below.get)


async def names_before(connection: ServerConnection, sql: Statements, own: JournalPlace[int]) -> set[str]:
    """Ids of artifacts that stand in the records which a fork reads of its base."""
    if own.base is None:
        return set()
    return await names_in(connection, sql, await parts_of(connection, sql, own, 0, own.base.position))


async def names_in(connection: ServerConnection, sql: Statements, among: Sequence[JournalPart[int]]) -> set[str]:
    """Ids of artifacts that stand in these records."""
    named: set[str] = set()
    for part in among:
        # Page by page: all bodies of a long session at once might not fit into memory.
        for start in range(part.start, part.stop, _PAGE):
            stop = min(start + _PAGE, part.stop)
            for (body,) in await connection.rows(sql.NAMING_ARTIFACTS, part.key, start, stop):
                named |= artifact_ids_in(bytes(body))
    return named


async def let_have(
    connection: ServerConnection,
    sql: Statements,
    key: int,
    copied: Sequence[JournalPart[int]],
    base: ForkPoint | None,
) -> None:
    """Gives a fork these records as its own, with a hold on the artifacts in them; it reads on from `base`."""
    for part in copied:
        await connection.run(sql.COPY_RECORDS, key, part.key, part.start, part.stop)
    if named := await names_in(connection, sql, copied):
        await connection.run(sql.SHARE_ARTIFACTS, key, sorted(named))
    further = (None, None) if base is None else (base.session_id, base.position)
    await connection.run(sql.REBASE, *further, key)


async def pass_on(connection: ServerConnection, sql: Statements, gone: Sequence[int]) -> None:
    """Artifacts of sessions that went (their keys) become those of somebody who holds them as well, where there is one."""
    if heirs := await connection.rows(sql.HEIRS, gone):
        await connection.run_many(sql.PASS_ON, heirs)
        await connection.run_many(sql.DROP_SHARE, heirs)
