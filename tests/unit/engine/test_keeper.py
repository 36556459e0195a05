"""The heartbeat of leases: it renews, it notices what others did, and it stops when the event loop stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.waiting import until

from loopwright.engine.keeper import Held, LeaseKeeper
from loopwright.model.errors import StoreUnavailableError


class Leases:
    """The part of a store that a keeper sees."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {"s": (1, 0), "t": (1, 0)}
        self.renewed: list[tuple[str, ...]] = []
        self.away = False

    async def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        self.renewed.append(tuple(session_ids))
        if self.away:
            raise StoreUnavailableError("away")
        return {s: self.seen[s] for s in session_ids if s in self.seen}


class Run:
    """A run that holds a lease and notes what it is told; its event loop turns only while `turns`."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.turns = True

    def held(self, epoch: int = 1) -> Held:
        return Held(epoch, 0, lambda: self.told.append("fenced"), self.told.append, self)  # type: ignore[arg-type]

    def call_soon_threadsafe(self, callback: Callable[..., None], *args: Any) -> None:
        if self.turns:
            callback(*args)


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def make(leases: Leases) -> Iterator[Callable[..., LeaseKeeper]]:
    made: list[LeaseKeeper] = []

    def keeper(ttl_s: float = 0.03, stall_s: float = 60.0) -> LeaseKeeper:
        made.append(LeaseKeeper(leases, ttl_s=ttl_s, loop_stall_s=stall_s))  # type: ignore[arg-type]
        return made[-1]

    yield keeper
    for one in made:
        one.stop()


def begin(keeper: LeaseKeeper, run: Run, session_id: str = "s", asked_at: float | None = None) -> None:
    now = asyncio.get_running_loop().time()
    keeper.hold(session_id, run.held(), asked_at=now if asked_at is None else asked_at)


async def test_a_held_lease_is_renewed_until_it_is_released(leases: Leases, make: Any) -> None:
    keeper, run = make(), Run()
    begin(keeper, run)
    await until(lambda: len(leases.renewed) > 3)
    assert keeper.alive("s")
    keeper.release("s")
    assert not keeper.alive("s")
    await until(lambda: not keeper._held)
    assert set(leases.renewed) == {("s",)}
    assert run.told == []


async def test_a_lease_that_was_taken_is_told_once_and_not_kept_any_more(leases: Leases, make: Any) -> None:
    keeper, run, other = make(), Run(), Run()
    begin(keeper, run)
    begin(keeper, other, "t")
    leases.seen["s"] = (2, 0)
    await until(lambda: run.told)
    count = len(leases.renewed)
    await until(lambda: len(leases.renewed) > count + 2)
    assert run.told == ["fenced"]
    assert other.told == []
    assert not keeper.alive("s")
    assert keeper.alive("t")


async def test_an_arrival_in_the_inbox_is_told_once(leases: Leases, make: Any) -> None:
    keeper, run = make(), Run()
    begin(keeper, run)
    leases.seen["s"] = (1, 3)
    await until(lambda: run.told)
    count = len(leases.renewed)
    await until(lambda: len(leases.renewed) > count + 2)
    assert run.told == [3]


async def test_leases_run_out_when_the_event_loop_stands_still_and_come_back_with_it(leases: Leases, make: Any) -> None:
    keeper, run = make(stall_s=0.05), Run()
    begin(keeper, run)
    await until(lambda: leases.renewed)
    run.turns = False
    await until(lambda: not keeper.alive("s"))
    run.turns = True
    begin(keeper, run)
    count = len(leases.renewed)
    await until(lambda: len(leases.renewed) > count + 2)
    assert keeper.alive("s")


async def test_a_store_that_is_away_lets_the_leases_run_out_and_no_longer(leases: Leases, make: Any) -> None:
    keeper, run = make(), Run()
    begin(keeper, run)
    leases.away = True
    await until(lambda: not keeper.alive("s"))
    leases.away = False
    await until(lambda: keeper.alive("s"))


async def test_a_late_renewal_looks_at_every_lease_of_the_process(leases: Leases, make: Any) -> None:
    keeper, run, other = make(ttl_s=900.0), Run(), Run()
    long_ago = asyncio.get_running_loop().time() - 10_000
    begin(keeper, run, asked_at=long_ago)
    begin(keeper, other, "t", asked_at=long_ago)
    assert not keeper.alive("s")
    leases.seen["t"] = (2, 0)
    assert await keeper.renew_now("s") == 1
    assert keeper.alive("s")
    assert not keeper.alive("t")
    assert other.told == ["fenced"]


async def test_a_session_that_is_gone_has_no_epoch(make: Any) -> None:
    assert await make().renew_now("nowhere") == -1


async def test_nothing_is_looked_at_while_nothing_is_held(leases: Leases, make: Any) -> None:
    keeper, run = make(), Run()
    begin(keeper, run)
    await until(lambda: leases.renewed)
    keeper.release("s")
    await until(lambda: keeper._sleeping)
    count = len(leases.renewed)
    begin(keeper, run)
    await until(lambda: len(leases.renewed) > count)
