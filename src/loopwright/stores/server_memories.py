"""Memories on a database server: which call runs on which connection, and in which order its statements.

Owns: `MemoryIndex` of `ServerStore`. Must not know: any server's SQL, words, queries.
Read next: `search_terms.py`; `postgres_memories.py` and `mysql_memories.py` for the statements.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..late import Late
from ..ports.memory_index import MemoryEntry, MemoryHit
from .server_dialect import ServerConnection, Statements
from .server_line import transaction
from .server_upkeep import ServerUpkeep

if TYPE_CHECKING:
    from ..core import words
    from . import kept_memories, search_terms
else:
    words = Late("loopwright.core.words")
    kept_memories = Late("loopwright.stores.kept_memories")
    search_terms = Late("loopwright.stores.search_terms")


class ServerMemories(ServerUpkeep):
    """Memories over the connections that `ServerUpkeep` names."""

    async def put_memory(self, entry: MemoryEntry, *, keep: int | None = None) -> None:
        """See `MemoryIndex.put_memory`."""
        body = kept_memories.checked(entry)
        names = await asyncio.to_thread(search_terms.index_text, entry.namespace, entry.text)
        values = (entry.namespace, entry.memory_id, entry.at, body, entry.embedding, names)
        sql = self._dialect.statements

        async def put(connection: ServerConnection) -> None:
            async with transaction(connection, sql.BEGIN, sql):
                await connection.run(sql.MEMORIES.PUT, *values)
                if keep is not None:
                    await connection.run(sql.MEMORIES.TRIM, entry.namespace, max(keep, 1) - 1)

        await self._job(put)

    def drop_memory(self, namespace: str, memory_id: str) -> Awaitable[bool]:
        """See `MemoryIndex.drop_memory`."""
        return self._job(partial(_drop, self._dialect.statements, namespace, memory_id, list[bool]()))

    async def search_memories(self, namespace: str, query: str, limit: int = 10) -> Sequence[MemoryHit]:
        """See `MemoryIndex.search_memories`."""
        if not (terms := words.query_terms(query)):
            return [MemoryHit(one, 0.0) for one in await self.list_memories(namespace, limit=limit)]
        values = (
            namespace,
            search_terms.namespace_name(namespace),
            " ".join(map(search_terms.word_name, terms)),
            kept_memories.candidates(limit),
        )
        sql = self._dialect.statements.MEMORIES.SEARCH
        rows = await self._reading_does(lambda connection: connection.rows(sql, *values))
        found = [kept_memories.entry_of(namespace, *row) for row in rows]
        return await asyncio.to_thread(search_terms.ranked, terms, found, limit)

    async def list_memories(
        self, namespace: str, *, limit: int = 100, behind: MemoryEntry | None = None
    ) -> Sequence[MemoryEntry]:
        """See `MemoryIndex.list_memories`."""
        at, memory_id = (sys.float_info.max, "") if behind is None else (behind.at, behind.memory_id)
        values = (namespace, at, memory_id, search_terms.bounded(limit))
        sql = self._dialect.statements.MEMORIES.NEWEST
        rows = await self._reading_does(lambda connection: connection.rows(sql, *values))
        return [kept_memories.entry_of(namespace, *row) for row in rows]


async def _drop(
    sql: Statements, namespace: str, memory_id: str, seen: list[bool], connection: ServerConnection
) -> bool:
    """`seen` is kept from one try to the next: the one before may have removed it and lost its answer."""
    async with transaction(connection, sql.BEGIN, sql):
        if await connection.rows(sql.MEMORIES.THERE, namespace, memory_id):
            seen.append(True)
            await connection.run(sql.MEMORIES.DROP, namespace, memory_id)
    return bool(seen)
