"""Memories as every store keeps them: their bounds, their stored form, and how many matches are looked at.

Owns: what is refused, the bytes of an entry. Must not know: any database, words (see `search_terms.py`).
Read next: `sqlite_memories.py`, `server_memories.py`, `memory_entries.py`, `encrypted_memories.py`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ..model.archive_errors import MemoryRefusedError
from ..model.codec import decode, encode, is_sealed_title
from ..ports.memory_index import (
    MAX_EMBEDDING_BYTES,
    MAX_MEMORY_BYTES,
    MAX_MEMORY_ID_BYTES,
    MAX_MEMORY_METADATA_BYTES,
    MemoryEntry,
)
from .search_terms import bounded

_MAX_SEALED: Final = 192 * 1024
"""Characters of an entry that an encrypted store sealed as a whole: JSON writes an odd letter as six, base64 three bytes as
four."""


def checked(entry: MemoryEntry) -> bytes:
    """The stored bytes of text and metadata. Raises `MemoryRefusedError`."""
    check_name("namespace", entry.namespace)
    check_name("memory_id", entry.memory_id)
    size, limit = len(entry.text.encode("utf-8", "surrogatepass")), MAX_MEMORY_BYTES
    if is_sealed_title(entry.text):
        limit = _MAX_SEALED
    _refuse_over("text", entry, size, limit)
    metadata = _encoded(entry)
    _refuse_over("metadata", entry, len(metadata), MAX_MEMORY_METADATA_BYTES)
    _refuse_over("embedding", entry, len(entry.embedding or b""), MAX_EMBEDDING_BYTES)
    if not math.isfinite(entry.at):
        raise MemoryRefusedError(f"memory {entry.memory_id!r}: at is {entry.at}; give UTC epoch seconds")
    return encode((entry.text, entry.metadata))


def check_name(what: str, name: str) -> None:
    """Raises `MemoryRefusedError` for a namespace or id that not every database can hold as it is."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MemoryRefusedError(f"{what} must be a text, not {type(name).__name__}")
    fine = name.isprintable() and name == name.strip() and not any("\ud800" <= c <= "\udfff" for c in name)
    if not fine or not 1 <= len(name.encode()) <= MAX_MEMORY_ID_BYTES:
        raise MemoryRefusedError(
            f"{what} {name[:80]!r}: give 1 to {MAX_MEMORY_ID_BYTES} bytes of printable text without a space at either end"
        )


def entry_of(namespace: str, memory_id: str, at: float, body: bytes, embedding: bytes | None) -> MemoryEntry:
    """A stored entry. Raises `StoreCorruptError`."""
    text, metadata = decode(bytes(body), tuple[str, dict[str, Any]])
    return MemoryEntry(
        namespace=namespace,
        memory_id=memory_id,
        text=text,
        at=at,
        metadata=metadata,
        embedding=None if embedding is None else bytes(embedding),
    )


def candidates(limit: int) -> int:
    """How many matches a database is asked for, of which the best `limit` are taken: its own order is rough."""
    return 2 * bounded(limit) + 32


def _encoded(entry: MemoryEntry) -> bytes:
    try:
        return encode(entry.metadata)
    except (TypeError, ValueError) as error:
        raise MemoryRefusedError(f"memory {entry.memory_id!r}: its metadata is no JSON ({error})") from error


def _refuse_over(what: str, entry: MemoryEntry, size: int, limit: int) -> None:
    if size > limit:
        raise MemoryRefusedError(
            f"memory {entry.memory_id!r} of {entry.namespace!r}: its {what} has {size} bytes, {limit} are allowed;"
            " nothing was stored; shorten it, or keep a reference"
        )
