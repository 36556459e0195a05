"""A backup is a store of its own: whole, of one moment, held by nobody; or there is none."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from loopwright.model.errors import ConfigError, LoopwrightError
from loopwright.ports.schema_policy import SchemaPolicy
from loopwright.ports.store import EncodedRecord, SessionQuery
from loopwright.ports.store_transfer import SessionImage
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.faulty_vfs import Fault, FaultyVfs
from loopwright.testing.store_kit import acquire, begin, texts


async def test_a_backup_taken_while_another_process_writes_is_of_one_moment(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    writer = await begin(other)
    await writer.write(3000)
    done = asyncio.Event()

    async def write() -> None:
        while not done.is_set():
            await writer.write(3, sync=True)

    writing = asyncio.ensure_future(write())
    for n in range(3):
        before = writer.position
        await store.backup(tmp_path / f"{n}.db")
        copy = SqliteStore(tmp_path / f"{n}.db", schema=SchemaPolicy.VERIFY)
        assert list(await copy.check()) == []
        assert before <= len(await texts(copy)) <= writer.position + 3
        assert (len(await texts(copy)) - 2) % 3 == 0, "no transition is there in part"
        assert (await acquire(copy)).committed.takeovers == 0, "nobody holds a lease in a copy"
        await copy.aclose()
    done.set()
    await writing
    for one in (store, other):
        await one.aclose()


async def test_what_is_in_the_way_is_never_overwritten_unasked(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await begin(store)
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not overwritten"):
        await store.backup(taken)
    assert taken.read_text() == "mine"
    with pytest.raises(ConfigError, match="is the store itself"):
        await store.backup(tmp_path / "store.db", replace=True)
    with pytest.raises(ConfigError, match="is a folder"):
        await store.backup(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        await store.backup(tmp_path / "no" / "copy.db")
    in_use = SqliteStore(tmp_path / "in-use.db")
    await begin(in_use)
    for replace in (False, True):
        with pytest.raises(ConfigError, match="is in use or was not closed"):
            await store.backup(tmp_path / "in-use.db", replace=replace)
    await store.backup(taken, replace=True)
    assert taken.read_bytes().startswith(b"SQLite format 3")
    for one in (store, in_use):
        await one.aclose()
    assert sorted(os.listdir(tmp_path)) == ["in-use.db", "store.db", "taken"]


async def test_a_backup_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await begin(store)
    # A name that is fine for the copy and too long for the file in the making.
    with pytest.raises(LoopwrightError):
        await store.backup(tmp_path / ("x" * 250))
    assert [path for path in os.listdir(tmp_path) if path.startswith("x")] == []
    assert len(await texts(store)) == 2
    await store.aclose()


async def test_a_store_without_a_file_names_the_other_way(tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(ConfigError, match="loopwright db export"):
        await store.backup(tmp_path / "x.db")
    await store.aclose()


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.FULL, Fault.IO_ERROR])
def test_a_session_is_restored_whole_or_not_at_all_whatever_the_disk_does(tmp_path: Path, fault: Fault) -> None:
    async def restored(path: Path, vfs: FaultyVfs) -> None:
        giver = MemoryStore()
        writer = await begin(giver)
        await writer.write(5, release=True)
        await giver.put_artifact("s", b"large" * 10_000, "text/plain")
        inventory = await giver.inventory("s")
        records = tuple(EncodedRecord(one.kind, one.version, one.at, one.body) for one in await giver.read("s"))
        data = tuple([await giver.read_artifact(one.artifact_id) for one in inventory.artifacts])
        store = SqliteStore(path, vfs=vfs.vfs_name)
        vfs.armed = True
        try:
            await store.restore(SessionImage(inventory, records, data))
        except LoopwrightError:
            pass
        store.abandon()

    async def verify(path: Path) -> int:
        store = SqliteStore(path)
        count = len(await store.list(SessionQuery()))
        assert (await store.figures()).records == 7 * count
        assert (await store.figures()).artifacts == count
        assert list(await store.check()) == []
        await store.aclose()
        return count

    counting = FaultyVfs()
    asyncio.run(restored(tmp_path / "count.db", counting))
    assert asyncio.run(verify(tmp_path / "count.db")) == 1
    seen = set()
    for point in range(1, counting.count + 1):
        asyncio.run(restored(tmp_path / f"{point}.db", FaultyVfs(fault, point)))
        seen.add(asyncio.run(verify(tmp_path / f"{point}.db")))
    assert 0 in seen
