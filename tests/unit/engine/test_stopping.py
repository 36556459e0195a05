"""Work against a stop, a time limit and the caller's own cancellation; threads that cannot be stopped."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from tests.waiting import next_turn, until

from loopwright.engine import threads
from loopwright.engine.deadlines import Deadlines
from loopwright.engine.stopping import Stopped, TimedOut, Won, race
from loopwright.engine.threads import in_thread
from loopwright.ports.cancellation import CancellationToken


async def value(result: Any = 7) -> Any:
    return result


async def forever() -> None:
    await asyncio.Event().wait()


async def test_work_that_ends_first_wins() -> None:
    raced = await race(value(), CancellationToken(), Deadlines(), timeout_s=5.0, grace_s=0.1)
    assert isinstance(raced, Won)
    assert raced.value == 7


async def test_what_the_work_raises_is_raised() -> None:
    async def fails() -> None:
        await next_turn()
        raise KeyError("x")

    with pytest.raises(KeyError):
        await race(fails(), CancellationToken(), Deadlines(), timeout_s=None, grace_s=0.1)


@pytest.mark.parametrize("from_thread", [True, False])
async def test_a_stop_wins_against_work_that_goes_on(from_thread: bool) -> None:
    token = CancellationToken()
    racing = asyncio.create_task(race(forever(), token, Deadlines(), timeout_s=None, grace_s=0.1))
    await next_turn()
    if from_thread:
        await asyncio.to_thread(token.cancel, "enough")
    else:
        token.cancel("enough")
    raced = await racing
    assert isinstance(raced, Stopped)
    assert (raced.reason, raced.abandoned) == ("enough", False)


async def test_a_stop_before_the_start_lets_nothing_begin() -> None:
    token = CancellationToken()
    token.cancel("already")
    raced = await race(value(), token, Deadlines(), timeout_s=None, grace_s=0.1)
    assert isinstance(raced, Stopped)


async def test_a_polled_stop_is_seen() -> None:
    event = threading.Event()
    racing = asyncio.create_task(
        race(forever(), CancellationToken.from_any(event), Deadlines(), timeout_s=None, grace_s=0.1)
    )
    await next_turn()
    event.set()
    assert isinstance(await racing, Stopped)


async def test_time_ends() -> None:
    raced = await race(forever(), CancellationToken(), Deadlines(), timeout_s=0.01, grace_s=0.1)
    assert isinstance(raced, TimedOut)
    assert not raced.abandoned


async def test_work_that_does_not_wind_down_is_left_behind_and_its_end_observed() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise RuntimeError("nobody hears this")

    raced = await race(stubborn(), CancellationToken(), Deadlines(), timeout_s=0.01, grace_s=0.01)
    assert isinstance(raced, TimedOut)
    assert raced.abandoned
    release.set()


async def test_a_cancelled_caller_takes_its_work_with_it() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.set()

    racing = asyncio.create_task(race(work(), CancellationToken(), Deadlines(), timeout_s=None, grace_s=1.0))
    await next_turn()
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert ended.is_set()


async def test_work_that_cancels_itself_is_an_error_not_a_cancellation() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled itself"):
        await race(gives_up(), CancellationToken(), Deadlines(), timeout_s=None, grace_s=0.1)


async def test_a_thread_hands_its_value_and_its_error_over() -> None:
    assert await in_thread(lambda: 7) == 7

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_thread(fails)

    def stops() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(stops)


async def test_a_thread_sees_the_context_of_its_caller() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
    name.set("ann")
    assert await in_thread(name.get) == "ann"


async def test_threads_nobody_waits_for_are_counted_in_a_warning_until_they_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def left(release: threading.Event, among: list[threading.Thread]) -> int:
        """Leaves a thread behind; how many the warning says there are."""
        began = threading.Event()

        def work() -> None:
            among.append(threading.current_thread())
            began.set()
            release.wait(60)

        waiting = asyncio.create_task(in_thread(work))
        await until(began.is_set)
        waiting.cancel()
        await asyncio.wait([waiting])
        return int(caplog.messages[-1].rpartition(" ")[2])

    ours: list[threading.Thread] = []
    first, second = threading.Event(), threading.Event()
    threads._left_behind.clear()
    assert [await left(first, ours), await left(first, ours)] == [1, 2]
    first.set()
    await until(lambda: not any(thread.is_alive() for thread in ours))
    assert await left(second, ours) == 1
    second.set()


async def test_children_of_a_token_stop_with_it_and_never_the_other_way_round() -> None:
    parent = CancellationToken()
    child, sibling = parent.child(), parent.child()
    child.cancel("only me")
    assert (parent.cancelled, sibling.cancelled) == (False, False)
    parent.cancel("all")
    assert (sibling.reason, child.reason) == ("all", "only me")
    assert parent.child().cancelled


async def test_waiting_for_a_token_ends_with_its_reason() -> None:
    token = CancellationToken()
    waiting = asyncio.create_task(token.wait())
    await next_turn()
    await asyncio.to_thread(token.cancel, "from a thread")
    assert await waiting == "from a thread"
