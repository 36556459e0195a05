"""The statements of memories on PostgreSQL.

Owns: SQL. Must not know: words, connections.
Read next: `server_memories.py`, `postgres_tables.py`.
"""

from __future__ import annotations

from typing import Final

from .server_dialect import MemoryStatements

MEMORIES: Final = MemoryStatements(
    PUT=(
        "INSERT INTO lw_memories (namespace, memory_id, at, body, embedding, words)"
        " VALUES ($1, $2, $3, $4, $5, array_to_tsvector(string_to_array($6, ' ')))"
        " ON CONFLICT (namespace, memory_id) DO UPDATE SET at = excluded.at, body = excluded.body,"
        " embedding = excluded.embedding, words = excluded.words"
    ),
    THERE="SELECT 1 FROM lw_memories WHERE namespace = $1 AND memory_id = $2 FOR UPDATE",
    DROP="DELETE FROM lw_memories WHERE namespace = $1 AND memory_id = $2",
    TRIM=(
        "DELETE FROM lw_memories WHERE namespace = $1"
        " AND at < (SELECT at FROM lw_memories WHERE namespace = $1 ORDER BY at DESC LIMIT 1 OFFSET $2)"
    ),
    NEWEST=(
        "SELECT memory_id, at, body, embedding FROM lw_memories"
        " WHERE namespace = $1 AND at <= $2 AND (at < $2 OR memory_id < $3) ORDER BY at DESC, memory_id DESC LIMIT $4"
    ),
    # The server's own rank takes no notice of how rare a word is, and reads each match whole.
    SEARCH=(
        "WITH said AS (SELECT m.memory_id, m.at, w.word FROM unnest(string_to_array($3, ' ')) AS w (word)"
        "  JOIN lw_memories AS m ON m.words @@ CAST($2 || ' & ' || w.word AS tsquery) WHERE m.namespace = $1),"
        " weights AS (SELECT word, ln(1 + (SELECT count(*) FROM lw_memories WHERE namespace = $1)::float8 / count(*))"
        "  AS weight FROM said GROUP BY word),"
        " best AS (SELECT memory_id FROM said JOIN weights USING (word) GROUP BY memory_id, at"
        "  ORDER BY sum(weight) DESC, at DESC LIMIT $4)"
        " SELECT memory_id, at, body, embedding FROM best JOIN lw_memories USING (memory_id) WHERE namespace = $1"
    ),
)
