"""Words as a database's own full-text index knows them, and the order of what it finds: alike for every store.

Owns: the spelling of words for an index, ranking of entries. Must not know: any database, what a word is (`core/words.py`).
A database gets words as short names made from them. So its tokenizer, its list of words to pass over, its shortest word
and its query syntax have no say, and no text that is searched for means anything to it.
Read next: `kept_memories.py`, then `sqlite_memories.py`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from ..core.words import WordRanking, terms_of
from ..ports.memory_index import MAX_MEMORIES, MemoryEntry, MemoryHit


def index_text(namespace: str, text: str) -> str:
    """What a database indexes: the names of the namespace and of each different word, between spaces."""
    return " ".join([namespace_name(namespace), *map(word_name, dict.fromkeys(terms_of(text)))])


def word_name(term: str) -> str:
    """A word as a database knows it: nine lower-case letters and digits. Two words have one name as good as never, and what
    is found by mistake does not pass `ranked`."""
    return f"t{_short(term)}"


def namespace_name(namespace: str) -> str:
    """A namespace as a word of each of its entries, so that the index alone narrows a search down to it."""
    return f"n{_short(namespace)}"


def ranked(terms: Sequence[str], entries: Iterable[MemoryEntry], limit: int) -> list[MemoryHit]:
    """Those of `entries` with any of `terms`, best first, the newest first among equals."""
    ranking: WordRanking[MemoryEntry] = WordRanking(terms)
    for entry in entries:
        ranking.add(entry, entry.text)
    hits = [MemoryHit(entry, score) for entry, score in ranking.scores()]
    hits.sort(key=lambda hit: hit.entry.memory_id, reverse=True)
    hits.sort(key=lambda hit: (-hit.score, -hit.entry.at))
    return hits[: bounded(limit)]


def bounded(limit: int) -> int:
    """A limit as the port has it."""
    return min(max(limit, 0), MAX_MEMORIES)


def _short(text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return base64.b32encode(digest).decode().lower()
