"""Artifacts whose rows were lost: the check finds them, and putting the same bytes again makes them whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest
from tests.servers.asking import ask

from loopwright import open_store
from loopwright.model.errors import StoreCorruptError
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.slices import SLICE_BYTES
from loopwright.testing.store_kit import begin

DATA = bytes(range(256)) * (3 * SLICE_BYTES // 256) + b"the end"
DAMAGE = {
    "a row in the middle": "DELETE FROM lw_artifact_rows WHERE n = 1",
    "the last row": "DELETE FROM lw_artifact_rows WHERE n = 3",
    "all rows": "DELETE FROM lw_artifact_rows",
    "a shortened row": "UPDATE lw_artifact_rows SET data = 'x' WHERE n = 2",
    "another size": "UPDATE lw_artifacts SET size = size + 1",
    "a number of rows that does not follow": "UPDATE lw_artifact_rows SET n = 9 WHERE n = 1",
}


async def is_found_and_mended(store: SessionStore, damage: Callable[[], Awaitable[None]]) -> None:
    await begin(store)
    await store.put_artifact("s", b"", "text/plain")
    await store.put_artifact("s", b"whole", "text/plain")
    put = await store.put_artifact("s", DATA, "text/plain")
    assert list(await store.check()) == []
    await damage()
    found = {one.what.split()[1] for one in await store.check() if one.session_id == "s"}
    assert put.artifact_id in found
    with pytest.raises(StoreCorruptError):
        await store.read_artifact(put.artifact_id)
    for data in (b"", b"whole", DATA):
        assert (await store.put_artifact("s", data, "text/plain")).size == len(data)
    assert await store.artifact(put.artifact_id) == put
    assert await store.read_artifact(put.artifact_id) == DATA
    assert list(await store.check()) == []
    await store.aclose()


@pytest.mark.parametrize("damage", sorted(DAMAGE))
async def test_what_was_lost_on_a_server_is_found_and_mended(either: str, damage: str) -> None:
    async def harm() -> None:
        await ask(either, DAMAGE[damage])

    await is_found_and_mended(open_store(either), harm)


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_what_was_lost_in_a_file_is_found_and_mended(damage: str, tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")

    async def harm() -> None:
        other = apsw.Connection(path)
        other.execute(DAMAGE[damage]).fetchall()
        other.close()

    asyncio.run(is_found_and_mended(open_store(path), harm))
