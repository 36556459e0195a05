"""Memory across sessions in a store: found by words, and by meaning where the host can compute it.

Owns: `StoreMemory`: what is kept of a send when nobody says otherwise, and the order of what is recalled.
Must not know: any store, requests, when it is called.
Read next: `ports/memory.py`, `ports/memory_index.py`, `embeddings.py`.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..core.estimate import message_tokens
from ..model.messages import Message, UserMessage
from ..ports.ambient import Ambient, RealAmbient
from ..ports.memory import MemorySnapshot, RecalledMemory
from ..ports.memory_index import MAX_MEMORIES, MAX_MEMORY_BYTES, MemoryEntry, MemoryIndex
from ..prompts import prompt
from .embeddings import Embed, nearest, vectors

MAX_TEXTS: Final = 20
"""Memories that one send can leave."""
_ASKED_CHARS: Final = 500
_ANSWERED_CHARS: Final = 1_000
_FLOOR: Final = 0.25
"""Of the best score by words: what is below shares little more than the words that everything shares."""
_COMPARED: Final = 1_000
"""Newest entries whose embeddings are compared."""
_RANK_OFFSET: Final = 60
"""The usual constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""

_log = logging.getLogger(__name__)


def exchange_of(snapshot: MemorySnapshot) -> Sequence[str]:
    """What is kept when nobody says otherwise: of a completed send its input and its answer, both shortened."""
    asked = next((one.text for one in snapshot.messages if isinstance(one, UserMessage)), "")
    asked, answered = _short(asked, _ASKED_CHARS), _short(snapshot.final_text, _ANSWERED_CHARS)
    if snapshot.status != "completed" or not asked or not answered:
        return ()
    return (prompt("memory_exchange").format(asked=asked, answered=answered),)


class StoreMemory:
    """A `MemoryProvider` on a store's `MemoryIndex`: durable, bounded, shared by all processes on that store.

    Recalls what other sessions left, never what the asking one did: that is in its own journal. One text is kept once,
    as of the last time that it was said.
    Concurrency and cancellation are those of the index.
    """

    def __init__(
        self,
        index: MemoryIndex,
        *,
        namespace: str | Callable[[str], str] = "default",
        remember: Callable[[MemorySnapshot], Iterable[str]] = exchange_of,
        embed: Embed | None = None,
        keep: int = 1_000,
        limit: int = 8,
        ambient: Ambient | None = None,
    ) -> None:
        """`index`: a store is one. `namespace`: whose memories these are, or a function of the session's id: sessions of
        different people must not share one. `remember`: what to keep of a send; at most 20 texts, cut at 4,096 letters.
        `embed`: vectors of texts, sync (called in a thread) or async; where it fails or takes over 10 s, words alone
        count. `keep`: entries of a namespace, oldest go first. `limit`: memories recalled for a send.
        """
        self._index = index
        self._namespace = namespace
        self._remember = remember
        self._embed = embed
        self._keep = keep
        self._limit = limit
        self._ambient = ambient or RealAmbient()

    async def recall(
        self, messages: Sequence[Message], session_id: str, budget_tokens: int
    ) -> Sequence[RecalledMemory]:
        """See `MemoryProvider.recall`. Asks for the words, and the meaning, of the newest user message."""
        asked = next((one.text for one in reversed(messages) if isinstance(one, UserMessage)), "")
        if not asked.strip():
            return ()
        fitting = await self._fitting(self._space(session_id), asked, session_id)
        return _within(budget_tokens, fitting[: self._limit])

    async def remember(self, snapshot: MemorySnapshot, session_id: str) -> None:
        """See `MemoryProvider.remember`. The same text again is the same entry, made new."""
        cut = MAX_MEMORY_BYTES // 4  # letters, of which one has up to four bytes
        texts = list(dict.fromkeys([one for text in self._remember(snapshot) if (one := text.strip()[:cut])]))[
            :MAX_TEXTS
        ]
        if not texts:
            return
        space, now = self._space(session_id), self._ambient.now()
        embeddings: Sequence[bytes | None] = await self._vectors(texts) or [None] * len(texts)
        for text, embedding in zip(texts, embeddings, strict=True):
            entry = MemoryEntry(
                namespace=space,
                memory_id=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32],
                text=text,
                at=now,
                metadata={"session_id": session_id},
                embedding=embedding,
            )
            await self._index.put_memory(entry, keep=self._keep)

    def _space(self, session_id: str) -> str:
        return self._namespace if isinstance(self._namespace, str) else self._namespace(session_id)

    async def _fitting(self, space: str, asked: str, session_id: str) -> Sequence[RecalledMemory]:
        """What fits, best first, of both ways to look for it."""
        wanted = min(2 * self._limit + 16, MAX_MEMORIES)  # more than are answered: those of this session fall out
        hits = [hit for hit in await self._index.search_memories(space, asked, wanted) if hit.score > 0]
        floor = hits[0].score * _FLOOR if hits else 0.0
        by_words = [hit.entry for hit in hits if hit.score >= floor and _is_foreign(hit.entry, session_id)]
        asked_for = await self._vectors([asked]) if self._embed is not None else None
        by_meaning: Sequence[MemoryEntry] = ()
        if asked_for:
            near = await nearest(asked_for[0], await self._newest(space), wanted)
            by_meaning = [entry for entry in near if _is_foreign(entry, session_id)]
        return _fused(by_words, by_meaning)

    async def _newest(self, space: str) -> Sequence[MemoryEntry]:
        found: list[MemoryEntry] = []
        last: MemoryEntry | None = None
        while len(found) < _COMPARED and (page := await self._index.list_memories(space, behind=last)):
            found += page
            last = page[-1]
        return found

    async def _vectors(self, texts: Sequence[str]) -> Sequence[bytes] | None:
        if self._embed is None:
            return None
        try:
            return await vectors(self._embed, texts)
        except Exception as error:  # noqa: BLE001 - the host's function: words alone count then
            _log.warning(
                "embedding %d texts failed, words alone count: %s: %s", len(texts), type(error).__name__, error
            )
            return None


def _fused(*lists: Sequence[MemoryEntry]) -> Sequence[RecalledMemory]:
    """Reciprocal rank fusion: what stands high in several lists comes first; of one list the order stays."""
    scores: dict[str, float] = defaultdict(float)
    entries: dict[str, MemoryEntry] = {}
    for found in lists:
        for rank, entry in enumerate(found, 1):
            scores[entry.memory_id] += 1 / (_RANK_OFFSET + rank)
            entries[entry.memory_id] = entry
    best = sorted(entries.values(), key=lambda one: -scores[one.memory_id])
    return [RecalledMemory(text=one.text, source=one.memory_id, score=scores[one.memory_id]) for one in best]


def _within(budget_tokens: int, memories: Sequence[RecalledMemory]) -> Sequence[RecalledMemory]:
    """Those that fit into the budget, best first; a long one makes room for shorter ones behind it."""
    found: list[RecalledMemory] = []
    left = budget_tokens
    for memory in memories:
        if (cost := message_tokens(UserMessage(memory.text))) <= left:
            found.append(memory)
            left -= cost
    return found


def _is_foreign(entry: MemoryEntry, session_id: str) -> bool:
    return entry.metadata.get("session_id") != session_id


def _short(text: str, limit: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"
