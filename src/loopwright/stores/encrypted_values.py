"""What a store is given and what it gives back, sealed and opened.

Owns: which parts of a value are sealed, and to what place each is bound. Must not know: ciphers, when a store is asked.
Ids, kinds, times, states and figures stay as they are: stores look for them.
Read next: `encrypted.py`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from msgspec import structs

from ..model.archive_errors import SealBrokenError, SealKeyError, UnsealedError
from ..model.codec import SEALED_TITLE, decode, encode, is_sealed, is_sealed_title
from ..model.errors import ConfigError, StoreCorruptError
from ..ports.store import (
    CreateSession,
    DropSession,
    DropTimer,
    DueTimer,
    EncodedRecord,
    ForkPoint,
    Head,
    HoldMoney,
    InboxItem,
    Lookup,
    MarkItem,
    NewSession,
    Op,
    PutItem,
    PutTimer,
    RunInside,
    SettleMoney,
    StoredRecord,
    TakeItems,
    Transition,
)
from ..ports.store_transfer import Inventory, StoredTimer
from .encrypted_envelope import SealedPlace, Sealer
from .encrypted_forks import Lineage, Lineages, begins_at, lineage_from, owner_at
from .references import artifact_ids_in

SEAL_ERRORS: Final = (SealBrokenError, SealKeyError, UnsealedError)

_LENGTH: Final = 4
"""Bytes before a lineage that say how long it is."""


class Sealing:
    """Values on their way into a store."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def new_session(self, new: NewSession, bases: Lineages) -> NewSession:
        """A new session, sealed. `bases` has the lineage of its base, if it is a fork.

        Raises `ConfigError` for a fork without a record of its own.
        """
        sid, base = new.session_id, new.base
        if base is None:
            records = self.records(sid, 0, new.records)
        elif not new.records:
            raise ConfigError(f"fork {sid!r} needs a record of its own in an encrypted store; nothing was stored")
        else:
            first = self._first_of_fork(sid, lineage_from(bases[base.session_id], base), new.records[0])
            records = (first, *self.records(sid, base.position + 1, new.records[1:]))
        return structs.replace(new, records=records, title=self.title(sid, new.title))

    def transition(self, given: Transition, bases: Lineages) -> Transition:
        """A transition, sealed. `bases` has the lineages of the bases of forks that it makes."""
        sid, head = given.session_id, given.head
        if head.title:
            head = structs.replace(head, title=self.title(sid, head.title))
        records = self.records(sid, given.expect, given.records)
        return structs.replace(given, records=records, head=head, ops=self.ops(sid, given.ops, bases))

    def records(self, session_id: str, start: int, given: tuple[EncodedRecord, ...]) -> tuple[EncodedRecord, ...]:
        """Records that will stand from position `start` on, sealed."""
        return tuple(
            [
                EncodedRecord(r.kind, r.version, r.at, self._body(_record(session_id, n, r.kind, r.version), r.body))
                for n, r in enumerate(given, start)
            ]
        )

    def ops(self, session_id: str, given: tuple[Op, ...], bases: Lineages) -> tuple[Op, ...]:
        """Operations of a transition or enqueue of this session, sealed."""
        return tuple([self._op(session_id, op, bases) for op in given])

    def item(self, session_id: str, given: InboxItem) -> InboxItem:
        """An inbox item, sealed."""
        return structs.replace(given, body=self._body(_item(session_id, given), given.body))

    def timer(self, session_id: str, given: StoredTimer) -> StoredTimer:
        """A timer, sealed."""
        return structs.replace(given, body=self._body(_timer(session_id, given.timer_id), given.body))

    def title(self, session_id: str, given: str) -> str:
        """A title, sealed; an empty one stays empty."""
        if not given:
            return given
        sealed = self._sealer.seal(SealedPlace(session_id, "title"), given.encode(errors="surrogatepass"))
        return SEALED_TITLE + base64.b64encode(sealed).decode("ascii")

    def _op(self, session_id: str, op: Op, bases: Lineages) -> Op:
        match op:
            case PutItem(target, item):
                return PutItem(target, self.item(target, item))
            case CreateSession(session):
                return CreateSession(self.new_session(session, bases))
            case PutTimer(timer_id, due_at, body):
                return PutTimer(timer_id, due_at, self._body(_timer(session_id, timer_id), body))
            # By name: a new one must not pass unseen.
            case TakeItems() | MarkItem() | DropSession() | DropTimer() | RunInside() | HoldMoney() | SettleMoney():
                return op

    def _first_of_fork(self, session_id: str, lineage: Lineage, given: EncodedRecord) -> EncodedRecord:
        said = encode(lineage)
        place = _first(session_id, lineage[-1].position, given.kind, given.version)
        value = b"".join((len(said).to_bytes(_LENGTH, "big"), said, given.body))
        body = self._sealer.seal(place, value, names=artifact_ids_in(given.body))
        return EncodedRecord(given.kind, given.version, given.at, body)

    def _body(self, place: SealedPlace, body: bytes) -> bytes:
        return self._sealer.seal(place, body, names=artifact_ids_in(body))


class Opening:
    """Values on their way out. Every method raises `SEAL_ERRORS` when one does not open where it stands."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def record(self, session_id: str, row: StoredRecord, lineage: Lineage = ()) -> StoredRecord:
        """A stored record, opened. `lineage` is that of the session; one that has none wrote all of its records itself."""
        writer = owner_at(lineage, session_id, row.position) if lineage else session_id
        if lineage and begins_at(lineage, row.position):
            _, body = self._first(writer, row)
        else:
            body = self._sealer.open(_record(writer, row.position, row.kind, row.version), row.body)
        return StoredRecord(row.position, row.kind, row.version, row.at, body)

    def is_own(self, session_id: str, row: StoredRecord) -> bool:
        """See `LineageReader`. What is plain, and may be, counts as own: nobody can tell."""
        try:
            self.record(session_id, row)
        except SEAL_ERRORS:
            return False
        return True

    def lineage_in(self, session_id: str, row: StoredRecord) -> Lineage:
        """See `LineageReader`."""
        try:
            lineage, _ = self._first(session_id, row)
        except SEAL_ERRORS:
            return ()
        return lineage

    def _first(self, session_id: str, row: StoredRecord) -> tuple[Lineage, bytes]:
        """(lineage, body) of the first own record of a fork; the lineage of a plain one is empty."""
        place = _first(session_id, row.position, row.kind, row.version)
        if self._sealer.is_plain(place, row.body):
            return (), row.body
        value = self._sealer.open(place, row.body)
        end = _LENGTH + int.from_bytes(value[:_LENGTH], "big")
        try:
            return decode(value[_LENGTH:end], tuple[ForkPoint, ...]), value[end:]
        except StoreCorruptError as error:
            raise place.broken() from error

    def item(self, session_id: str, stored: InboxItem) -> InboxItem:
        """An inbox item, opened."""
        return structs.replace(stored, body=self._sealer.open(_item(session_id, stored), stored.body))

    def timer(self, session_id: str, stored: StoredTimer) -> StoredTimer:
        """A timer, opened."""
        return structs.replace(stored, body=self._sealer.open(_timer(session_id, stored.timer_id), stored.body))

    def due(self, stored: DueTimer) -> DueTimer:
        """A timer whose time has come, opened."""
        body = self._sealer.open(_timer(stored.session_id, stored.timer_id), stored.body)
        return DueTimer(stored.session_id, stored.timer_id, stored.due_at, body)

    def head(self, stored: Head) -> Head:
        """A head with its title opened."""
        if not stored.title:
            return stored
        place = SealedPlace(stored.session_id, "title")
        if not is_sealed_title(stored.title):
            if type(stored.title) is not str:  # a value of another type, put in by hand
                raise place.broken()
            self._sealer.open(place, b"")  # raises unless plain ones are read
            return stored
        try:
            sealed = base64.b64decode(stored.title[len(SEALED_TITLE) :], validate=True)
        except (binascii.Error, ValueError) as error:
            raise place.broken() from error
        if not is_sealed(sealed):
            raise place.broken()
        return structs.replace(stored, title=self._sealer.open(place, sealed).decode(errors="surrogatepass"))

    def shown_head(self, stored: Head) -> Head:
        """A head for a list of many: a title that does not open is left out, so that the others can be seen."""
        try:
            return self.head(stored)
        except SEAL_ERRORS:
            return structs.replace(stored, title="")

    def lookup(self, found: Lookup) -> Lookup:
        """Head and waiting items, opened."""
        sid = found.head.session_id
        waiting = tuple([self.item(sid, item) for item in found.waiting])
        return Lookup(self.head(found.head), waiting, found.item_position)

    def inventory(self, stored: Inventory) -> Inventory:
        """All of a session's but its artifacts, opened."""
        sid = stored.head.session_id
        return structs.replace(
            stored,
            head=self.head(stored.head),
            waiting=tuple([self.item(sid, item) for item in stored.waiting]),
            timers=tuple([self.timer(sid, timer) for timer in stored.timers]),
        )


def _record(session_id: str, position: int, kind: str, version: int) -> SealedPlace:
    return SealedPlace(session_id, "record", (position, kind, version))


def _first(session_id: str, position: int, kind: str, version: int) -> SealedPlace:
    return SealedPlace(session_id, "record", (position, kind, version, "first of a fork"))


def _item(session_id: str, item: InboxItem) -> SealedPlace:
    return SealedPlace(session_id, "inbox item", (item.item_id, item.kind))


def _timer(session_id: str, timer_id: str) -> SealedPlace:
    return SealedPlace(session_id, "timer", (timer_id,))
