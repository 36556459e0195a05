"""Boards in an encrypted store: author and text of each entry sealed together.

Owns: sealing and opening an entry, and telling a change that was made already from one that comes too late: what is sealed
never looks the same twice. Must not know: ciphers, any particular store.
Board ids, kinds, keys, numbers and times stay readable.
Read next: `encrypted_shared.py`.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Sequence

from msgspec import structs

from ..model.codec import SEALED_TITLE, decode, encode, is_sealed, is_sealed_title
from ..model.errors import StoreCorruptError
from ..model.family_errors import BoardEntryError
from ..ports.board import Board, BoardChange, BoardEntry, BoardPolicy, BoardPost
from . import kept_boards
from .encrypted_envelope import SealedPlace, Sealer
from .encrypted_values import SEAL_ERRORS

_log = logging.getLogger(__name__)


async def post(inner: Board, sealer: Sealer, given: BoardPost, policy: BoardPolicy | None) -> BoardEntry:
    """See `Board.post_entry`."""
    kept_boards.posting(given, policy)
    text = _sealed(sealer, _place(given.board_id, given.kind, given.key), given.author, given.text)
    return opened_entry(sealer, await inner.post_entry(structs.replace(given, text=text, author=""), policy))


async def change(inner: Board, sealer: Sealer, given: BoardChange, policy: BoardPolicy | None) -> BoardEntry:
    """See `Board.update_entry`. Reads the board first: what is sealed is bound to kind and key."""
    kept_boards.changing(given, policy)
    for stored in await inner.read_board(given.board_id):
        if stored.entry_id == given.entry_id:
            entry = opened_entry(sealer, stored)
            if (entry.author, entry.text) == (given.author, given.text):
                return entry
            text = _sealed(sealer, _place(given.board_id, entry.kind, entry.key), given.author, given.text)
            done = await inner.update_entry(structs.replace(given, text=text, author=""), policy)
            return opened_entry(sealer, done)
    raise BoardEntryError(given.board_id, given.entry_id, "it is not there (any more); read the board again")


async def read(inner: Board, sealer: Sealer, board_id: str, kind: str | None, after: int) -> Sequence[BoardEntry]:
    """See `Board.read_board`. An entry that does not open is left out, with a line in the log."""
    found: list[BoardEntry] = []
    for stored in await inner.read_board(board_id, kind=kind, after=after):
        try:
            found.append(opened_entry(sealer, stored))
        except SEAL_ERRORS as error:
            _log.warning("an entry of a board is left out: %s", error)
    return found


def opened_entry(sealer: Sealer, stored: BoardEntry) -> BoardEntry:
    """What was sealed. Raises `SEAL_ERRORS`; a plain one is answered as it is where plain ones may be read."""
    place = _place(stored.board_id, stored.kind, stored.key)
    if not is_sealed_title(stored.text):
        sealer.open(place, b"")  # raises unless plain ones are read
        return stored
    try:
        envelope = base64.b64decode(stored.text[len(SEALED_TITLE) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise place.broken() from error
    if not is_sealed(envelope):
        raise place.broken()
    try:
        author, text = decode(sealer.open(place, envelope), tuple[str, str])
    except StoreCorruptError as error:
        raise place.broken() from error
    return structs.replace(stored, author=author, text=text)


def _sealed(sealer: Sealer, place: SealedPlace, author: str, text: str) -> str:
    return SEALED_TITLE + base64.b64encode(sealer.seal(place, encode((author, text)))).decode("ascii")


def _place(board_id: str, kind: str, key: str) -> SealedPlace:
    return SealedPlace(board_id, "board entry", (kind, key))
