"""Boards of a store in memory: the model of what every store's boards answer.

Owns: the boards of `SharedData`. Must not know: the rules of a write (see `kept_boards.py`), event loops.
Read next: `ports/board.py`, then `sqlite_boards.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
from .kept_boards import BoardMove, BoardRow, Decision, changing, check_name, entry_shown, posting, removing, shown
from .memory_data import SharedData


class KeptBoard:
    """One board."""

    def __init__(self) -> None:
        self.counter = 0
        self.rows: dict[int, BoardRow] = {}


def posted(data: SharedData, post: BoardPost, policy: BoardPolicy | None) -> BoardEntry:
    """See `Board.post_entry`."""
    return entry_shown(post.board_id, _moved(data, post.board_id, posting(post, policy)))


def updated(data: SharedData, change: BoardChange, policy: BoardPolicy | None) -> BoardEntry:
    """See `Board.update_entry`."""
    return entry_shown(change.board_id, _moved(data, change.board_id, changing(change, policy)))


def removed(data: SharedData, board_id: str, entry_id: int, version: int | None) -> bool:
    """See `Board.remove_entry`."""
    return bool(_moved(data, board_id, removing(board_id, entry_id, version)).gone)


def read(data: SharedData, board_id: str, kind: str | None, after: int) -> Sequence[BoardEntry]:
    """See `Board.read_board`."""
    check_name(board_id, "board_id", board_id)
    board = data.boards.get(board_id)
    return [] if board is None else shown(board_id, board.rows.values(), kind, after)


def drop(data: SharedData, board_id: str) -> int:
    """See `Board.drop_board`."""
    check_name(board_id, "board_id", board_id)
    board = data.boards.get(board_id)
    if board is None:
        return 0
    count = len(board.rows)
    board.rows.clear()
    return count


def _moved(data: SharedData, board_id: str, decide: Decision) -> BoardMove:
    board = data.boards.get(board_id) or KeptBoard()
    done = decide(list(board.rows.values()), board.counter)
    for row in (done.added, done.changed):
        if row is not None:
            board.rows[row.entry_id] = row
    for entry_id in done.gone:
        del board.rows[entry_id]
    board.counter = done.counter
    if board.counter:
        data.boards[board_id] = board
    return done
