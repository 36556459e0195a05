"""Work in the caller's own task against a stop, a time limit and the caller's own cancellation; time limits as such."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from tests.waiting import next_turn

from loopwright.engine.deadlines import Deadlines
from loopwright.engine.interrupting import interruptible
from loopwright.engine.stopping import Stopped, TimedOut
from loopwright.ports.cancellation import CancellationToken


def begun(work: Any, token: CancellationToken | None = None, timeout_s: float | None = None) -> asyncio.Task[Any]:
    """The work as its own caller, with a mark of what its task was left with."""

    async def caller() -> Any:
        result = await interruptible(
            work, token or CancellationToken(), Deadlines(), timeout_s=timeout_s, grace_s=0.001
        )
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await next_turn()  # nothing is left that would cancel it now
        return result

    return asyncio.create_task(caller())


async def forever() -> None:
    await asyncio.Event().wait()


async def test_work_that_ends_gives_its_result_and_its_error() -> None:
    async def value() -> int:
        await next_turn()
        return 7

    async def fails() -> None:
        raise KeyError("x")

    assert await begun(value(), timeout_s=5.0) == 7
    with pytest.raises(KeyError):
        await begun(fails())


@pytest.mark.parametrize("from_thread", [True, False])
async def test_a_stop_interrupts_work_that_goes_on(from_thread: bool) -> None:
    token = CancellationToken()
    working = begun(forever(), token)
    await next_turn()
    if from_thread:
        await asyncio.to_thread(token.cancel, "enough")
    else:
        token.cancel("enough")
    outcome = await working
    assert isinstance(outcome, Stopped)
    assert outcome.reason == "enough"


async def test_a_stop_before_the_start_lets_nothing_begin() -> None:
    began = False

    async def work() -> None:
        nonlocal began
        began = True

    token = CancellationToken()
    token.cancel("already")
    assert isinstance(await begun(work(), token), Stopped)
    assert not began


async def test_a_polled_stop_is_seen() -> None:
    event = threading.Event()
    working = begun(forever(), CancellationToken.from_any(event))
    await next_turn()
    event.set()
    assert isinstance(await working, Stopped)


async def test_time_ends() -> None:
    assert isinstance(await begun(forever(), timeout_s=0.001), TimedOut)


async def test_work_that_goes_on_is_cancelled_until_it_gives_in(caplog: pytest.LogCaptureFixture) -> None:
    heard = 0

    async def stubborn() -> None:
        nonlocal heard
        while heard < 5:
            try:
                await forever()
            except asyncio.CancelledError:
                heard += 1
        await forever()

    with caplog.at_level(logging.WARNING):
        assert isinstance(await begun(stubborn(), timeout_s=0.001), TimedOut)
    assert heard == 5
    assert len(caplog.records) == 1


async def test_a_result_that_interrupted_work_still_gives_is_kept() -> None:
    async def paid() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            await next_turn()
        return "paid for"

    assert await begun(paid(), timeout_s=0.001) == "paid for"


@pytest.mark.parametrize("stopped_too", [True, False])
async def test_the_callers_own_cancellation_goes_on(stopped_too: bool) -> None:
    token = CancellationToken()
    working = begun(forever(), token)
    await next_turn()
    working.cancel()
    if stopped_too:
        token.cancel("at once")
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_a_cancellation_that_was_under_way_before_is_not_swallowed() -> None:
    async def caller() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await interruptible(forever(), CancellationToken(), Deadlines(), timeout_s=None, grace_s=0.001)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())


async def test_work_that_cancels_itself_is_an_error_not_a_cancellation() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled itself"):
        await begun(gives_up())


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
