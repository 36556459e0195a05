"""The words of a text, the words of a query, and how well one fits to the other: one rule for memories and for history.

Owns: normalizing, cutting into words, ranking. Must not know: what is searched, databases.
Read next: `recall_rules.py`, `stores/search_terms.py`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

K = TypeVar("K")

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
    return _terms_in(plain(text))


def _terms_in(bare: str) -> list[str]:
    if bare.isascii() or _UNSPACED.search(bare) is None:
        return _WORD.findall(bare)
    found: list[str] = []
    for word, unspaced in _words(bare):
        if unspaced:
            found += word
            found += _pairs(word)
        else:
            found.append(word)
    return found


def query_terms(query: str) -> tuple[str, ...]:
    """The different words that a query asks for; () when it has none."""
    found: dict[str, None] = {}
    for word, unspaced in _words(plain(query[:_MAX_QUERY_CHARS])):
        found.update(dict.fromkeys((unspaced and _pairs(word)) or [word]))
        if len(found) >= MAX_QUERY_TERMS:
            break
    return tuple(found)[:MAX_QUERY_TERMS]


def plain(text: str) -> str:
    """`text` without case and accents, in which its terms stand as they are."""
    if text.isascii():
        return text.lower()
    # Compatible forms (wide letters, ligatures) are one; case twice, since folding can undo the composition.
    bare = _POINTS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()))
    return unicodedata.normalize("NFC", bare)


class WordRanking(Generic[K]):
    """Texts with any of some terms, by name: BM25 over those that were found. Keeps no text."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._terms = terms
        self._found: list[tuple[K, list[int], int]] = []
        self._having = [0] * len(terms)

    def add(self, name: K, text: str) -> None:
        """Looks at one text."""
        bare = plain(text)
        if not any(term in bare for term in self._terms):
            return  # cutting into words takes far longer, and most texts have none
        counts = Counter(words := _terms_in(bare))
        times = [counts[term] for term in self._terms]
        if any(times):
            self._found.append((name, times, len(words)))
            self._having = [n + bool(one) for n, one in zip(self._having, times, strict=True)]

    def scores(self) -> list[tuple[K, float]]:
        """(name, score) of each text found, in the order in which they came."""
        if not self._found:
            return []
        usual = sum(size for *_, size in self._found) / len(self._found)
        weights = [math.log(1 + (len(self._found) - n + 0.5) / (n + 0.5)) for n in self._having]
        return [(name, _score(times, weights, size / usual)) for name, times, size in self._found]


def _score(times: Sequence[int], weights: Sequence[float], size: float) -> float:
    damping = _K1 * (1 - _B + _B * size)
    return sum([weight * n * (_K1 + 1) / (n + damping) for n, weight in zip(times, weights, strict=True) if n])


def _words(bare: str) -> Iterator[tuple[str, bool]]:
    """(word, whether it is a run of an unspaced script) of a plain text."""
    for found in _WORD.finditer(bare):
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
