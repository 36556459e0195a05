"""Boards as every store keeps them: bounds, stored form, and what a write does to the rows of its board.

Owns: these rules, as functions from the rows of one board to a move. Must not know: any database.
A board has a counter that only goes up; ids and versions are drawn from it, so that neither is ever seen twice.
Read next: `memory_boards.py`, `sqlite_boards.py`, `server_boards.py`, `encrypted_boards.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from ..model.codec import decode, encode, is_sealed_title
from ..model.errors import ConfigError, InvariantError
from ..model.family_errors import BoardEntryError, BoardFullError
from ..ports.board import DEFAULT_BOARD, LONGEST_ENTRY, MOST_ENTRIES, BoardChange, BoardEntry, BoardPolicy, BoardPost

MAX_NAME_BYTES: Final = 255

OWN_KEY: Final = "~"
"""What a key begins with that a store has made itself, and shows to nobody."""

_MAX_SEALED: Final = 256 * 1024
"""Characters of a text that an encrypted store has sealed: JSON writes an odd letter as six, base64 three bytes as four."""


class BoardRow(NamedTuple):
    """An entry as it is stored."""

    entry_id: int
    version: int
    key: str
    posted_at: float
    updated_at: float
    body: bytes | None
    """Kind, author and text; None where they were not asked for."""


class BoardMove(Struct, frozen=True, kw_only=True):
    """What a write does to the rows of its board."""

    shown: BoardRow | None = None
    """The entry that the caller gets."""
    added: BoardRow | None = None
    changed: BoardRow | None = None
    gone: tuple[int, ...] = ()
    counter: int


Decision: TypeAlias = Callable[[Sequence[BoardRow], int], BoardMove]
"""From the rows of a board, in order, and its counter; of the rows, that of the id or key that is asked for has its body."""


def posting(post: BoardPost, given: BoardPolicy | None) -> Decision:
    """What posting does. Raises `BoardEntryError`, `ConfigError`, and inside `BoardFullError`."""
    policy = _checked(given)
    _check_post(post, policy)

    def decide(rows: Sequence[BoardRow], counter: int) -> BoardMove:
        for row in rows:
            if post.key and row.key == post.key:
                return BoardMove(shown=row, counter=counter)
        over = len(rows) + 1 - policy.max_entries
        if over > 0 and policy.when_full == "reject":
            raise BoardFullError(post.board_id, len(rows), policy.max_entries)
        body = encode((post.kind, post.author, post.text))
        new = BoardRow(counter + 1, counter + 1, post.key, post.at, post.at, body)
        gone = tuple([row.entry_id for row in rows[: max(over, 0)]])
        return BoardMove(shown=new, added=new, gone=gone, counter=counter + 1)

    return decide


def changing(change: BoardChange, given: BoardPolicy | None) -> Decision:
    """What a change does. Raises `BoardEntryError`, also inside; `ConfigError`."""
    policy = _checked(given)
    board_id, entry_id = change.board_id, change.entry_id
    check_name(board_id, "board_id", board_id)
    _check_text(board_id, entry_id, change.text, policy)
    _check_author(board_id, change.author)
    _check_time(board_id, change.at)

    def decide(rows: Sequence[BoardRow], counter: int) -> BoardMove:
        row = _row_of(rows, entry_id)
        if row is None:
            raise BoardEntryError(board_id, entry_id, "it is not there (any more); read the board again")
        kind, author, text = _opened(row)
        if (author, text) == (change.author, change.text):
            return BoardMove(shown=row, counter=counter)
        _check_version(board_id, row, change.version)
        body = encode((kind, change.author, change.text))
        new = row._replace(version=counter + 1, updated_at=change.at, body=body)
        return BoardMove(shown=new, changed=new, counter=counter + 1)

    return decide


def removing(board_id: str, entry_id: int, version: int | None) -> Decision:
    """What removing does; nothing when the entry is gone. Raises `BoardEntryError`, also inside."""
    check_name(board_id, "board_id", board_id)

    def decide(rows: Sequence[BoardRow], counter: int) -> BoardMove:
        row = _row_of(rows, entry_id)
        if row is None:
            return BoardMove(counter=counter)
        if version is not None:
            _check_version(board_id, row, version)
        return BoardMove(gone=(entry_id,), counter=counter)

    return decide


def entry_of(board_id: str, row: BoardRow) -> BoardEntry:
    """A stored entry. Raises `StoreCorruptError`."""
    kind, author, text = _opened(row)
    return BoardEntry(
        board_id=board_id,
        entry_id=row.entry_id,
        version=row.version,
        kind=kind,
        author=author,
        text=text,
        key="" if row.key.startswith(OWN_KEY) else row.key,
        posted_at=row.posted_at,
        updated_at=row.updated_at,
    )


def entry_shown(board_id: str, done: BoardMove) -> BoardEntry:
    """The entry that a post or change is about."""
    if done.shown is None:
        raise InvariantError(f"a write to board {board_id!r} shows no entry")
    return entry_of(board_id, done.shown)


def shown(board_id: str, rows: Iterable[BoardRow], kind: str | None, after: int) -> Sequence[BoardEntry]:
    """See `Board.read_board`."""
    entries = [entry_of(board_id, row) for row in rows if row.version > after]
    return [one for one in entries if kind is None or one.kind == kind]


def check_name(board_id: str, what: str, name: str) -> None:
    """Raises `BoardEntryError` for a name that not every database can hold as it is."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BoardEntryError(str(board_id)[:80], None, f"{what} must be a text, not {type(name).__name__}")
    fine = name.isprintable() and name == name.strip() and not any("\ud800" <= c <= "\udfff" for c in name)
    if not fine or not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
        why = f"{what} {name[:80]!r}: give 1 to {MAX_NAME_BYTES} bytes of printable text without a space at either end"
        raise BoardEntryError(board_id[:80], None, why)


def _check_post(post: BoardPost, policy: BoardPolicy) -> None:
    board_id = post.board_id
    check_name(board_id, "board_id", board_id)
    check_name(board_id, "kind", post.kind)
    _check_author(board_id, post.author)
    if post.key:
        check_name(board_id, "key", post.key.removeprefix(OWN_KEY))
    _check_text(board_id, None, post.text, policy)
    _check_time(board_id, post.at)


def _check_author(board_id: str, author: str) -> None:
    if author:
        check_name(board_id, "author", author)


def _check_text(board_id: str, entry_id: int | None, text: str, policy: BoardPolicy) -> None:
    limit = _MAX_SEALED if is_sealed_title(text) else policy.max_chars
    if not text.strip():
        raise BoardEntryError(board_id, entry_id, "its text is empty; say something, or remove an entry")
    if len(text) > limit:
        why = f"its text has {len(text)} characters, {limit} are allowed; shorten it, or keep a reference"
        raise BoardEntryError(board_id, entry_id, why)


def _check_time(board_id: str, at: float) -> None:
    if not math.isfinite(at):
        raise BoardEntryError(board_id, None, f"at is {at}; give UTC epoch seconds")


def _check_version(board_id: str, row: BoardRow, version: int) -> None:
    if row.version != version:
        why = f"it was changed since version {version} was read; read it again"
        raise BoardEntryError(board_id, row.entry_id, why, row.version)


def _checked(given: BoardPolicy | None) -> BoardPolicy:
    policy = given or DEFAULT_BOARD
    problems = [
        f"{name} of a board is {value}; give 1 to {most}"
        for name, value, most in (
            ("max_entries", policy.max_entries, MOST_ENTRIES),
            ("max_chars", policy.max_chars, LONGEST_ENTRY),
        )
        if not 1 <= value <= most
    ]
    if policy.when_full not in ("reject", "drop_oldest"):
        problems.append(f"when_full of a board is {policy.when_full!r}; it is reject or drop_oldest")
    if problems:
        raise ConfigError(problems)
    return policy


def _row_of(rows: Sequence[BoardRow], entry_id: int) -> BoardRow | None:
    return next((row for row in rows if row.entry_id == entry_id), None)


def _opened(row: BoardRow) -> tuple[str, str, str]:
    return decode(bytes(row.body or b""), tuple[str, str, str])
