"""Forks on database servers: what they cost those who have none, races of several clients, damage that is found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.contract.stores.later_server_schema import connected, dialect_of, run
from tests.contract.stores.server_cuts import cut_all

from loopwright import open_store
from loopwright.model.errors import SessionGoneError, StoreCorruptError, StoreUnavailableError
from loopwright.ports.store import ForkPoint
from loopwright.ports.store_transfer import SessionImage
from loopwright.stores.server_reads import ServerReads
from loopwright.testing.store_fork_promises import FUTURE, fork_of, grown, holding
from loopwright.testing.store_kit import head_of, record, texts

pytestmark = pytest.mark.server


class Noting:
    """A connection that remembers what it was asked."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.asked: list[str] = []

    async def rows(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        self.asked.append(statement)
        found: Sequence[Sequence[Any]] = await self._connection.rows(statement, *values)
        return found

    async def run(self, statement: str, *values: Any) -> None:
        self.asked.append(statement)
        await self._connection.run(statement, *values)


async def asked_for(dsn: str, session_id: str, after: int = 0) -> list[str]:
    """The statements that a read is made of."""
    async with connected(dsn) as connection:
        noting: Any = Noting(connection)
        await ServerReads(noting, dialect_of(dsn).statements).records(session_id, after, None)
        asked: list[str] = noting.asked
        return asked


async def test_what_has_no_fork_and_what_is_a_forks_own_is_read_with_the_same_statements(either: str) -> None:
    store = open_store(either)
    await grown(store, "plain")
    await grown(store, "base")
    await store.create(fork_of("base", 3, "one"))
    await store.create(fork_of("one", 4, "two"))
    plain = await asked_for(either, "plain", 3)
    assert len(plain) == 4, "a snapshot of two statements"
    assert (
        await asked_for(either, "base", 3)
        == await asked_for(either, "one", 3)
        == await asked_for(either, "two", 4)
        == plain
    )
    assert len(await asked_for(either, "two")) == len(plain) + 3, "one for all links, one for the records of each"
    await store.aclose()


async def test_a_fork_whose_base_was_lost_is_found_and_never_read_as_if_it_were_whole(either: str) -> None:
    store = open_store(either)
    await grown(store, "lost")
    await grown(store, "cut")
    await store.create(fork_of("lost", 3, "of-lost"))
    await store.create(fork_of("cut", 3, "of-cut"))
    await run(
        either, "DELETE FROM lw_sessions WHERE session_id = 'lost';\nDELETE FROM lw_records WHERE position = 2;\n"
    )
    said = {problem.session_id: problem.what for problem in await store.check()}
    assert "session lost has not the records before 3" in said["of-lost"]
    assert "3 records" in said["cut"]
    for name in ("of-lost", "of-cut"):
        with pytest.raises(StoreCorruptError, match="restore a backup"):
            await store.read(name)
    await store.aclose()


async def test_a_fork_made_while_links_of_its_chain_go_reads_the_same_or_is_refused(either: str) -> None:
    store, other, third = (open_store(either) for _ in range(3))
    for n in range(12):
        low, middle, top, fork = (f"{name}-{n}" for name in ("a-low", "c-middle", "b-top", "d-fork"))
        await grown(store, low)
        await store.create(fork_of(low, 3, middle))
        await store.create(fork_of(middle, 4, top))
        whole = await texts(store, top)
        position = 2 + n % 4
        made, *gone = await asyncio.gather(
            store.create(fork_of(top, position, fork)),
            other.delete(middle, copy_to_forks=True),
            third.delete(low, copy_to_forks=True),
            return_exceptions=True,
        )
        assert gone == [1, 1]
        assert not isinstance(made, BaseException), "its base stays"
        assert await texts(store, fork) == [*whole[:position], record(f"fork {fork}").body]
        assert await texts(store, top) == whole
        assert (await head_of(store, top)).base is None
    assert list(await store.check()) == []
    for one in (store, other, third):
        await one.aclose()


async def test_readers_that_go_at_once_leave_no_artifact_behind_and_take_none_from_who_stays(either: str) -> None:
    store, other = open_store(either), open_store(either)
    for n in range(8):
        base = f"base-{n}"
        artifact_id = await holding(store, base)
        for name in ("x", "y", "z"):
            await store.create(fork_of(base, 2, f"{name}-{n}"))
        await store.delete(base, copy_to_forks=True)
        await asyncio.gather(store.delete(f"x-{n}"), other.delete(f"y-{n}"))
        assert await store.sweep_artifacts(FUTURE) == 0
        assert await store.read_artifact(artifact_id) == b"large"
        await asyncio.gather(store.delete(f"z-{n}"))
        assert await store.artifact(artifact_id) is None
    assert (await store.figures()).artifacts == 0
    async with connected(either) as connection:
        assert list(await connection.rows("SELECT 1 FROM lw_artifact_shares")) == []
    await store.aclose()
    await other.aclose()


async def test_a_copy_to_forks_whose_connection_is_cut_happened_once_or_not_at_all(either: str) -> None:
    store = open_store(either)
    for n in range(6):
        base, fork = f"base-{n}", f"fork-{n}"
        await grown(store, base, count=40)
        await store.create(fork_of(base, 30, fork))
        whole = await texts(store, fork)
        deleting = asyncio.ensure_future(store.delete(base, copy_to_forks=True))
        await cut_all(either)
        try:
            assert await deleting == 1
        except (SessionGoneError, StoreUnavailableError):
            pass
        head = await head_of(store, fork)
        assert head.base in (None, ForkPoint(base, 30))
        assert await texts(store, fork) == whole
    assert list(await store.check()) == []
    await store.aclose()


async def test_an_artifact_that_a_deletion_left_is_not_shared_and_can_be_restored_when_it_is_gone(either: str) -> None:
    store, sql = open_store(either), dialect_of(either).statements
    artifact_id = await holding(store)
    whole = await store.inventory("s")
    rows = tuple(structs.replace(record(), kind=row.kind, body=row.body) for row in await store.read("s"))
    head = structs.replace(whole.head, session_id="copy")
    image = SessionImage(structs.replace(whole, head=head), rows, (b"large",))
    async with connected(either) as killed_before_it_swept:
        await killed_before_it_swept.run(sql.BURY, ["s"])
        await killed_before_it_swept.run(sql.DELETE_SESSION, ["s"])
    with pytest.raises(StoreUnavailableError, match="db vacuum"):
        await store.restore(image)
    await store.vacuum()
    assert await store.artifact(artifact_id) is None
    await store.restore(image)
    assert await store.read_artifact(artifact_id) == b"large"
    assert [one.session_id for one in (await store.inventory("copy")).artifacts] == ["copy"]
    await store.aclose()
