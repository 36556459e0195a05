"""Memories in an encrypted store: nothing readable below, nothing that opens at another place, bounded searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from tests.contract.stores.sealing import KEYS, ROTATED, sealed

from loopwright.model.archive_errors import MemoryRefusedError, UnsealedError
from loopwright.ports.memory_index import MAX_MEMORY_BYTES
from loopwright.stores import encrypted_memories
from loopwright.stores.encrypted_envelope import Sealer
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_memory_promises import found, listed, memory

SECRET = memory("the swordfish swims", "a", metadata={"who": "swordfish"}, embedding=b"swordfish")


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_nothing_of_a_memory_stands_in_the_file(tmp_path: Path) -> None:
    store = sealed(SqliteStore(tmp_path / "store.db"))
    await store.put_memory(SECRET)
    assert [hit.entry for hit in await store.search_memories("n", "Swordfish")] == [SECRET]
    await store.aclose()
    assert b"swordfish" not in everything_in(tmp_path)
    bare = SqliteStore(tmp_path / "store.db")
    assert await found(bare, "swordfish") == []
    await bare.aclose()


@pytest.mark.parametrize("text", ["ü" * (MAX_MEMORY_BYTES // 2), "\x00" * MAX_MEMORY_BYTES])
async def test_the_longest_memory_fits_sealed(text: str) -> None:
    store = sealed(MemoryStore())
    longest = memory(text, "a", embedding=b"x" * 16_384, metadata={"k": "v" * 4_000})
    await store.put_memory(longest)
    assert list(await store.list_memories("n")) == [longest]
    with pytest.raises(MemoryRefusedError):
        await store.put_memory(structs.replace(longest, text=longest.text + "x"))


async def test_what_was_moved_or_changed_is_left_out_and_the_others_are_found() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await store.put_memory(SECRET)
    await store.put_memory(memory("another swordfish", "b", at=11.0))
    (_, stored) = await inner.list_memories("n")
    for change in ({"memory_id": "c"}, {"namespace": "m"}, {"memory_id": "d", "text": stored.text[:-8] + "AAAAAAA="}):
        await inner.put_memory(structs.replace(stored, **change))
    await inner.put_memory(memory("a plain swordfish", "e"))
    assert await found(store, "swordfish") == ["b", "a"]
    assert (await listed(store), await listed(store, namespace="m")) == (["b", "a"], [])


async def test_a_plain_memory_is_read_where_plain_ones_may_be_and_an_old_key_opens() -> None:
    inner = MemoryStore()
    await inner.put_memory(memory("a plain cat", "plain"))
    await sealed(inner).put_memory(memory("a sealed cat", "sealed", at=11.0))
    assert await found(sealed(inner, ROTATED, plain="read"), "cat") == ["sealed", "plain"]
    assert await found(sealed(inner, ROTATED), "cat") == ["sealed"]
    with pytest.raises(UnsealedError):
        encrypted_memories.opened_memory(Sealer(KEYS, "refuse"), memory("a plain cat", "plain"))


async def test_a_search_opens_the_newest_entries_up_to_its_bound() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await store.put_memory(memory("the oldest cat", "old", at=0.0))
    await store.put_memory(memory("a cat within", "within", at=1.0))
    for n in range(encrypted_memories.MAX_OPENED - 1):
        await inner.put_memory(memory("sealed by somebody else", f"m{n}", at=float(n + 2)))
    assert await found(store, "cat") == ["within"]
    assert "old" not in await listed(store)
