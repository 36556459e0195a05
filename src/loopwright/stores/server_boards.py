"""Boards on a database server: the row of a board is locked, its entries are judged and written back in one transaction.

Owns: `Board` of `ServerStore`. Must not know: any server's SQL, the rules of a write (see `kept_boards.py`).
Read next: `postgres_boards.py` and `mysql_boards.py` for the statements.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from ..late import Late
from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
from .server_dialect import ServerConnection, Statements
from .server_line import transaction
from .server_memories import ServerMemories

if TYPE_CHECKING:
    from . import kept_boards
else:
    kept_boards = Late("loopwright.stores.kept_boards")


class ServerBoards(ServerMemories):
    """Boards over the connections that `ServerUpkeep` names. A write whose answer was lost is tried again: a post is found by
    its key, a change by its text, and that entries went is remembered."""

    async def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> BoardEntry:
        """See `Board.post_entry`."""
        if not post.key:
            post = structs.replace(post, key=kept_boards.OWN_KEY + os.urandom(16).hex())
        decide = kept_boards.posting(post, policy)
        return await self._entry_moved(post.board_id, 0, post.key, decide)

    async def read_board(self, board_id: str, *, kind: str | None = None, after: int = 0) -> Sequence[BoardEntry]:
        """See `Board.read_board`."""
        kept_boards.check_name(board_id, "board_id", board_id)
        sql = self._dialect.statements.BOARDS.READ
        rows = await self._reading_does(lambda connection: connection.rows(sql, board_id, after))
        return kept_boards.shown(board_id, [kept_boards.BoardRow(*row) for row in rows], kind, after)

    async def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> BoardEntry:
        """See `Board.update_entry`."""
        decide = kept_boards.changing(change, policy)
        return await self._entry_moved(change.board_id, change.entry_id, "", decide)

    async def remove_entry(self, board_id: str, entry_id: int, *, version: int | None = None) -> bool:
        """See `Board.remove_entry`."""
        decide = kept_boards.removing(board_id, entry_id, version)
        seen: list[int] = []
        sql = self._dialect.statements
        await self._job(partial(_moved, sql, (board_id, entry_id, ""), decide, seen))
        return bool(seen)

    def drop_board(self, board_id: str) -> Awaitable[int]:
        """See `Board.drop_board`."""
        kept_boards.check_name(board_id, "board_id", board_id)
        return self._job(partial(_drop, self._dialect.statements, board_id, set[int]()))

    async def _entry_moved(self, board_id: str, entry_id: int, key: str, decide: kept_boards.Decision) -> BoardEntry:
        sql = self._dialect.statements
        done = await self._job(partial(_moved, sql, (board_id, entry_id, key), decide, list[int]()))
        return kept_boards.entry_shown(board_id, done)


async def _moved(
    sql: Statements,
    asked: tuple[str, int, str],
    decide: kept_boards.Decision,
    seen: list[int],
    connection: ServerConnection,
) -> kept_boards.BoardMove:
    """`seen` gets the ids of entries that go, and is kept from one try to the next: the one before may have lost its answer."""
    board_id, boards = asked[0], sql.BOARDS
    async with transaction(connection, sql.BEGIN_DURABLE, sql):
        await connection.run(boards.ADD, board_id)
        ((counter,),) = await connection.rows(boards.LOCKED, board_id)
        rows = [kept_boards.BoardRow(*row) for row in await connection.rows(boards.ROWS, *asked)]
        done = decide(rows, counter)
        for entry_id in done.gone:
            seen.append(entry_id)
            await connection.run(boards.REMOVE, board_id, entry_id)
        if done.added is not None:
            await connection.run(boards.INSERT, board_id, *done.added)
        if (row := done.changed) is not None:
            await connection.run(boards.CHANGE, row.version, row.updated_at, row.body, board_id, row.entry_id)
        if done.counter != counter:
            await connection.run(boards.COUNT, done.counter, board_id)
    return done


async def _drop(sql: Statements, board_id: str, seen: set[int], connection: ServerConnection) -> int:
    boards = sql.BOARDS
    async with transaction(connection, sql.BEGIN_DURABLE, sql):
        await connection.run(boards.ADD, board_id)
        await connection.rows(boards.LOCKED, board_id)
        for row in await connection.rows(boards.ROWS, board_id, 0, ""):
            seen.add(row[0])
        await connection.run(boards.DROP, board_id)
    return len(seen)
