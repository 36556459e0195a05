"""Tasks whose first step is done at once: ordinary tasks in everything else."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import next_turn

from loopwright.engine.eager import start

name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


def here() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def test_work_that_need_not_wait_is_done_when_the_task_is_there() -> None:
    async def value() -> int:
        return 7

    task = start(here(), value())
    assert task.done()
    assert task.result() == 7


async def test_work_that_waits_goes_on_by_itself() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "through"

    task = start(here(), work())
    assert not task.done()
    gate.set()
    assert await task == "through"


async def test_both_tasks_know_who_they_are() -> None:
    caller = asyncio.current_task()
    seen: list[Any] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        await next_turn()
        seen.append(asyncio.current_task())

    task = start(here(), work())
    assert asyncio.current_task() is caller
    await task
    assert seen == [task, task]


async def test_a_time_limit_inside_the_work_ends_the_work_and_not_the_caller() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "over"
        return ""

    assert await start(here(), work()) == "over"
    caller = asyncio.current_task()
    assert caller is not None
    assert caller.cancelling() == 0


async def test_what_the_work_sets_in_its_context_stays_there() -> None:
    name.set("caller")

    async def work() -> str:
        before = name.get()
        name.set("work")
        return before

    assert await start(here(), work()) == "caller"
    assert name.get() == "caller"


async def test_an_error_is_the_tasks() -> None:
    async def fails() -> None:
        raise KeyError("x")

    task = start(here(), fails())
    with pytest.raises(KeyError):
        await task


async def test_a_cancelled_task_ends_as_cancelled() -> None:
    task = start(here(), asyncio.Event().wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_inside_the_other() -> None:
    async def inner() -> int:
        await next_turn()
        return 1

    async def outer() -> int:
        return await start(here(), inner()) + await start(here(), inner())

    assert await start(here(), outer()) == 2


async def test_what_interrupts_the_program_leaves_the_caller_its_own_task() -> None:
    async def leaves() -> None:
        raise KeyboardInterrupt

    caller = asyncio.current_task()
    with pytest.raises(KeyboardInterrupt):
        start(here(), leaves())
    assert asyncio.current_task() is caller


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there asyncio does it")
async def test_a_loop_whose_call_soon_is_somebody_elses_is_left_alone() -> None:
    loop, asked = here(), 0

    def counting(*args: Any, **options: Any) -> asyncio.Handle:
        nonlocal asked
        asked += 1
        return plain(*args, **options)

    async def value() -> int:
        return 7

    plain: Callable[..., asyncio.Handle] = loop.call_soon
    vars(loop)["call_soon"] = counting
    try:
        task = start(loop, value())
        assert vars(loop)["call_soon"] is counting
    finally:
        del vars(loop)["call_soon"]
    assert (task.done(), asked) == (False, 1)
    assert await task == 7
    assert start(loop, value()).done()
    assert "call_soon" not in vars(loop)
