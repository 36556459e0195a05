"""The tools through which agents share a board.

Owns: `board_read`, `board_write`, and how a board looks to a model. Must not know: how boards are stored.
Read next: `../ports/board.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from ..model.call_errors import ToolFailure
from ..ports.ambient import Ambient, RealAmbient
from ..ports.board import DEFAULT_BOARD, Board, BoardChange, BoardEntry, BoardPolicy, BoardPost
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of

T = TypeVar("T")

_MOST: Final = 2**63 - 1
"""Stores count in 64 bits."""

_EMPTY: Final = "the board is empty"
_NOTHING: Final = "no entry fits"


def board_tools(
    board: Board,
    board_id: str,
    *,
    author: str | None = None,
    policy: BoardPolicy = DEFAULT_BOARD,
    ambient: Ambient | None = None,
) -> tuple[ToolDefinition, ToolDefinition]:
    """`board_read` and `board_write` for one board of a store: the model cannot name another one.

    Entries carry `author`, or else the session whose model wrote them. All who share a board should have one `policy`.
    """
    return board_read_tool(board, board_id), board_write_tool(board, board_id, author, policy, ambient or RealAmbient())


def board_read_tool(board: Board, board_id: str) -> ToolDefinition:
    """`board_read`: the entries of the board, each below a line with its number and version. Effect pure."""

    @tool(description=description_of("board_read"), effect="pure", output_limit=200_000)
    async def board_read(kind: str | None = None, after: int | None = None) -> str:
        """Read the board.

        Args:
            kind: Only entries of this kind.
            after: Only entries that changed since this version.
        """
        _in_bounds(after=after)
        entries = await board.read_board(board_id, kind=kind, after=after or 0)
        if not entries:
            return _EMPTY if kind is None and not after else _NOTHING
        return "\n".join(map(shown_entry, entries))

    return board_read


def board_write_tool(
    board: Board, board_id: str, author: str | None, policy: BoardPolicy, ambient: Ambient
) -> ToolDefinition:
    """`board_write`: post, update and remove. Effect idempotent: a call that is repeated finds what it did."""

    @tool(description=description_of("board_write"), effect="idempotent")
    async def board_write(
        action: Literal["post", "update", "remove"],
        ctx: ToolContext,
        text: str | None = None,
        kind: str | None = None,
        entry: int | None = None,
        version: int | None = None,
    ) -> str:
        """Write on the board.

        Args:
            action: What to do.
            text: What the entry says, for post and update.
            kind: What sort of entry it is, for post; note when left out.
            entry: The number of the entry, for update and remove.
            version: The version of it that you have seen, for update and remove.
        """
        _in_bounds(entry=entry, version=version)
        who, now = author or ctx.session_id, ambient.now()
        if action == "post":
            post = BoardPost(
                board_id=board_id,
                text=_needed(action, "text", text),
                at=now,
                kind=kind or "note",
                author=who,
                key=ctx.idempotency_key,
            )
            done = await board.post_entry(post, policy)
            return f"posted #{done.entry_id} (version {done.version})"
        number, seen = _needed(action, "entry", entry), _needed(action, "version", version)
        if action == "remove":
            gone = await board.remove_entry(board_id, number, version=seen)
            return f"removed #{number}" if gone else f"#{number} is gone already"
        change = BoardChange(
            board_id=board_id,
            entry_id=number,
            version=seen,
            text=_needed(action, "text", text),
            at=now,
            author=who,
        )
        done = await board.update_entry(change, policy)
        return f"updated #{done.entry_id} (version {done.version})"

    return board_write


def shown_entry(entry: BoardEntry) -> str:
    """An entry as a model sees it. Its text is indented line by line, so that no text can look like another entry."""
    by = f", by {entry.author}" if entry.author else ""
    return "\n".join([f"#{entry.entry_id} (version {entry.version}, {entry.kind}{by})", *_indented(entry.text)])


def _indented(text: str) -> Sequence[str]:
    return [f"  {line}" for line in text.splitlines()]


def _in_bounds(**numbers: int | None) -> None:
    """Raises `ToolFailure` for a number that no board has, and no store can be asked for."""
    for name, number in numbers.items():
        if number is not None and not 0 <= number <= _MOST:
            raise ToolFailure(f"{name} must be a number that board_read shows, 0 to {_MOST}")


def _needed(action: str, name: str, value: T | None) -> T:
    if value is None:
        raise ToolFailure(f"{action} needs {name}")
    return value
