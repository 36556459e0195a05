"""Disks that are full or only read, for real: a typed error, nothing half-written, and on it goes when there is space."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.contract.stores.fault_stage import Breaker, Deed, written
from tests.servers import client
from tests.servers.asking import ask, changed
from tests.servers.client import ServerHandle
from tests.servers.small_disk import fill, remount, small_disk

from loopwright import StatefulAgentLoop, UserMessage, open_store
from loopwright.model.errors import StoreError, StoreFullError, StoreReadOnlyError
from loopwright.testing.store_kit import begin, new_session, texts

LARGE = "x" * 500_000


async def refused_and_written_later(dsn: str, spoil: Deed, mend: Deed, *, admin: str = "") -> None:
    """Writes until the disk is full, then with space again; the same loop object, the same session."""
    store = open_store(dsn, busy_wait_s=1.0)
    async with StatefulAgentLoop(llm=Breaker(), store=store) as loop:
        session_id = (await loop.send("one")).session_id
        await spoil()
        error = None
        for n in range(60):
            try:
                await loop.send(LARGE, session_id=session_id, send_id=f"large-{n}")
            except StoreError as other:
                raise AssertionError(f"{other!r} is not about space") from other
            except StoreFullError as full:
                error = full
                break
        assert error is not None
        assert "free space" in str(error)
        await mend()
        if admin:
            there, spoken_of = await written(admin)
            assert there == spoken_of
        result = await loop.send(LARGE, session_id=session_id, send_id=f"large-{n}")
        assert result.status == "completed"
        messages = await loop.get_messages(session_id)
        sent = [message.text for message in messages if isinstance(message, UserMessage)]
        assert sent == ["one"] + [LARGE] * (n + 1), "each once, in order"
    assert list(await store.check()) == []
    await store.aclose()


async def test_a_file_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "6m") as place:
        await refused_and_written_later(
            str(place / "store.db"),
            partial(asyncio.to_thread, fill, place),
            partial(asyncio.to_thread, os.unlink, place / "ballast"),
        )


async def test_a_file_that_is_made_on_a_full_disk_is_refused_and_made_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "1m") as place:
        ballast = fill(place)
        with pytest.raises(StoreFullError):
            open_store(place / "store.db")
        os.unlink(ballast)
        store = open_store(place / "store.db")
        await store.create(new_session())
        assert len(await texts(store)) == 1
        await store.aclose()


async def test_a_file_on_a_disk_that_only_reads(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "6m") as place:
        store = open_store(place / "store.db")
        writer = await begin(store)
        await store.aclose()
        remount(place, "ro")
        before = sorted(path.name for path in place.iterdir())
        for path in (place / "store.db", place / "new.db"):
            with pytest.raises(StoreReadOnlyError):
                open_store(path)
        assert sorted(path.name for path in place.iterdir()) == before
        remount(place, "rw")
        store = open_store(place / "store.db")
        assert len(await texts(store)) == writer.position
        await store.aclose()


async def test_a_postgres_table_space_that_is_full(own_postgres: ServerHandle) -> None:
    admin = own_postgres.dsn("postgres")
    data = Path((await ask(admin, "SHOW data_directory"))[0][0])
    place = data.parent / "small"
    place.mkdir()
    owner = await asyncio.to_thread(data.stat)
    os.chown(place, owner.st_uid, owner.st_gid)
    with small_disk(place, "24m"):
        # The server makes the folder of its version in it, so that there is something to fill beside.
        await ask(
            admin,
            f"CREATE TABLESPACE small LOCATION '{place}'",
            "CREATE DATABASE cramped TEMPLATE template0 TABLESPACE small",
        )
        dsn = changed(admin, database="cramped")
        await refused_and_written_later(
            dsn,
            partial(asyncio.to_thread, fill, place),
            partial(asyncio.to_thread, os.unlink, place / "ballast"),
            admin=dsn,
        )
        await asyncio.to_thread(own_postgres.stop)


# A bound of its own: on a file system without room for a page inside of a file, this server ends itself.
SPACE = ["--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:{}M"]


@pytest.fixture
def cramped_mariadb() -> Iterator[ServerHandle]:
    try:
        with client.own("mariadb", settings=[word.format(24) for word in SPACE]) as server:
            yield server
    except client.NotOursError as error:
        pytest.skip(str(error))


@pytest.mark.server
async def test_a_mariadb_table_space_that_is_full(cramped_mariadb: ServerHandle) -> None:
    dsn = cramped_mariadb.new_database()

    async def mend() -> None:
        await asyncio.to_thread(cramped_mariadb.restart, settings=[word.format(200) for word in SPACE])

    await refused_and_written_later(dsn, partial(asyncio.to_thread, int), mend, admin=dsn)
