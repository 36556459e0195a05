"""Four processes, two hundred sessions, and everything that can go wrong: nothing lost, nothing twice, no interleaving."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.stores.server_cuts import cut_all
from tests.crash.many_worker import LEASE_S, build
from tests.crash.processes import ROOT

from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, refusal
from loopwright.model.codec import decode_record
from loopwright.model.records import ToolFinished, ToolStarted, UserMessageAdded
from loopwright.ports.store import StoredRecord
from loopwright.stores.dsn import open_store

pytestmark = [pytest.mark.crash, pytest.mark.kill, pytest.mark.timeout(150)]

WORKERS = 4
SESSIONS = 200
ROUNDS = 8


class Crowd:
    """The worker processes."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder
        self._made = 0
        self.running: list[subprocess.Popen[bytes]] = []

    def add(self) -> None:
        """One more worker."""
        self._made += 1
        command = [sys.executable, "-m", "tests.crash.many_worker", self._dsn, str(self._folder), f"w{self._made}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.running.append(subprocess.Popen([*command, str(SESSIONS)], cwd=ROOT, env=environment))

    def kill_one(self) -> None:
        """SIGKILL, and another one in its place."""
        victim = self.running.pop(random.randrange(len(self.running)))
        victim.kill()
        victim.wait()
        self.add()

    async def pause_one(self) -> None:
        """SIGSTOP for longer than a lease."""
        sleeper = random.choice(self.running)
        sleeper.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * 1.6)
        sleeper.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Lets everybody finish what they are at."""
        (self._folder / "stop").touch()
        for worker in self.running:
            assert await asyncio.to_thread(worker.wait, 60) == 0


@contextmanager
def crowd(dsn: str, folder: Path) -> Iterator[Crowd]:
    made = Crowd(dsn, folder)
    try:
        yield made
    finally:
        for worker in made.running:
            worker.kill()
            worker.wait()


async def disturb(workers: Crowd, dsn: str) -> None:
    for n in range(ROUNDS):
        await asyncio.sleep(random.uniform(0.2, 0.7))
        if n % 3 == 2:
            await workers.pause_one()
        elif n % 3 == 1 and "://" in dsn:
            await cut_all(dsn)
        else:
            workers.kill_one()


def journal_is_sound(rows: list[StoredRecord]) -> State:
    """Every record might follow the ones before it, and the window is one that providers take."""
    state = State()
    for row in rows:
        record = decode_record(row.kind, row.version, row.body)
        assert refusal(state, record) is None, f"{row.kind} at {row.position}"
        apply(state, record, row.at)
    assert (state.lost_answers, state.dropped) == ([], [])
    assert problem(state.messages) is None
    assert state.active is None
    return state


def noted(folder: Path, pattern: str) -> list[list[str]]:
    """The words of every line that the workers left in files of this name."""
    return [line.split() for path in folder.glob(pattern) for line in path.read_text().splitlines()]


async def all_is_right(dsn: str, folder: Path) -> None:
    store = open_store(dsn)
    said: Counter[tuple[str, str]] = Counter()
    started: set[str] = set()
    finished: set[str] = set()
    for n in range(SESSIONS):
        rows = list(await store.read(f"s{n}"))
        journal_is_sound(rows)
        for row in rows:
            record = decode_record(row.kind, row.version, row.body)
            if isinstance(record, UserMessageAdded):
                said[f"s{n}", record.message.text] += 1
            elif isinstance(record, ToolStarted):
                started.add(record.key)
            elif isinstance(record, ToolFinished) and record.status == "finished":
                finished.add(record.key)
        assert (await store.lookup(f"s{n}")).waiting == ()
    assert list(await store.check()) == []
    await store.aclose()
    accepted = noted(folder, "accepted-*")
    assert len(accepted) > SESSIONS
    assert [one for one in accepted if said[one[0], one[1]] != 1] == [], "accepted and not said exactly once"
    assert [one for one, times in said.items() if times != 1] == [], "said twice"
    effects = Counter(key for _, key in noted(folder, "effects"))
    assert [key for key, times in effects.items() if times != 1] == [], "done twice"
    assert finished <= effects.keys() <= started


async def scenario(dsn: str, folder: Path) -> None:
    loop = build(dsn, folder)
    for n in range(SESSIONS):
        await loop.new_session(session_id=f"s{n}")
    with crowd(dsn, folder) as workers:
        for _ in range(WORKERS):
            workers.add()
        await disturb(workers, dsn)
        await workers.end()
    deadline = time.monotonic() + 30.0
    while await loop.recover() or time.monotonic() < deadline - 30.0 + 2 * LEASE_S:
        assert time.monotonic() < deadline, "there is always something left to recover"
        await asyncio.sleep(0.2)
    await loop.aclose()
    await all_is_right(dsn, folder)


async def test_many_processes_on_one_file(folder: Path) -> None:
    await scenario(str(folder / "many.db"), folder)


@pytest.mark.server
async def test_many_processes_on_postgres(folder: Path, postgres: str) -> None:
    await scenario(postgres, folder)


@pytest.mark.server
async def test_many_processes_on_mariadb(folder: Path, mariadb: str) -> None:
    await scenario(mariadb, folder)
