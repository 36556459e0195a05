"""Memories in a SQLite file: rows, and a full-text index (FTS5) of their words.

Owns: the statements and what they mean. Must not know: words, queries, threads.
Read next: `search_terms.py`, `sqlite_tables.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ..core.words import query_terms
from ..ports.memory_index import MemoryEntry, MemoryHit
from .kept_memories import candidates, checked, entry_of
from .search_terms import bounded, index_text, namespace_name, ranked, word_name
from .sqlite_commits import CommitConnection
from .sqlite_schema import Execute

_PUT: Final = """\
INSERT INTO lw_memories (namespace, memory_id, at, body, embedding) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, memory_id) DO UPDATE SET at = excluded.at, body = excluded.body, embedding = excluded.embedding
RETURNING id
"""
_PUT_WORDS: Final = "INSERT OR REPLACE INTO lw_memories_text (rowid, words) VALUES (?, ?)"
_TRIM: Final = """\
DELETE FROM lw_memories WHERE namespace = ?1
   AND at < (SELECT at FROM lw_memories WHERE namespace = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2)
"""
_DROP: Final = "DELETE FROM lw_memories WHERE namespace = ? AND memory_id = ? RETURNING 1"
_NEWEST: Final = """\
SELECT memory_id, at, body, embedding FROM lw_memories
 WHERE namespace = ?1 AND at <= ?2 AND (at < ?2 OR memory_id < ?3)
 ORDER BY at DESC, memory_id DESC LIMIT ?4
"""
# The inner query sorts numbers only; the rows, which may be long, are read for the best ones.
_SEARCH: Final = """\
SELECT memory_id, at, body, embedding FROM lw_memories WHERE namespace = ?1 AND id IN (
    SELECT lw_memories.id FROM lw_memories_text JOIN lw_memories ON lw_memories.id = lw_memories_text.rowid
     WHERE lw_memories_text MATCH ?2 ORDER BY lw_memories_text.rank, lw_memories.at DESC LIMIT ?3
)
"""


class MemoryRow:
    """An entry made ready to be written: what takes long is done before the file is locked."""

    def __init__(self, entry: MemoryEntry) -> None:
        """Raises `MemoryRefusedError`."""
        self.namespace = entry.namespace
        self.values = (entry.namespace, entry.memory_id, entry.at, checked(entry), entry.embedding)
        self.words = index_text(entry.namespace, entry.text)


def put(row: MemoryRow, keep: int | None, own: CommitConnection) -> None:
    """See `MemoryIndex.put_memory`."""
    execute = own.execute
    execute("BEGIN IMMEDIATE")
    try:
        ((id_,),) = execute(_PUT, row.values).fetchall()
        execute(_PUT_WORDS, (id_, row.words))
        if keep is not None:
            execute(_TRIM, (row.namespace, max(keep, 1) - 1))
        execute("COMMIT")
    except BaseException:
        if own.connection.in_transaction:
            execute("ROLLBACK")
        raise


def drop(namespace: str, memory_id: str, own: CommitConnection) -> bool:
    """See `MemoryIndex.drop_memory`."""
    return bool(own.execute(_DROP, (namespace, memory_id)).fetchall())


def search(execute: Execute, namespace: str, query: str, limit: int) -> Sequence[MemoryHit]:
    """See `MemoryIndex.search_memories`."""
    if not (terms := query_terms(query)):
        return [MemoryHit(one, 0.0) for one in newest(execute, namespace, limit, None)]
    asked = f"{namespace_name(namespace)} AND ({' OR '.join(map(word_name, terms))})"
    rows = execute(_SEARCH, (namespace, asked, candidates(limit))).fetchall()
    return ranked(terms, [entry_of(namespace, *row) for row in rows], limit)


def newest(execute: Execute, namespace: str, limit: int, behind: MemoryEntry | None) -> Sequence[MemoryEntry]:
    """See `MemoryIndex.list_memories`."""
    at, memory_id = (sys.float_info.max, "") if behind is None else (behind.at, behind.memory_id)
    rows = execute(_NEWEST, (namespace, at, memory_id, bounded(limit))).fetchall()
    return [entry_of(namespace, *row) for row in rows]
