"""The statements of boards on servers, which differ in one.

Owns: SQL. Must not know: connections, the rules of a write.
Read next: `server_boards.py`, `postgres_tables.py`, `mysql_tables.py`.
"""

from __future__ import annotations

from typing import Final

from .server_dialect import BoardStatements

_COLUMNS: Final = "entry_id, version, entry_key, posted_at, updated_at"


def board_statements(add: str) -> BoardStatements:
    """The statements. `add`: makes sure of a board's row and locks it where it is there."""
    return BoardStatements(
        ADD=add,
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
