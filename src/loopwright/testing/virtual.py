"""Time, ids and randomness that are the same in every run.

Owns: `VirtualAmbient`. Must not know: the engine, stores, test runners. Leases are not part of it: their keeper uses the
machine's clock on purpose, since a lease is a promise to other processes.
Read next: `crash_points.py`, which adds stopping at named points.
"""

from __future__ import annotations

import asyncio
import heapq
import random as _random
from collections.abc import Callable

PATIENCE = 50
"""Turns of the event loop that a sleeper waits for others before time is moved."""


class VirtualAmbient:
    """An `Ambient` whose time moves only when somebody sleeps, and then at once.

    Equal seeds give equal ids, tokens and random numbers in the order in which they are asked for; give each simulated
    process its own seed, so that their ids differ. `on_point` is called with every named point.
    `sleep` ends after a few turns of the event loop, in order of the due times, with `now` and `monotonic` moved to the due
    time; work in other threads is not waited for. Concurrency: one event loop.
    """

    def __init__(
        self, *, seed: int = 0, start_at: float = 1_800_000_000.0, on_point: Callable[[str], None] | None = None
    ) -> None:
        self._start_at = start_at
        self._elapsed = 0.0
        self._seed = seed
        self._chance = _random.Random(seed)
        self._made = 0
        self._on_point = on_point
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turns = 0
        self._watching = False

    def now(self) -> float:
        """`start_at` plus what was slept."""
        return self._start_at + self._elapsed

    def monotonic(self) -> float:
        """Seconds slept since the beginning."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Moves time forward and wakes everybody who is due."""
        self._elapsed += seconds
        self._wake()

    async def sleep(self, seconds: float) -> None:
        """Moves time instead of waiting."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._made += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(seconds, 0.0), self._made, place))
        self._turns = 0
        if not self._watching:
            self._watching = True
            place.get_loop().call_soon(self._turn, place.get_loop())
        await place

    def random(self) -> float:
        """The next number of the seed's sequence."""
        return self._chance.random()

    def new_id(self, prefix: str) -> str:
        """`prefix_`, the seed and a count, each in 12 hex digits."""
        self._made += 1
        return f"{prefix}_{self._seed:012x}{self._made:012x}"

    def token(self) -> bytes:
        """16 bytes of the seed's sequence."""
        return self._chance.randbytes(16)

    quiet = False

    def reach(self, point: str) -> None:
        """Calls `on_point`."""
        if self._on_point is not None:
            self._on_point(point)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # cancelled while it slept
        self._turns += 1
        if self._turns > PATIENCE and self._sleepers:
            self._elapsed = max(self._elapsed, self._sleepers[0][0])
            self._wake()
        self._watching = bool(self._sleepers)
        if self._watching:
            loop.call_soon(self._turn, loop)

    def _wake(self) -> None:
        self._turns = 0
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, place = heapq.heappop(self._sleepers)
            if not place.done():
                place.set_result(None)
