"""The statements of memories on MySQL and MariaDB; for the marks in them see `mysql_text.py`.

Owns: SQL. Must not know: words, connections.
Read next: `server_memories.py`, `mysql_tables.py`.
"""

from __future__ import annotations

from typing import Final

from .server_dialect import MemoryStatements

_MATCH: Final = "MATCH (words) AGAINST (CONCAT('+', $2, ' +(', $3, ')') IN BOOLEAN MODE)"

MEMORIES: Final = MemoryStatements(
    PUT=(
        "INSERT INTO lw_memories (namespace, memory_id, at, body, embedding, words) VALUES ($1, $2, $3, $4, $5, $6)"
        " ON DUPLICATE KEY UPDATE at = VALUES(at), body = VALUES(body), embedding = VALUES(embedding),"
        " words = VALUES(words)"
    ),
    THERE="SELECT 1 FROM lw_memories WHERE namespace = $1 AND memory_id = $2 FOR UPDATE",
    DROP="DELETE FROM lw_memories WHERE namespace = $1 AND memory_id = $2",
    # In brackets twice: a DELETE may not ask its own table otherwise.
    TRIM=(
        "DELETE FROM lw_memories WHERE namespace = $1 AND at < (SELECT at FROM"
        " (SELECT at FROM lw_memories WHERE namespace = $1 ORDER BY at DESC LIMIT 1 OFFSET $2) AS newest)"
    ),
    NEWEST=(
        "SELECT memory_id, at, body, embedding FROM lw_memories"
        " WHERE namespace = $1 AND at <= $2 AND (at < $2 OR memory_id < $3) ORDER BY at DESC, memory_id DESC LIMIT $4"
    ),
    SEARCH=(
        "SELECT memory_id, at, body, embedding FROM lw_memories"
        f" WHERE namespace = $1 AND {_MATCH} ORDER BY {_MATCH} DESC, at DESC LIMIT $4"
    ),
)
