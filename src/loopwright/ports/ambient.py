"""The seam to time, randomness, ids and named points: all that makes two runs differ.

Owns: the Protocol and the real implementation. Must not know: who asks.
Read next: `testing/virtual.py` for the deterministic one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time as _time
from typing import Protocol


class Ambient(Protocol):
    """Where the engine gets everything that is not a function of the journal."""

    def now(self) -> float:
        """Wall time, UTC epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; the origin means nothing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits; cancellable."""
        ...

    def random(self) -> float:
        """A float in [0, 1), for jitter."""
        ...

    def new_id(self, prefix: str) -> str:
        """`prefix_` plus 24 hex digits that sort by time of creation."""
        ...

    def token(self) -> bytes:
        """16 bytes that no other call of any process returns."""
        ...

    @property
    def quiet(self) -> bool:
        """True when `reach` does nothing, so that points on hot paths need not be named."""
        ...

    def reach(self, point: str) -> None:
        """Called at every named commit and effect point. Does nothing outside of tests."""
        ...


async def breathe() -> None:
    """Lets everything else that is ready run first; takes no time by any clock."""
    await asyncio.sleep(0)


class RealAmbient:
    """The machine's clock, randomness and ids."""

    def now(self) -> float:
        """Wall time, UTC epoch seconds."""
        return _time.time()

    def monotonic(self) -> float:
        """The machine's monotonic clock in seconds."""
        return _time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """`asyncio.sleep`."""
        await asyncio.sleep(seconds)

    def random(self) -> float:
        """A float in [0, 1)."""
        return int.from_bytes(os.urandom(7), "big") / (1 << 56)

    def new_id(self, prefix: str) -> str:
        """Time-ordered: 12 hex digits of milliseconds, 12 random ones."""
        return f"{prefix}_{int(_time.time() * 1000):012x}{os.urandom(6).hex()}"

    quiet = True

    def __init__(self) -> None:
        self._secret = os.urandom(8)
        self._count = itertools.count()

    def token(self) -> bytes:
        """8 random bytes of this object and 8 that count: never twice, and no system call each time."""
        return self._secret + next(self._count).to_bytes(8, "big")

    def reach(self, point: str) -> None:
        """Does nothing."""
