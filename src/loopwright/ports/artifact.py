"""The seam to large data that does not belong into a journal.

Owns: the artifact values and Protocol. Must not know: who writes them.
Read next: `store.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct


class Artifact(Struct, frozen=True):
    """One stored blob."""

    artifact_id: str
    session_id: str
    media_type: str
    size: int
    """Bytes."""
    digest: str
    """SHA-256 of its bytes in hex, unless whoever put it said another one."""


class ArtifactStore(Protocol):
    """Blobs beside the journal, in rows of 256 KiB of their own transactions, referenced by records."""

    def put_artifact(
        self, session_id: str, data: bytes, media_type: str, *, digest: str | None = None
    ) -> Awaitable[Artifact]:
        """Stores `data`, durable before return; equal content of one session is stored once (id from the digest).

        `digest` stands in for the SHA-256 of `data`, for who stores other bytes than were given to him: a wrapper that
        encrypts. 64 hex digits; it is said for the same bytes only.
        """
        ...

    def read_artifact(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> Awaitable[bytes]:
        """Bytes from `offset`; b"" past the end. Raises `StoreCorruptError` when a row is missing."""
        ...

    def artifact(self, artifact_id: str) -> Awaitable[Artifact | None]:
        """What is known about it; None when there is no such artifact."""
        ...
