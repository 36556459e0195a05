"""Waiting for a condition with a deadline, which is all the waiting that tests do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(holds: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Returns as soon as the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"did not come true within {within_s:g} s"
        await next_turn(0.002)


async def next_turn(wait_s: float = 0.0) -> None:
    """Lets everything else that is ready go first."""
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=wait_s)
