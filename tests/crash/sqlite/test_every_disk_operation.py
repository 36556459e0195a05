"""At every write, truncate, sync and delete of a scripted sequence the disk fails, fills up, or the machine stops.

The script makes a session, commits three times, accepts an item, finishes and closes. Each run stops at one operation;
then the file is opened with the ordinary file system and must hold exactly what was promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from loopwright.model.errors import LoopwrightError
from loopwright.ports.store import (
    Acquire,
    Durability,
    EncodedRecord,
    HeadChange,
    InboxItem,
    Lease,
    NewSession,
    SessionQuery,
    TakeItems,
    Transition,
)
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.faulty_vfs import Fault, FaultyVfs

TOKEN = b"0123456789abcdef"
BODIES = [b"created", b"asked", b"called", b"big" * 5_000, b"answered", b"taken", b"finished"]
# After each step: how many records there are, how many items were accepted, and whether it was to be synced.
STEPS = [(1, 0, False), (2, 0, True), (4, 0, False), (5, 0, True), (5, 1, True), (7, 1, True), (7, 1, False)]


@pytest.fixture
def place() -> Iterator[Path]:
    """Files in memory where the system has such a folder: the disk is simulated, so the real one need not be waited for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def some(first: int, last: int) -> tuple[EncodedRecord, ...]:
    return tuple(EncodedRecord("fact", 1, 1.0, body) for body in BODIES[first:last])


async def script(store: SqliteStore, done: int = 0) -> AsyncIterator[int]:
    """Does the steps from `done` on; yields the number of steps that are acknowledged."""
    lease = Lease(1, TOKEN)

    async def commit(expect: int, last: int, **fields: object) -> None:
        given = {"lease": lease, "records": some(expect, last)} | fields
        await store.commit(Transition(session_id="s", expect=expect, **given))  # type: ignore[arg-type]

    steps = [
        lambda: store.create(NewSession(session_id="s", agent_name="a", records=some(0, 1), at=1.0)),
        lambda: commit(1, 2, lease=Acquire(TOKEN, 60.0), sync=True, head=HeadChange(status="running")),
        lambda: commit(2, 4),
        lambda: commit(4, 5, sync=True),
        lambda: store.enqueue("s", InboxItem("i", "message", b"{}", 2.0)),
        lambda: commit(5, 7, ops=(TakeItems(("i",)),), release=True, sync=True, head=HeadChange(status="idle")),
        store.aclose,
    ]
    for number, step in enumerate(steps[done:], done + 1):
        await step()
        yield number


def opened(path: Path, vfs: FaultyVfs, durability: Durability) -> SqliteStore:
    store = SqliteStore(path, durability=durability, vfs=vfs.vfs_name)
    vfs.armed = True
    return store


async def run(store: SqliteStore) -> int:
    """Steps acknowledged until the first error."""
    acknowledged = 0
    try:
        async for acknowledged in script(store):  # noqa: B007 - the last one is what is asked for
            pass
    except LoopwrightError:
        pass
    return acknowledged


async def verify(path: Path, at_least: int, at_most: int) -> None:
    """The journal is one that some number of steps in between leaves; nothing is half done; work can go on."""
    store = SqliteStore(path, durability="relaxed")
    try:
        assert list(await store.check()) == []
        if at_least == 0 and not await store.list(SessionQuery()):
            return
        found = await store.lookup("s", item_id="i")
        bodies = [one.body for one in await store.read("s")]
        possible = {STEPS[n - 1][:2] for n in range(max(at_least, 1), min(max(at_most, 1), len(STEPS)) + 1)}
        assert (len(bodies), found.head.inbox_seq) in possible
        assert bodies == BODIES[: len(bodies)]
        assert found.head.position == len(bodies)
        assert (found.item_position is None) == (found.head.inbox_seq == 0)
        assert len(found.waiting) == (1 if found.item_position == -1 else 0)
        again = Acquire(b"another-token-00", 60.0)
        extra = EncodedRecord("fact", 1, 3.0, b"went on")
        await store.commit(Transition(session_id="s", expect=len(bodies), lease=again, records=(extra,), sync=True))
        assert (await store.read("s"))[-1].body == b"went on"
    finally:
        store.abandon()


def points(place: Path, durability: Durability) -> int:
    """How many operations the undisturbed script makes."""
    vfs = FaultyVfs()
    done = asyncio.run(run(opened(place / "count.db", vfs, durability)))
    assert done == len(STEPS)
    return vfs.count


def last_synced(acknowledged: int, durability: Durability) -> int:
    """The last acknowledged step that a power failure must not undo."""
    if durability == "full":
        return min(acknowledged, len(STEPS) - 1)
    kept = [n for n in range(1, acknowledged + 1) if STEPS[n - 1][2]]
    return kept[-1] if durability == "barrier" and kept else 0


DURABILITIES: list[Durability] = ["relaxed", "barrier", "full"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_killed_process_loses_nothing_that_was_acknowledged(place: Path, durability: Durability) -> None:
    for point in range(1, points(place, durability) + 1):
        vfs = FaultyVfs(Fault.KILL, point)
        path = place / f"{point}.db"
        store = opened(path, vfs, durability)
        acknowledged = asyncio.run(run(store))
        store.abandon()
        assert vfs.is_dead
        asyncio.run(verify(path, acknowledged, acknowledged + 1))


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_power_failure_loses_nothing_that_was_synced(place: Path, durability: Durability) -> None:
    for point in range(1, points(place, durability) + 1):
        vfs = FaultyVfs(Fault.KILL, point)
        path = place / f"{point}.db"
        vfs_open = opened(path, vfs, durability)
        acknowledged = asyncio.run(run(vfs_open))
        saved = place / f"saved-{point}"
        saved.mkdir()
        vfs.lose_power(saved)
        vfs_open.abandon()
        asyncio.run(verify(saved / path.name, last_synced(acknowledged, durability), acknowledged + 1))


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("fault", [Fault.IO_ERROR, Fault.FULL])
def test_after_a_failing_operation_the_same_store_goes_on(place: Path, durability: Durability, fault: Fault) -> None:
    for point in range(1, points(place, durability) + 1):
        path = place / f"{fault}-{point}.db"
        vfs = FaultyVfs(fault, point)
        asyncio.run(_fail_and_go_on(path, vfs, durability))


async def _fail_and_go_on(path: Path, vfs: FaultyVfs, durability: Durability) -> None:
    store = opened(path, vfs, durability)
    acknowledged = await run(store)
    vfs.armed = False
    if acknowledged < len(STEPS) - 1:
        # The next read tells whether the failed step happened; then the script goes on from there.
        heads = await store.list(SessionQuery())
        now = (heads[0].position, heads[0].inbox_seq) if heads else (0, 0)
        happened = [(0, 0), *(step[:2] for step in STEPS)].index(now)
        assert happened in {acknowledged, acknowledged + 1}
        async for _ in script(store, happened):
            pass
    await store.aclose()
    await verify(path, len(STEPS) - 1, len(STEPS))


@pytest.mark.parametrize("fault", [Fault.IO_ERROR, Fault.FULL, Fault.KILL])
def test_opening_that_fails_at_any_operation_can_be_repeated(place: Path, fault: Fault) -> None:
    counting = FaultyVfs()
    counting.armed = True
    SqliteStore(place / "count.db", vfs=counting.vfs_name).abandon()
    for point in range(1, counting.count + 1):
        vfs = FaultyVfs(fault, point)
        vfs.armed = True
        path = place / f"{point}.db"
        with contextlib.suppress(LoopwrightError):
            SqliteStore(path, vfs=vfs.vfs_name).abandon()
        asyncio.run(verify(path, 0, 0))
