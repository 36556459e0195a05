"""Several processes share one SQLite file: nothing is lost or doubled, the dead give way, the late are fenced."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopwright.model.errors import SessionBusyError
from loopwright.ports.store import SessionQuery
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_kit import acquire, head_of, new_session, raises, texts, until

PROGRAM = Path(__file__).with_name("store_process.py")


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def holder(path: Path, ttl_s: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease of session "s"."""
    process = start("hold", path, "s", ttl_s)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def session_at(path: Path) -> None:
    store = SqliteStore(path)
    await store.create(new_session())
    await store.aclose()


def tell(process: subprocess.Popen[str]) -> str:
    """Lets the holder commit once; what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_processes_that_start_and_commit_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    path, sessions, turns = tmp_path / "store.db", 4, 15
    processes = [start("write", path, f"p{n}", sessions, turns) for n in range(4)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 4

    async def verify() -> None:
        store = SqliteStore(path)
        heads = await store.list(SessionQuery(limit=1000))
        assert len(heads) == 4 * sessions + 1
        for head in heads:
            if head.session_id != "shared":
                assert await texts(store, head.session_id) == [b"%d" % n for n in range(turns)]
                assert head.owner is None
        shared = await store.lookup("shared")
        assert [item.seq for item in shared.waiting] == list(range(1, 4 * sessions * turns + 1))
        assert list(await store.check()) == []
        await store.aclose()

    asyncio.run(verify())
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.kill
def test_the_lease_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(session_at(path))

    async def verify(process: subprocess.Popen[str]) -> None:
        store = SqliteStore(path)
        with raises(SessionBusyError):
            await acquire(store)
        assert tell(process) == "committed"
        # Not reaped yet: a zombie still has its process id.
        process.send_signal(signal.SIGKILL)

        async def free() -> bool:
            return (await head_of(store)).expires_in_s == 0

        await until(free, "the killed process is seen to be dead")
        taken = await acquire(store)
        assert (taken.committed.takeovers, taken.position) == (1, 4)
        await store.aclose()

    with holder(path, 3600.0) as process:
        asyncio.run(verify(process))


@pytest.mark.kill
def test_a_stopped_process_that_comes_back_late_is_fenced_and_has_written_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(session_at(path))

    async def verify(process: subprocess.Popen[str]) -> None:
        store = SqliteStore(path)
        process.send_signal(signal.SIGSTOP)

        async def free() -> bool:
            return (await head_of(store)).expires_in_s == 0

        await until(free, "the stopped process's lease expires")
        taken = await acquire(store)
        assert taken.committed.takeovers == 1
        process.send_signal(signal.SIGCONT)
        assert tell(process) == "session.fenced"
        assert len(await texts(store)) == 3
        await taken.write(release=True)
        await store.aclose()

    with holder(path, 0.5) as process:
        asyncio.run(verify(process))
