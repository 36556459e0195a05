"""The statements of boards on MySQL and MariaDB; for the marks in them see `mysql_text.py`.

Owns: SQL. Must not know: connections, the rules of a write.
Read next: `server_boards.py`, `mysql_tables.py`.
"""

from __future__ import annotations

from typing import Final

from .server_dialect import BoardStatements

_COLUMNS: Final = "entry_id, version, entry_key, posted_at, updated_at"

BOARDS: Final = BoardStatements(
    # Locks the row that is there: with IGNORE two of these would share it, and then wait for each other.
    ADD="INSERT INTO lw_boards SET board_id = $1, counter = 0 ON DUPLICATE KEY UPDATE counter = lw_boards.counter",
    LOCKED="SELECT counter FROM lw_boards WHERE board_id = $1 FOR UPDATE",
    COUNT="UPDATE lw_boards SET counter = $1 WHERE board_id = $2",
    ROWS=(
        f"SELECT {_COLUMNS}, CASE WHEN entry_id = $2 OR (entry_key <> '' AND entry_key = $3) THEN body END"
        " FROM lw_board_entries WHERE board_id = $1 ORDER BY entry_id"
    ),
    READ=(f"SELECT {_COLUMNS}, body FROM lw_board_entries WHERE board_id = $1 AND version > $2 ORDER BY entry_id"),
    INSERT=(
        "INSERT INTO lw_board_entries (board_id, entry_id, version, entry_key, posted_at, updated_at, body)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7)"
    ),
    CHANGE=(
        "UPDATE lw_board_entries SET version = $1, updated_at = $2, body = $3 WHERE board_id = $4 AND entry_id = $5"
    ),
    REMOVE="DELETE FROM lw_board_entries WHERE board_id = $1 AND entry_id = $2",
    DROP="DELETE FROM lw_board_entries WHERE board_id = $1",
)
