"""Memories in an encrypted store: sealed as a whole, found by opening those of one namespace.

Owns: sealing and opening an entry, the search among opened ones. Must not know: ciphers, any particular store.
Namespaces, ids and times stay readable. The store inside cannot search what it cannot read, so a search opens the newest
entries of the namespace, up to `MAX_OPENED`; older ones are not found by words.
Read next: `encrypted.py`, `search_terms.py`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from ..core.words import query_terms
from ..model.codec import SEALED_TITLE, decode, encode, is_sealed, is_sealed_title
from ..model.errors import StoreCorruptError
from ..ports.memory_index import MAX_MEMORIES, MemoryEntry, MemoryHit, MemoryIndex
from .encrypted_envelope import SealedPlace, Sealer
from .encrypted_values import SEAL_ERRORS
from .kept_memories import checked
from .search_terms import ranked

MAX_OPENED: Final = 2_000
"""Entries that one search opens."""

_log = logging.getLogger(__name__)


def sealed_memory(sealer: Sealer, entry: MemoryEntry) -> MemoryEntry:
    """An entry of which only namespace, id and time can be read. Raises `MemoryRefusedError`."""
    checked(entry)
    inside = encode((entry.text, entry.metadata, entry.embedding))
    text = SEALED_TITLE + base64.b64encode(sealer.seal(_place(entry), inside)).decode("ascii")
    return MemoryEntry(namespace=entry.namespace, memory_id=entry.memory_id, text=text, at=entry.at)


def opened_memory(sealer: Sealer, stored: MemoryEntry) -> MemoryEntry:
    """What was sealed. Raises `SEAL_ERRORS`; a plain one is answered as it is where plain ones may be read."""
    place = _place(stored)
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
        text, metadata, embedding = decode(sealer.open(place, envelope), tuple[str, dict[str, Any], bytes | None])
    except StoreCorruptError as error:
        raise place.broken() from error
    return structs.replace(stored, text=text, metadata=metadata, embedding=embedding)


async def newest(
    inner: MemoryIndex, sealer: Sealer, namespace: str, limit: int, behind: MemoryEntry | None
) -> Sequence[MemoryEntry]:
    """See `MemoryIndex.list_memories`. One that does not open is left out, with a line in the log."""
    stored = await inner.list_memories(namespace, limit=limit, behind=behind)
    return _readable(sealer, stored)


async def search(inner: MemoryIndex, sealer: Sealer, namespace: str, query: str, limit: int) -> Sequence[MemoryHit]:
    """See `MemoryIndex.search_memories`; among the newest `MAX_OPENED` entries."""
    if not (terms := query_terms(query)):
        return [MemoryHit(one, 0.0) for one in await newest(inner, sealer, namespace, limit, None)]
    opened: list[MemoryEntry] = []
    seen, last = 0, None
    while seen < MAX_OPENED and (page := await inner.list_memories(namespace, limit=MAX_MEMORIES, behind=last)):
        opened += await asyncio.to_thread(_readable, sealer, page)
        seen, last = seen + len(page), page[-1]
    return await asyncio.to_thread(ranked, terms, opened, limit)


def _readable(sealer: Sealer, stored: Sequence[MemoryEntry]) -> Sequence[MemoryEntry]:
    found: list[MemoryEntry] = []
    for one in stored:
        try:
            found.append(opened_memory(sealer, one))
        except SEAL_ERRORS as error:
            _log.warning("a memory is left out: %s", error)
    return found


def _place(entry: MemoryEntry) -> SealedPlace:
    return SealedPlace(entry.namespace, "memory", (entry.memory_id,))
