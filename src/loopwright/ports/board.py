"""The seam to boards: small bounded lists of texts that several agents, runs or hosts share.

Owns: entries, the bounds of a board, the Protocol, a register made of it. Must not know: SQL, who shares a board.
Read next: `stores/kept_boards.py`, `tools/board.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from ..late import Late

if TYPE_CHECKING:
    from ..model import family_errors
else:
    family_errors = Late("loopwright.model.family_errors")

MOST_ENTRIES: Final = 500
"""What a policy may allow on one board."""
LONGEST_ENTRY: Final = 20_000
"""Characters that a policy may allow in one entry."""


class BoardPolicy(Struct, frozen=True, kw_only=True):
    """How much one board holds. Not stored: each write brings the bounds that count for it."""

    max_entries: int = 60
    """From 1 to `MOST_ENTRIES`."""
    max_chars: int = 2_000
    """Of the text of one entry, from 1 to `LONGEST_ENTRY`."""
    when_full: Literal["reject", "drop_oldest"] = "reject"
    """What a further entry does to a full board: it is refused, or the entries that were posted first make room."""


DEFAULT_BOARD: Final = BoardPolicy()
"""The bounds of a write that brings none (`policy` None)."""


class BoardPost(Struct, frozen=True, kw_only=True):
    """An entry that is to be put on a board, which need not be there."""

    board_id: str
    """1 to 255 bytes of printable text, as are `kind`, `author` and `key` where they are given."""
    text: str
    at: float
    """UTC epoch seconds."""
    kind: str = "note"
    """For whoever shares the board: finding, task, question … Fixed for the life of the entry."""
    author: str = ""
    key: str = ""
    """Makes it one entry however often it is posted: while an entry of this key is there it is answered as it is."""


class BoardChange(Struct, frozen=True, kw_only=True):
    """A new text for an entry that the writer has seen."""

    board_id: str
    entry_id: int
    version: int
    """The one that was seen."""
    text: str
    at: float
    """UTC epoch seconds."""
    author: str = ""


class BoardEntry(Struct, frozen=True, kw_only=True):
    """One text on a board."""

    board_id: str
    entry_id: int
    """From 1, in order of posting; never used again on this board."""
    version: int
    """Greater with every change; never used again on this board."""
    kind: str
    author: str
    """Who wrote this version."""
    text: str
    key: str
    posted_at: float
    updated_at: float


class Board(Protocol):
    """Boards by id. Every call is atomic: of two that write at once, the second sees what the first did.

    Raises what every store call raises (see `Store`), and `BoardEntryError` for a name, text or policy over its bounds; then
    nothing was stored. Belongs to no session: entries stay when sessions are deleted, and are in no export of sessions.
    What is acknowledged is as durable as an inbox item. Concurrency and cancellation are those of `Store`.
    """

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """Puts an entry on its board. Raises `BoardFullError` where there is no room and none may be made."""
        ...

    def read_board(self, board_id: str, *, kind: str | None = None, after: int = 0) -> Awaitable[Sequence[BoardEntry]]:
        """The entries in order of posting, as of one moment; `after`: only those with a greater version. A board that
        nobody wrote on is empty."""
        ...

    def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """Replaces text and author of an entry, if its version is the one that was seen.

        Raises `BoardEntryError`, and nothing changed, when the entry is gone or has another version, which it names; one
        that says this text already is answered as it is, so that a change may be tried again.
        """
        ...

    def remove_entry(self, board_id: str, entry_id: int, *, version: int | None = None) -> Awaitable[bool]:
        """Takes an entry off; False when it is gone already. Raises `BoardEntryError` when it has another version than
        the one given."""
        ...

    def drop_board(self, board_id: str) -> Awaitable[int]:
        """Takes all entries off and answers how many they were; entries posted later get further ids."""
        ...


async def put_if(board: Board, post: BoardPost, version: int, policy: BoardPolicy | None = None) -> BoardEntry:
    """Compare and set: writes the register that `post.key` names, if it is at `version` (0: not there).

    Raises `BoardEntryError` when it is at another version, which `current` says; `BoardFullError`. Atomic: of several that
    saw one version, one writes. A register is an entry like others, and is read and removed as one.
    """
    if not post.key:
        raise family_errors.BoardEntryError(post.board_id, None, "a register needs a key; give one")
    if version == 0:
        entry = await board.post_entry(post, policy)
        if entry.text == post.text:
            return entry
        raise family_errors.BoardEntryError(
            post.board_id, entry.entry_id, f"register {post.key!r} is there already", entry.version
        )
    for entry in await board.read_board(post.board_id):
        if entry.key == post.key:
            change = BoardChange(
                board_id=post.board_id,
                entry_id=entry.entry_id,
                version=version,
                text=post.text,
                at=post.at,
                author=post.author,
            )
            return await board.update_entry(change, policy)
    raise family_errors.BoardEntryError(
        post.board_id, None, f"register {post.key!r} is not there; write it with version 0"
    )
