"""Turns on a session: one at a time, first come first served, whoever is cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading

import pytest
from tests.waiting import next_turn, until

from loopwright.engine.actor import Actor, ActorTable
from loopwright.model.errors import SessionReentrantError


class Visitors:
    """Tasks that take turns on one actor and note who is inside."""

    def __init__(self) -> None:
        self.actor = Actor(("store", "s"))
        self.entered: list[str] = []
        self.inside = 0
        self.waiting = 0
        self.doors = {name: asyncio.Event() for name in "abcdef"}
        self.came = {name: asyncio.Event() for name in "abcdef"}

    def arrive(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self.visit(name))

    async def visit(self, name: str) -> None:
        self.waiting += 1
        turn = await self.actor.enter()
        try:
            self.inside += 1
            assert self.inside == 1, "two had the turn at once"
            self.entered.append(name)
            self.came[name].set()
            await self.doors[name].wait()
        finally:
            self.inside -= 1
            self.actor.leave(turn)


async def test_turns_are_taken_first_come_first_served() -> None:
    visitors = Visitors()
    tasks = [visitors.arrive(name) for name in "abc"]
    for name in "abc":
        visitors.doors[name].set()
    await asyncio.gather(*tasks)
    assert visitors.entered == ["a", "b", "c"]
    assert not visitors.actor.busy


async def test_who_is_cancelled_while_waiting_gives_up_its_place() -> None:
    visitors = Visitors()
    a, b, c = [visitors.arrive(name) for name in "abc"]
    await visitors.came["a"].wait()
    b.cancel()
    for name in "ac":
        visitors.doors[name].set()
    await asyncio.gather(a, c)
    assert visitors.entered == ["a", "c"]


async def test_who_is_cancelled_at_the_very_moment_of_its_turn_does_not_pass_it_on_twice() -> None:
    visitors = Visitors()
    turn = await visitors.actor.enter()
    b, c, d = [asyncio.create_task(visitors.visit(name), context=contextvars.Context()) for name in "bcd"]
    await until(lambda: visitors.waiting == 3)
    visitors.actor.leave(turn)
    b.cancel()  # out of the line already, not awake yet
    await visitors.came["c"].wait()
    for name in "cd":
        visitors.doors[name].set()
    await asyncio.gather(c, d)
    assert b.cancelled()
    assert visitors.entered == ["c", "d"]
    assert not visitors.actor.busy


@pytest.mark.parametrize("late", range(6))
async def test_a_turn_is_never_held_by_two_whenever_somebody_is_cancelled(late: int) -> None:
    visitors = Visitors()
    tasks = [visitors.arrive(name) for name in "abcdef"]
    await visitors.came["a"].wait()
    loop = asyncio.get_running_loop()

    def cancel_later(turns: int) -> None:
        if turns:
            loop.call_soon(cancel_later, turns - 1)
        else:
            tasks[1].cancel()
            tasks[3].cancel()

    visitors.doors["a"].set()
    cancel_later(late)
    for door in visitors.doors.values():
        door.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert visitors.entered[0] == "a"
    assert set("cef") <= set(visitors.entered)
    assert not visitors.actor.busy


async def test_a_turn_inside_of_ones_own_turn_is_an_error_at_once() -> None:
    actor = Actor(("store", "s"))
    turn = await actor.enter()
    with pytest.raises(SessionReentrantError):
        await asyncio.create_task(actor.enter())
    actor.leave(turn)
    actor.leave(await actor.enter())


def test_two_event_loops_in_two_threads_take_turns() -> None:
    table = ActorTable()
    inside, most = itertools.count(), list[int]()
    lock = threading.Lock()
    counts = {"now": 0}

    async def visits() -> None:
        for _ in range(50):
            async with table.turn("store", "s", 8):
                with lock:
                    counts["now"] += 1
                    most.append(counts["now"])
                next(inside)
                await next_turn()
                with lock:
                    counts["now"] -= 1

    threads = [threading.Thread(target=asyncio.run, args=(visits(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert next(inside) == 100
    assert max(most) == 1


async def test_idle_sessions_are_let_go_and_used_ones_are_kept() -> None:
    table = ActorTable()
    async with table.turn("store", "busy", 1):
        for name in ("x", "y", "z"):
            async with table.turn("store", name, 1):
                pass
        assert table.find("store", "busy") is not None
        assert table.find("store", "z") is not None
        assert len(table) == 2


async def test_dropping_a_store_forgets_its_idle_sessions_only() -> None:
    table = ActorTable()
    for key in (("one", "s"), ("other", "s")):
        async with table.turn(*key, 9):
            pass
    async with table.turn("one", "held", 9):
        table.drop("one")
        assert table.find("one", "held") is not None
    assert table.find("one", "s") is None
    assert table.find("other", "s") is not None


async def test_a_turn_whose_event_loop_was_closed_is_free_again() -> None:
    table = ActorTable()

    def goes_down() -> None:
        loop = asyncio.new_event_loop()
        actor = table.pin("store", "s")
        loop.run_until_complete(actor.enter())
        loop.close()

    thread = threading.Thread(target=goes_down)
    thread.start()
    thread.join(timeout=20)
    async with asyncio.timeout(5):
        async with table.turn("store", "s", 1) as actor:
            assert actor.busy


def test_a_forked_child_holds_no_turn_of_its_parent() -> None:
    table = ActorTable()
    table.pin("store", "s")
    table.clear()
    assert len(table) == 0
