"""The seam to memories that a store keeps beside its sessions, and finds by their words.

Owns: entries, their bounds, the Protocol. Must not know: SQL, what a memory is good for, who asks.
Read next: `stores/kept_memories.py`, `context/store_memory.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

MAX_MEMORY_BYTES: Final = 16 * 1024
"""Of the text of one entry, in UTF-8."""
MAX_MEMORY_ID_BYTES: Final = 255
"""Of a namespace, and of an id, in UTF-8."""
MAX_MEMORY_METADATA_BYTES: Final = 4 * 1024
"""As JSON."""
MAX_EMBEDDING_BYTES: Final = 16 * 1024
MAX_MEMORIES: Final = 100
"""Entries in one answer."""


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One text that is kept across sessions."""

    namespace: str
    """Whose it is: a person, a project, an agent. Nothing is ever found from another one."""
    memory_id: str
    """Unique in its namespace."""
    text: str
    at: float
    """UTC epoch seconds; decides what is newest."""
    metadata: dict[str, Any] = {}
    """JSON; not searched."""
    embedding: bytes | None = None
    """Of whoever put it; the store gives it back and does not look into it."""


class MemoryHit(Struct, frozen=True):
    """An entry that was found."""

    entry: MemoryEntry
    score: float
    """Higher fits better; 0 when nothing was asked for. Comparable within one answer only."""


class MemoryIndex(Protocol):
    """Entries by namespace, found by their words.

    Raises what every store call raises (see `Store`), and `MemoryRefusedError` for a value over its bounds, when nothing
    was stored. Belongs to no session: entries stay when sessions are deleted, and are in no export.
    Concurrency and cancellation are those of `Store`.
    """

    def put_memory(self, entry: MemoryEntry, *, keep: int | None = None) -> Awaitable[None]:
        """Stores an entry, in place of the one with the same id.

        With `keep` the namespace is left with about that many of its newest entries (at least 1): those older than the
        newest `keep` go with the same commit. Survives a killed process; on SQLite it is not synced for its own sake.
        """
        ...

    def drop_memory(self, namespace: str, memory_id: str) -> Awaitable[bool]:
        """Removes an entry; False when it was not there."""
        ...

    def search_memories(self, namespace: str, query: str, limit: int = 10) -> Awaitable[Sequence[MemoryHit]]:
        """Entries with any of the words of `query`, best first, the newest first among equals; at most 100.

        A query is plain text of whoever wrote it, and no text raises. Words are compared without case and accents; of
        scripts that put no spaces between words, any two letters in a row are one. A query without words answers the
        newest entries. Every store ranks alike; in a namespace with very many matches, by words that nearly all of
        them have, the choice of those to rank is the database's.
        """
        ...

    def list_memories(
        self, namespace: str, *, limit: int = MAX_MEMORIES, behind: MemoryEntry | None = None
    ) -> Awaitable[Sequence[MemoryEntry]]:
        """Entries, newest first, at most 100; those of one time by id, the greater one first. `behind`: only those that
        come after this entry, for paging."""
        ...
