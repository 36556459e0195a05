"""Memories of a store in memory: the model of what every store's index answers.

Owns: the memories of `SharedData`. Must not know: words (see `search_terms.py`), event loops.
Read next: `ports/memory_index.py`, then `sqlite_memories.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.words import query_terms
from ..ports.memory_index import MemoryEntry, MemoryHit
from .kept_memories import checked, entry_of
from .memory_data import SharedData
from .search_terms import bounded, ranked


def put(data: SharedData, entry: MemoryEntry, keep: int | None) -> None:
    """See `MemoryIndex.put_memory`."""
    space, body = entry.namespace, checked(entry)
    # Through its stored form, so that nobody can change what was kept.
    kept = data.memories.setdefault(space, {})
    kept[entry.memory_id] = entry_of(space, entry.memory_id, entry.at, body, entry.embedding)
    if keep is not None and len(kept) > max(keep, 1):
        oldest = _newest_first(kept)[max(keep, 1) - 1].at
        data.memories[space] = {name: one for name, one in kept.items() if one.at >= oldest}


def drop(data: SharedData, namespace: str, memory_id: str) -> bool:
    """See `MemoryIndex.drop_memory`."""
    return data.memories.get(namespace, {}).pop(memory_id, None) is not None


def search(data: SharedData, namespace: str, query: str, limit: int) -> Sequence[MemoryHit]:
    """See `MemoryIndex.search_memories`."""
    if not (terms := query_terms(query)):
        return [MemoryHit(one, 0.0) for one in newest(data, namespace, limit, None)]
    return ranked(terms, data.memories.get(namespace, {}).values(), limit)


def newest(data: SharedData, namespace: str, limit: int, behind: MemoryEntry | None) -> Sequence[MemoryEntry]:
    """See `MemoryIndex.list_memories`."""
    found = _newest_first(data.memories.get(namespace, {}))
    if behind is not None:
        found = [one for one in found if (one.at, one.memory_id) < (behind.at, behind.memory_id)]
    return found[: bounded(limit)]


def _newest_first(kept: dict[str, MemoryEntry]) -> list[MemoryEntry]:
    return sorted(kept.values(), key=lambda one: (one.at, one.memory_id), reverse=True)
