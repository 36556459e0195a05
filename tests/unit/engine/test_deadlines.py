"""Time limits that share one timer."""

from __future__ import annotations

import asyncio

from loopwright.engine.deadlines import Deadlines


class Limit:
    def __init__(self, in_s: float) -> None:
        self.due = asyncio.get_running_loop().time() + in_s
        self.expired = asyncio.Event()

    def expire(self) -> None:
        self.expired.set()


async def test_limits_expire_in_any_order_of_their_making_and_not_after_they_ended() -> None:
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    late, soon, never = Limit(0.02), Limit(0.005), Limit(0.001)
    for limit in (late, soon, never):
        deadlines.add(loop, limit)
    deadlines.discard(never)
    await soon.expired.wait()
    assert not late.expired.is_set()
    await late.expired.wait()
    assert not never.expired.is_set()


def test_limits_of_an_event_loop_that_is_gone_are_forgotten() -> None:
    deadlines = Deadlines()

    async def left_behind() -> Limit:
        deadlines.add(asyncio.get_running_loop(), limit := Limit(0.001))
        deadlines.add(asyncio.get_running_loop(), late := Limit(3600.0))
        await limit.expired.wait()
        return late

    async def another() -> None:
        deadlines.add(asyncio.get_running_loop(), limit := Limit(0.001))
        await limit.expired.wait()

    old = asyncio.run(left_behind())
    asyncio.run(another())
    assert not old.expired.is_set()
