"""Four processes, two hundred sessions, and everything that can go wrong: nothing lost, nothing twice, no interleaving."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.stores.server_cuts import cut_all
from tests.crash.many_checked import FAR, all_is_right, noted
from tests.crash.many_worker import BOTH, LEASE_S, LONGEST_TIMER_S, ROLES, SERVES, TALKS, build
from tests.quick_processes import ROOT, Process, started
from tests.servers.client import ServerHandle
from tests.waiting import next_turn, until

from loopwright import StatefulAgentLoop
from loopwright.model.codec import CURRENT_FORMAT
from loopwright.ports.store import ClaimQuery

pytestmark = [pytest.mark.crash, pytest.mark.kill, pytest.mark.timeout(200)]

SESSIONS = 200
ROUNDS = 9 if os.environ.get("LOOPWRIGHT_FULL") else 6
"""Disturbances: each kind once, and more of them with `./dev crash`."""
PATIENCE_S = 100.0
LAST = SESSIONS
"""The number of the session to which nobody talks: what it is told at the end is for those that serve."""

SEED = "LOOPWRIGHT_TEST_SEED"
"""Set it to a printed seed and the same things are done in the same order; the times at which they hit stay chance."""


class Crowd:
    """The worker processes."""

    def __init__(self, dsn: str, folder: Path, chance: random.Random) -> None:
        self._dsn = dsn
        self._folder = folder
        self._chance = chance
        self._made = 0
        self.running: list[tuple[str, Process]] = []

    def add(self, role: str) -> None:
        """One more worker."""
        self._made += 1
        what = [self._dsn, str(self._folder), f"w{self._made}", str(SESSIONS), role, str(self._chance.random())]
        self.running.append((role, started("tests.crash.many_worker", *what, cwd=ROOT, env=os.environ)))

    def kill_one(self) -> None:
        """SIGKILL, and another one in its place."""
        role, victim = self.running.pop(self._chance.randrange(len(self.running)))
        victim.kill()
        victim.wait()
        self.add(role)

    async def end_one(self) -> None:
        """SIGTERM to one that serves: it drains and ends well, and another one takes its place."""
        place = self._chance.choice([n for n, (role, _) in enumerate(self.running) if role != TALKS])
        role, leaver = self.running.pop(place)
        leaver.send_signal(signal.SIGTERM)
        self.add(role)
        assert await asyncio.to_thread(leaver.wait, PATIENCE_S) in {
            0,
            -signal.SIGTERM,
        }  # it may have come before the handler

    async def pause_one(self) -> None:
        """SIGSTOP for longer than a lease."""
        _, sleeper = self._chance.choice(self.running)
        sleeper.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * 1.6)
        sleeper.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Lets everybody finish what they are at."""
        (self._folder / "stop").touch()
        for _, worker in self.running:
            assert await asyncio.to_thread(worker.wait, PATIENCE_S) == 0


async def served_to_the_end(loop: StatefulAgentLoop) -> None:
    """Waits until a worker that stays has begun and ended a run, however slow the machine is."""
    await loop.enqueue("the last word", session_id=f"s{LAST}", item_id="the last word")
    deadline = time.monotonic() + PATIENCE_S
    while (found := await loop.store.lookup(f"s{LAST}")).waiting or found.head.status != "idle":
        assert time.monotonic() < deadline, "no worker took what it was told at the end"
        await next_turn(0.05)


async def serve_for(loop: StatefulAgentLoop, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    await loop.serve(stop=lambda: time.monotonic() > until_s)


async def is_left(loop: StatefulAgentLoop) -> bool:
    """Whether any timer is armed or any session waits to be gone on with."""
    query = ClaimQuery(agent_names=("default",), max_format=CURRENT_FORMAT, now=FAR, limit=1)
    found = await loop.store.claim(query)
    return bool(found.interrupted or found.timers)


@contextmanager
def crowd(dsn: str, folder: Path, chance: random.Random) -> Iterator[Crowd]:
    made = Crowd(dsn, folder, chance)
    try:
        yield made
    finally:
        for _, worker in made.running:
            worker.kill()
            worker.wait()


async def disturb(workers: Crowd, dsn: str, chance: random.Random, server: ServerHandle | None) -> None:
    """Each thing at least once, then what chance says."""
    things = ["kill", "pause", "end", *(["cut", "restart"] if server else [])]
    plan = things + chance.choices([*things, "kill", "cut" if server else "kill"], k=ROUNDS - len(things))
    chance.shuffle(plan)
    for thing in plan:
        await asyncio.sleep(chance.uniform(0.2, 0.9))
        match thing:
            case "pause":
                await workers.pause_one()
            case "end":
                await workers.end_one()
            case "cut":
                await cut_all(dsn)
            case "restart" if server is not None:
                await asyncio.to_thread(server.restart, abrupt=chance.random() < 0.5)
            case _:
                workers.kill_one()


async def scenario(dsn: str, folder: Path, server: ServerHandle | None = None) -> None:
    seed = os.environ.get(SEED) or str(random.SystemRandom().randrange(10**9))
    sys.stdout.write(f"{SEED}={seed}\n")
    chance = random.Random(seed)
    loop = build(dsn, folder)
    for n in range(SESSIONS + 1):
        await loop.new_session(session_id=f"s{n}")
    with crowd(dsn, folder, chance) as workers:
        for role in (SERVES, TALKS, BOTH, chance.choice(ROLES)):
            workers.add(role)
        await disturb(workers, dsn, chance, server)
        await until(lambda: len(noted(folder, "accepted-*")) > 2 * SESSIONS, within_s=PATIENCE_S)
        await served_to_the_end(loop)
        await workers.end()
    await serve_for(loop, LONGEST_TIMER_S + 2 * LEASE_S)  # leases of the dead are over then
    deadline = time.monotonic() + PATIENCE_S
    while await is_left(loop):  # runs that end late have armed timers again
        assert time.monotonic() < deadline, "there is always something left"
        await serve_for(loop, LONGEST_TIMER_S)
    await loop.serve(once=True)
    await loop.aclose()
    await all_is_right(dsn, folder, SESSIONS + 1)


async def test_many_processes_on_one_file(folder: Path) -> None:
    await scenario(str(folder / "many.db"), folder)


@pytest.mark.server
async def test_many_processes_on_postgres(folder: Path, own_postgres: ServerHandle) -> None:
    await scenario(own_postgres.new_database(), folder, own_postgres)


@pytest.mark.server
async def test_many_processes_on_mariadb(folder: Path, own_mariadb: ServerHandle) -> None:
    await scenario(own_mariadb.new_database(), folder, own_mariadb)
