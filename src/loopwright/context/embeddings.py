"""Texts as vectors of a host's own function, and which of many stored ones are nearest.

Owns: calling that function, the stored form of a vector, the comparison. Must not know: where vectors are kept.
Read next: `store_memory.py`.
"""

from __future__ import annotations

import array
import asyncio
import inspect
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from operator import mul
from typing import Final, TypeAlias

from ..ports.memory_index import MemoryEntry

Embed: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]]
"""Vectors of texts, one for each, all of one length."""

LIMIT_S: Final = 10.0
"""How long a call may take."""


async def vectors(embed: Embed, texts: Sequence[str]) -> list[bytes]:
    """The vectors of `texts` in their stored form: of length one, 32-bit floats, little end first.

    A sync function runs in a thread. Raises whatever it raises, `TimeoutError`, and `ValueError` for an answer that is not
    one vector of finite numbers for each text.
    """
    async with asyncio.timeout(LIMIT_S):
        if inspect.iscoroutinefunction(embed):
            made = await embed(texts)
        else:
            made = await asyncio.to_thread(embed, texts)
            if inspect.isawaitable(made):
                made = await made
    if len(made) != len(texts):
        raise ValueError(f"{len(made)} vectors for {len(texts)} texts")
    return [_stored([float(x) for x in vector]) for vector in made]


async def nearest(vector: bytes, entries: Sequence[MemoryEntry], limit: int) -> list[MemoryEntry]:
    """The entries whose vectors point most nearly in the same direction, nearest first; in a thread.

    Those without a vector, or with one of another length (made by another function), are passed over.
    """
    return await asyncio.to_thread(_nearest, vector, entries, limit)


def _nearest(vector: bytes, entries: Sequence[MemoryEntry], limit: int) -> list[MemoryEntry]:
    asked = _numbers(vector)
    found = [
        (sum(map(mul, asked, _numbers(one.embedding))), one)
        for one in entries
        if one.embedding is not None and len(one.embedding) == len(vector)
    ]
    found.sort(key=lambda pair: -pair[0])
    return [one for likeness, one in found[:limit] if likeness > 0]


def _stored(vector: Sequence[float]) -> bytes:
    length = math.hypot(*vector)
    if not vector or not math.isfinite(length):
        raise ValueError("a vector is empty, or has a number that is not finite")
    return _swapped(array.array("f", [x / length if length else 0.0 for x in vector])).tobytes()


def _numbers(stored: bytes) -> array.array[float]:
    found = array.array("f")
    found.frombytes(stored)
    return _swapped(found)


def _swapped(numbers: array.array[float]) -> array.array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
