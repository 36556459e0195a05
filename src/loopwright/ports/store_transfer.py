"""The seam to taking a session out of one store and putting it into another, whole.

Owns: what a session is beside its records, as values. Must not know: files, formats.
Read next: `store.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from .artifact import Artifact
from .store import EncodedRecord, Head, InboxItem


class KnownItem(Struct, frozen=True, gc=False):
    """The id of an inbox item that was taken or marked."""

    item_id: str
    position: int
    """Right after the transition that took or marked it."""


class StoredTimer(Struct, frozen=True, gc=False):
    """A timer as it is stored."""

    timer_id: str
    due_at: float
    """UTC epoch seconds."""
    body: bytes
    paused: bool = False
    """Kept, and never claimed; `PutTimer` arms it again."""


class Inventory(Struct, frozen=True):
    """All of a session but its records and the bytes of its artifacts, as of one moment."""

    head: Head
    waiting: tuple[InboxItem, ...]
    """In order of arrival."""
    known: tuple[KnownItem, ...]
    """Ordered by id."""
    timers: tuple[StoredTimer, ...]
    """Ordered by id."""
    artifacts: tuple[Artifact, ...]
    """Ordered by id; of a fork also those that its base's records refer to."""


class SessionImage(Struct, frozen=True):
    """A whole session on its way into a store, and whole in memory: in pieces it would be there in part after a crash."""

    inventory: Inventory
    records: tuple[EncodedRecord, ...]
    """From position 0."""
    artifact_data: tuple[bytes, ...]
    """One for each of the inventory's artifacts, in their order."""


class StoreTransfer(Protocol):
    """Out of one store and into another. Raises what every store call raises; see `Store`."""

    def inventory(self, session_id: str) -> Awaitable[Inventory]:
        """What belongs to the session beside its records; records up to `head.position` never change any more."""
        ...

    def restore(self, image: SessionImage) -> Awaitable[Head]:
        """Puts the session in as it was, all or nothing, durable before return; answers its head.

        Positions, times, counts, inbox numbers, `epoch`, ids of artifacts and the link to its parent stay; there is no
        lease and no base, whatever the image's head says of them. Timers are paused or armed as the image says. An artifact
        that another session has with the same bytes is held by both from then on, and goes with the last of them. The
        caller has made sure that the parts fit each other. Raises `SessionExistsError` when the id was ever used.
        """
        ...
