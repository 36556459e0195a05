"""Boards in a SQLite file: rows of a board under the file's one write lock.

Owns: the statements and the transaction of a write. Must not know: the rules of a write (see `kept_boards.py`), threads.
Read next: `sqlite_tables.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
from .kept_boards import BoardMove, BoardRow, Decision, changing, check_name, entry_shown, posting, removing, shown
from .sqlite_commits import CommitConnection
from .sqlite_schema import Execute

_COUNTER: Final = "SELECT counter FROM lw_boards WHERE board_id = ?"
_COUNT: Final = "INSERT INTO lw_boards (board_id, counter) VALUES (?, ?) ON CONFLICT (board_id) DO UPDATE SET counter = excluded.counter"
_COLUMNS: Final = "entry_id, version, entry_key, posted_at, updated_at"
# Bodies, which may be long, of the one that is asked for by id or key.
_ROWS: Final = (
    f"SELECT {_COLUMNS}, CASE WHEN entry_id = ?2 OR (entry_key <> '' AND entry_key = ?3) THEN body END"
    " FROM lw_board_entries WHERE board_id = ?1 ORDER BY entry_id"
)
_READ: Final = f"SELECT {_COLUMNS}, body FROM lw_board_entries WHERE board_id = ? AND version > ? ORDER BY entry_id"
_PUT: Final = (
    "INSERT INTO lw_board_entries (board_id, entry_id, version, entry_key, posted_at, updated_at, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (board_id, entry_id)"
    " DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at, body = excluded.body"
)
_REMOVE: Final = "DELETE FROM lw_board_entries WHERE board_id = ? AND entry_id IN (SELECT value FROM json_each(?))"
_DROP: Final = "DELETE FROM lw_board_entries WHERE board_id = ? RETURNING 1"


def posted(post: BoardPost, policy: BoardPolicy | None, own: CommitConnection) -> BoardEntry:
    """See `Board.post_entry`. Synced like every promise, as are the other writes."""
    return entry_shown(post.board_id, _moved((post.board_id, 0, post.key), posting(post, policy), own))


def updated(change: BoardChange, policy: BoardPolicy | None, own: CommitConnection) -> BoardEntry:
    """See `Board.update_entry`."""
    asked = change.board_id, change.entry_id, ""
    return entry_shown(change.board_id, _moved(asked, changing(change, policy), own))


def removed(board_id: str, entry_id: int, version: int | None, own: CommitConnection) -> bool:
    """See `Board.remove_entry`."""
    return bool(_moved((board_id, entry_id, ""), removing(board_id, entry_id, version), own).gone)


def read(execute: Execute, board_id: str, kind: str | None, after: int) -> Sequence[BoardEntry]:
    """See `Board.read_board`."""
    check_name(board_id, "board_id", board_id)
    rows = execute(_READ, (board_id, after)).fetchall()
    return shown(board_id, [BoardRow(*row) for row in rows], kind, after)


def drop(board_id: str, own: CommitConnection) -> int:
    """See `Board.drop_board`."""
    check_name(board_id, "board_id", board_id)
    own.be_durable()
    return len(own.execute(_DROP, (board_id,)).fetchall())


def _moved(asked: tuple[str, int, str], decide: Decision, own: CommitConnection) -> BoardMove:
    """`asked`: board, entry id (0: none) and key."""
    board_id = asked[0]
    own.be_durable()
    execute = own.execute
    execute("BEGIN IMMEDIATE")
    try:
        found = execute(_COUNTER, (board_id,)).fetchone()
        counter = 0 if found is None else found[0]
        done = decide([BoardRow(*row) for row in execute(_ROWS, asked).fetchall()], counter)
        if done.gone:
            execute(_REMOVE, (board_id, json.dumps(done.gone)))
        for row in (done.added, done.changed):
            if row is not None:
                execute(_PUT, (board_id, *row))
        if done.counter != counter:
            execute(_COUNT, (board_id, done.counter))
        execute("COMMIT")
    except BaseException:
        if own.connection.in_transaction:
            execute("ROLLBACK")
        raise
    return done
