"""Four processes, two hundred sessions, and everything that can go wrong: nothing lost, nothing twice, no interleaving."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.stores.server_cuts import cut_all
from tests.crash.many_checked import all_is_right, noted
from tests.crash.many_worker import BOTH, LEASE_S, LONGEST_TIMER_S, ROLES, SERVES, TALKS, build
from tests.crash.processes import ROOT
from tests.servers.client import ServerHandle
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.kill, pytest.mark.timeout(200)]

SESSIONS = 200
ROUNDS = 9

SEED = "LOOPWRIGHT_TEST_SEED"
"""Set it to a printed seed and the same things are done in the same order; the times at which they hit stay chance."""


class Crowd:
    """The worker processes."""

    def __init__(self, dsn: str, folder: Path, chance: random.Random) -> None:
        self._dsn = dsn
        self._folder = folder
        self._chance = chance
        self._made = 0
        self.running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def add(self, role: str) -> None:
        """One more worker."""
        self._made += 1
        what = [self._dsn, str(self._folder), f"w{self._made}", str(SESSIONS), role, str(self._chance.random())]
        command = [sys.executable, "-m", "tests.crash.many_worker", *what]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.running.append((role, subprocess.Popen(command, cwd=ROOT, env=environment)))

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
        assert await asyncio.to_thread(leaver.wait, 60) in {0, -signal.SIGTERM}  # it may have come before the handler

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
            assert await asyncio.to_thread(worker.wait, 60) == 0


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
    for n in range(SESSIONS):
        await loop.new_session(session_id=f"s{n}")
    with crowd(dsn, folder, chance) as workers:
        for role in (SERVES, TALKS, BOTH, chance.choice(ROLES)):
            workers.add(role)
        await disturb(workers, dsn, chance, server)
        await until(lambda: len(noted(folder, "accepted-*")) > 2 * SESSIONS, within_s=60.0)
        await workers.end()
    nothing_due_later = time.monotonic() + LONGEST_TIMER_S + 2 * LEASE_S
    await loop.serve(stop=lambda: time.monotonic() > nothing_due_later)
    await loop.serve(once=True)
    await loop.aclose()
    await all_is_right(dsn, folder, SESSIONS)


async def test_many_processes_on_one_file(folder: Path) -> None:
    await scenario(str(folder / "many.db"), folder)


@pytest.mark.server
async def test_many_processes_on_postgres(folder: Path, own_postgres: ServerHandle) -> None:
    await scenario(own_postgres.new_database(), folder, own_postgres)


@pytest.mark.server
async def test_many_processes_on_mariadb(folder: Path, own_mariadb: ServerHandle) -> None:
    await scenario(own_mariadb.new_database(), folder, own_mariadb)
