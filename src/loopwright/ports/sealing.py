"""The seam to encryption: the keys it uses, and a store whose sessions can be copied without opening them.

Owns: the Protocols `SealingKeys` and `SealedStore`. Must not know: any cipher, where keys come from.
Read next: `stores/encrypted.py`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .store_admin import SessionStore
from .store_transfer import SessionImage


class SealingKeys(Protocol):
    """Keys by id. A host may fetch them from wherever it keeps secrets, before it opens the store.

    Both members are asked for every value, on the event loop or in a thread, so they must not wait. The key of an id never
    changes.
    """

    @property
    def current(self) -> str:
        """The id of the key for what is written from now on: 1 to 64 bytes as UTF-8, stored in clear. It may change."""
        ...

    def key(self, key_id: str) -> bytes | None:
        """The 32 bytes of a key; None when there is none of this id."""
        ...


@runtime_checkable
class SealedStore(Protocol):
    """What a store that encrypts implements beside `SessionStore`, so that copies of sessions stay encrypted."""

    @property
    def sealed(self) -> SessionStore:
        """The same sessions as they are kept: bodies, titles and artifacts sealed. To read from, never to write to."""
        ...

    def opened(self, image: SessionImage) -> SessionImage:
        """A session that was read from `sealed`, in plain, each value checked to stand where it was stored.

        Raises `SealBrokenError`, `SealKeyError`, `UnsealedError`.
        """
        ...
