"""Counting calls under way, so that closing can wait for them.

Owns: `InFlight`. Must not know: what the calls do.
Read next: `loop.py`.
"""

from __future__ import annotations

import asyncio


class InFlight:
    """A context manager that any number of calls may be inside of at once."""

    __slots__ = ("_count", "_quiet")

    def __init__(self) -> None:
        self._count = 0
        self._quiet: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._count == 0 and self._quiet is not None:
            self._quiet.set()

    async def drained(self, timeout_s: float) -> bool:
        """Waits until no call is under way; False when `timeout_s` was over first."""
        if self._count == 0:
            return True
        self._quiet = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True


async def ended(work: set[asyncio.Task[None]], timeout_s: float) -> None:
    """Waits for work beside the runs; what is not done after `timeout_s` is cancelled and waited for."""
    _, late = await asyncio.wait(set(work), timeout=timeout_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
