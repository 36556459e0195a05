"""A sealed artifact: its digest and size, then its bytes in slices, each an envelope of its own.

Owns: the layout, and which bytes of it hold which of the artifact. Must not know: stores.
The same content under the same key gives the same bytes, since several who put it at once write the same rows.
Read next: `encrypted_envelope.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ..ports.artifact import Artifact
from .derived import artifact_name
from .encrypted_envelope import SealedPlace, Sealer, overhead_of

SLICE_BYTES: Final = 64 * 1024
"""Of the artifact, in one envelope."""

LONGEST_START: Final = 512
"""The envelope of digest and size is within so many bytes."""

_DIGEST: Final = 32
_START: Final = _DIGEST + 8


class SealedArtifact(Struct, frozen=True):
    """What is known of a sealed artifact from its first bytes."""

    session_id: str
    artifact_id: str
    size: int
    digest: str
    overhead: int
    """Of each envelope, in bytes."""

    def span(self, offset: int, limit: int | None) -> tuple[range, int, int]:
        """(slices that hold these bytes of the artifact, offset and length of their envelopes)."""
        stop = self.size if limit is None else min(self.size, offset + limit)
        if offset >= stop:
            return range(0), 0, 0
        wanted = range(offset // SLICE_BYTES, (stop - 1) // SLICE_BYTES + 1)
        before, whole = _START + self.overhead, SLICE_BYTES + self.overhead
        last = min(SLICE_BYTES, self.size - wanted[-1] * SLICE_BYTES) + self.overhead
        return wanted, before + wanted.start * whole, (len(wanted) - 1) * whole + last


def sealed_artifact(
    sealer: Sealer, session_id: str, data: bytes, digest: str, artifact_id: str | None = None
) -> tuple[Artifact, bytes]:
    """What to store for `data`, whose SHA-256 in hex is `digest`: facts without a media type, and bytes.

    The id is made as every store does it, unless it is given. All of it is under one key, whichever is current meanwhile.
    """
    key_id = sealer.current()
    name = sealer.content_name(key_id, session_id, digest)
    artifact_id = artifact_id or artifact_name(session_id, name)
    values = [bytes.fromhex(digest) + len(data).to_bytes(8, "big")]
    values += [data[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES)]
    stored = b"".join(
        [sealer.seal_alike(key_id, _place(session_id, artifact_id, n), v) for n, v in enumerate(values, -1)]
    )
    return Artifact(artifact_id, session_id, "", len(stored), name), stored


def artifact_start(sealer: Sealer, session_id: str, artifact_id: str, stored: bytes) -> SealedArtifact | None:
    """What the first `LONGEST_START` bytes say; None for a plain artifact that may be read.

    Raises `SealBrokenError`, `SealKeyError`, `UnsealedError`.
    """
    place = _place(session_id, artifact_id, -1)
    if sealer.is_plain(place, stored):
        return None
    overhead = overhead_of(place, stored)
    start = sealer.open(place, stored[: overhead + _START])
    digest, size = start[:_DIGEST].hex(), int.from_bytes(start[_DIGEST:], "big")
    return SealedArtifact(session_id, artifact_id, size, digest, overhead)


def opened_slices(sealer: Sealer, one: SealedArtifact, wanted: range, stored: bytes) -> Iterator[bytes]:
    """The bytes of these slices, from their envelopes. Raises `SealBrokenError`, `SealKeyError`."""
    whole = SLICE_BYTES + one.overhead
    for count, n in enumerate(wanted):
        envelope = stored[count * whole : (count + 1) * whole]
        yield sealer.open(_place(one.session_id, one.artifact_id, n), envelope)


def opened_artifact(sealer: Sealer, session_id: str, artifact_id: str, stored: bytes) -> tuple[bytes, str | None]:
    """The whole artifact and its digest; the digest of a plain one is None."""
    one = artifact_start(sealer, session_id, artifact_id, stored)
    if one is None:
        return stored, None
    wanted, at, length = one.span(0, None)
    return b"".join(opened_slices(sealer, one, wanted, stored[at : at + length])), one.digest


def _place(session_id: str, artifact_id: str, n: int) -> SealedPlace:
    return SealedPlace(session_id, "artifact", (artifact_id, n))
