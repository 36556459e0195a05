"""The words of a text, the words of a query, and how well one fits to the other: alike for every store.

Owns: normalizing, cutting into words, ranking, and the spelling of words for a database's own full-text index.
Must not know: any database. A database gets words as short names made from them. So its tokenizer, its list of words to
pass over, its shortest word and its query syntax have no say, and no text that is searched for means anything to it.
Read next: `kept_memories.py`, then `sqlite_memories.py`.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..ports.memory_index import MAX_MEMORIES, MemoryEntry, MemoryHit

MAX_QUERY_TERMS: Final = 64
"""Different words of a query that count: the first ones."""
_MAX_QUERY_CHARS: Final = 16_384

# Accents, and vowel points that Hebrew and Arabic may be written without, are no part of a word's identity.
_POINTS: Final = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+"
)
# Letters and digits, with the vowel signs of the scripts of South and South-East Asia, which are marks and no letters.
_WORD: Final = re.compile("(?:[^\\W_]|[\u0900-\u0963\u0966-\u0dff\u0e01-\u0e5b\u0e80-\u109f\u1780-\u17d3\u17dd])+")
# Thai to Myanmar, Khmer, Japanese, Chinese, Korean: words do not end at spaces, or only groups of them do.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)

_K1: Final = 1.2
_B: Final = 0.75
"""The usual constants of BM25 (Robertson and Zaragoza, 2009)."""


def terms_of(text: str) -> list[str]:
    """The words of a text in order, repeated as they are; of unspaced scripts each letter, and each two in a row."""
    found: list[str] = []
    for word, unspaced in _words(text):
        if unspaced:
            found += word
            found += _pairs(word)
        else:
            found.append(word)
    return found


def query_terms(query: str) -> tuple[str, ...]:
    """The different words that a query asks for; () when it has none."""
    found: dict[str, None] = {}
    for word, unspaced in _words(query[:_MAX_QUERY_CHARS]):
        found.update(dict.fromkeys((unspaced and _pairs(word)) or [word]))
        if len(found) >= MAX_QUERY_TERMS:
            break
    return tuple(found)[:MAX_QUERY_TERMS]


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
    """Those of `entries` with any of `terms`, best first, the newest first among equals: BM25 over the given entries."""
    found: list[tuple[MemoryEntry, list[int], int]] = []
    having = [0] * len(terms)
    for entry in entries:
        counts = Counter(words := terms_of(entry.text))
        times = [counts[term] for term in terms]
        if any(times):
            found.append((entry, times, len(words)))
            having = [n + bool(one) for n, one in zip(having, times, strict=True)]
    if not found:
        return []
    usual = sum(size for *_, size in found) / len(found)
    weights = [math.log(1 + (len(found) - n + 0.5) / (n + 0.5)) for n in having]
    hits = [MemoryHit(entry, _score(times, weights, size / usual)) for entry, times, size in found]
    hits.sort(key=lambda hit: hit.entry.memory_id, reverse=True)
    hits.sort(key=lambda hit: (-hit.score, -hit.entry.at))
    return hits[: bounded(limit)]


def bounded(limit: int) -> int:
    """A limit as the port has it."""
    return min(max(limit, 0), MAX_MEMORIES)


def _score(times: Sequence[int], weights: Sequence[float], size: float) -> float:
    damping = _K1 * (1 - _B + _B * size)
    return sum([weight * n * (_K1 + 1) / (n + damping) for n, weight in zip(times, weights, strict=True) if n])


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """(word, whether it is a run of an unspaced script), without case and accents."""
    # Compatible forms (wide letters, ligatures) are one; case twice, since folding can undo the composition.
    plain = _POINTS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()))
    for found in _WORD.finditer(unicodedata.normalize("NFC", plain)):
        word, end = found[0], 0
        for run in _UNSPACED.finditer(word):
            if run.start() > end:
                yield word[end : run.start()], False
            yield run[0], True
            end = run.end()
        if end < len(word):
            yield word[end:], False


def _pairs(word: str) -> list[str]:
    return [word[n : n + 2] for n in range(len(word) - 1)]


def _short(text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return base64.b32encode(digest).decode().lower()
