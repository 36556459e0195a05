"""Forks of encrypted sessions: each record opens as its writer's, wherever it is kept, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.contract.stores.sealing import KEYS, NEW, ROTATED, data_of, sealed

from loopwright import AgentLoopConfig, StatefulAgentLoop
from loopwright.engine.exporting import Exporter
from loopwright.engine.importing import Importer
from loopwright.model.archive_errors import SealBrokenError
from loopwright.model.errors import ConfigError, SessionNotFoundError
from loopwright.ports.store import ForkPoint, Lookup, StoredRecord
from loopwright.ports.store_transfer import SessionImage
from loopwright.stores.encrypted import EncryptedStore
from loopwright.stores.encrypted_forks import begins_at, lineage_from, owner_at
from loopwright.stores.memory import MemoryStore
from loopwright.stores.static_keys import StaticKeys
from loopwright.testing.store_fork_promises import fork_of, grown, holding
from loopwright.testing.store_kit import acquire, raises, record, texts


class Counting(MemoryStore):
    """Counts what is asked of it for reading."""

    asked = 0

    async def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[StoredRecord]:
        self.asked += 1
        return await super().read(session_id, after=after, limit=limit)

    async def lookup(self, session_id: str, *, item_id: str | None = None) -> Lookup:
        self.asked += 1
        return await super().lookup(session_id, item_id=item_id)


async def family(store: EncryptedStore) -> dict[str, list[bytes]]:
    """A base that went on, a fork of it, a fork of that one; what each says."""
    await grown(store, "s", count=6)
    await store.create(fork_of("s", 3, "f"))
    await (await acquire(store, "f")).write(2, release=True)
    await store.create(fork_of("f", 5, "g"))
    await (await acquire(store, "g")).write(2, release=True)
    return {name: await texts(store, name) for name in "sfg"}


# --- whose a record is ------------------------------------------------------------------------------------------------


def test_a_lineage_says_for_each_position_whose_record_it_is() -> None:
    f = lineage_from((), ForkPoint("s", 3))
    g = lineage_from(f, ForkPoint("f", 5))
    assert [owner_at(g, "g", n) for n in range(7)] == ["s", "s", "s", "f", "f", "g", "g"]
    assert [n for n in range(7) if begins_at(g, n)] == [3, 5]
    for leaves in (1, 2, 3):  # what the session in between adds is not read
        assert lineage_from(f, ForkPoint("f", leaves)) == (ForkPoint("s", leaves),)


async def test_a_plain_session_costs_no_question_more_and_a_fork_only_at_its_first_read() -> None:
    inner = Counting()
    store = sealed(inner)
    await family(store)
    later = sealed(inner)
    for name, costs in (("s", 1), ("f", 3), ("f", 1), ("g", 3), ("g", 1)):
        inner.asked = 0
        await later.read(name, limit=2)
        assert inner.asked == costs, name
    inner.asked = 0
    assert len(await sealed(inner).read("g", after=6)) == 3
    assert inner.asked == 1, "its own records show nothing of the base"


async def test_a_copied_beginning_opens_in_a_process_that_never_saw_its_base() -> None:
    inner = MemoryStore()
    said = await family(sealed(inner))
    for gone in ("f", "s"):
        await sealed(inner).delete(gone, copy_to_forks=True)
        for after in range(len(said["g"])):
            rows = await sealed(inner).read("g", after=after, limit=1)
            assert [row.body for row in rows] == said["g"][after : after + 1]
    store = sealed(inner)
    await store.create(fork_of("g", 4, "h"))
    assert (await texts(sealed(inner), "h"))[:4] == said["g"][:4]
    assert list(await store.check()) == []


# --- nothing can be moved ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [False, True])
async def test_no_record_opens_in_place_of_another_of_its_family(copied: bool) -> None:
    """Of the same position too: what the base said after the fork is not what the fork said."""
    inner = MemoryStore()
    said = await family(sealed(inner))
    if copied:
        await sealed(inner).delete("s", copy_to_forks=True)
    data = data_of(inner).sessions
    places = [(name, n) for name in data for n in range(len(data[name].records))]
    good = {place: data[place[0]].records[place[1]] for place in places}
    for to in places:
        for of in places:
            if good[of].body == good[to].body:
                continue
            data[to[0]].records[to[1]] = structs.replace(good[to], body=good[of].body)
            with pytest.raises(SealBrokenError):
                await sealed(inner).read(to[0])
        data[to[0]].records[to[1]] = good[to]
    assert [await texts(sealed(inner), name) for name in data] == [said[name] for name in data]


async def test_a_head_that_names_another_base_or_another_place_of_it_opens_nothing() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await family(store)
    await grown(store, "other", count=6)
    fork, plain = data_of(inner).sessions["f"], data_of(inner).sessions["other"]
    head = fork.head
    fork.head = structs.replace(head, base=ForkPoint("other", 3))
    with pytest.raises(SealBrokenError):
        await sealed(inner).read("f")
    fork.head = head
    plain.head = structs.replace(plain.head, base=ForkPoint("s", 3))
    del plain.records[:3]
    with pytest.raises(SealBrokenError):
        await sealed(inner).read("other")


async def test_a_fork_without_a_record_of_its_own_has_nowhere_to_say_whose_it_is_and_is_refused() -> None:
    store = sealed(MemoryStore())
    await grown(store)
    with raises(ConfigError):
        await store.create(structs.replace(fork_of("s", 3), records=()))
    with raises(SessionNotFoundError):
        await store.lookup("f")


async def test_damage_names_the_session_that_wrote_the_record_and_is_found_once() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await family(store)
    rows = data_of(inner).sessions["s"].records
    rows[1] = structs.replace(rows[1], body=rows[1].body[:-1])
    with raises(SealBrokenError) as caught:
        await store.read("g")
    assert (caught.error.session_id, caught.error.position) == ("s", 1)
    assert len(await store.read("g", after=3)) == 6
    assert [problem.session_id for problem in await store.check()] == ["s"]


# --- artifacts --------------------------------------------------------------------------------------------------------


async def test_an_artifact_opens_whichever_session_holds_it_and_a_copy_shares_it_after_a_change_of_keys() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    artifact_id = await holding(store)
    await store.create(fork_of("s", 2))
    later = sealed(inner, ROTATED)
    whole = await later.inventory("f")
    rows = tuple(structs.replace(record(), body=row.body) for row in await later.read("f"))
    copy = structs.replace(whole, head=structs.replace(whole.head, session_id="copy"))
    await later.restore(SessionImage(copy, rows, (b"large",)))
    for gone in ("f", "s"):
        await later.delete(gone)
    assert await sealed(inner, ROTATED).read_artifact(artifact_id) == b"large"
    assert list(await later.check()) == []


# --- with a loop ------------------------------------------------------------------------------------------------------


async def test_forks_of_a_loop_go_on_and_their_chains_hold_without_the_base() -> None:
    inner = MemoryStore()
    config = AgentLoopConfig(hash_chain=True)
    async with StatefulAgentLoop(llm="echo:", store=sealed(inner), config=config) as loop:
        sid = (await loop.send("the password is swordfish")).session_id
        fork = await loop.fork(sid)
        await loop.send("and then", session_id=fork)
        deeper = await loop.fork(fork)
        before = await loop.get_messages(deeper)
        await loop.close_session(sid, copy_to_forks=True)
        await loop.close_session(fork, copy_to_forks=True)
    async with StatefulAgentLoop(llm="echo:", store=sealed(inner), config=config) as loop:
        assert await loop.get_messages(deeper) == before
        report = await loop.verify(deeper)
        assert (report.problems, report.unlinked) == ((), ())
        await loop.send("still there?", session_id=deeper)
    assert all(b"swordfish" not in row.body for row in data_of(inner).sessions[deeper].records)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("copied", [False, True])
async def test_an_export_of_a_fork_comes_in_as_a_session_of_its_own(plain: bool, copied: bool) -> None:
    store = sealed(MemoryStore())
    said = await _exportable(store, copied=copied)
    file = io.BytesIO()
    await Exporter(store, file.write, plain=plain).run(["g"], library="test", at=1.0)
    there = sealed(MemoryStore(), KEYS if not plain else StaticKeys({"another": NEW}))
    await Importer(there).run(io.BytesIO(file.getvalue()))
    assert await texts(there, "g") == said
    assert list(await there.check()) == []


async def _exportable(store: EncryptedStore, *, copied: bool) -> list[bytes]:
    """A fork "g" of a fork of real records; what it says."""
    config: Any = AgentLoopConfig(hash_chain=True)
    async with StatefulAgentLoop(llm="echo:", store=store, config=config) as loop:
        await loop.new_session(session_id="s")
        await loop.send("one", session_id="s")
        await loop.fork("s", new_session_id="f")
        await loop.send("two", session_id="f")
        await loop.fork("f", new_session_id="g")
        await loop.send("three", session_id="g")
        if copied:
            await loop.close_session("f", copy_to_forks=True)
    return await texts(store, "g")
