"""Upkeep on servers beside writers: what somebody came to need meanwhile stays; lost answers are found again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import structs
from tests.contract.stores.later_server_schema import connected, dialect_of

from loopwright import open_store
from loopwright.model.errors import ConfigError, InvariantError, SessionExistsError, StoreError, StoreUnavailableError
from loopwright.ports.artifact import Artifact
from loopwright.ports.store import EncodedRecord, Head, InboxItem, PutTimer
from loopwright.ports.store_admin import SessionStore
from loopwright.ports.store_transfer import Inventory, SessionImage
from loopwright.stores.derived import fresh_head
from loopwright.stores.mysql import MysqlDialect
from loopwright.stores.server_dialect import ServerConnection
from loopwright.stores.server_space import hide_artifact, spare_artifacts, vacuum
from loopwright.stores.server_transfer import restore
from loopwright.testing.store_kit import Writer, acquire, begin, head_of, item, new_session, record

FUTURE = 4e9

pytestmark = pytest.mark.server


@pytest.fixture
async def store(either: str) -> AsyncIterator[SessionStore]:
    store = open_store(either)
    yield store
    await store.aclose()


async def by_record(store: SessionStore, writer: Writer, artifact: Artifact) -> None:
    await writer.write(records=(record(f"see {artifact.artifact_id}"),))


async def by_item(store: SessionStore, writer: Writer, artifact: Artifact) -> None:
    await store.enqueue("s", item(body=artifact.artifact_id.encode()))


async def by_timer(store: SessionStore, writer: Writer, artifact: Artifact) -> None:
    await writer.apply(PutTimer("t", 5.0, artifact.artifact_id.encode()))


async def by_deletion(store: SessionStore, writer: Writer, artifact: Artifact) -> None:
    await store.delete("s")


@pytest.mark.parametrize("needed", [by_record, by_item, by_timer, by_deletion])
async def test_an_artifact_that_is_needed_after_it_was_found_spare_stays(
    either: str, store: SessionStore, needed: Any
) -> None:
    sql = dialect_of(either).statements
    writer = await begin(store)
    artifact = await store.put_artifact("s", b"x", "text/plain")
    async with connected(either) as connection:
        (spare,) = await spare_artifacts(connection, sql, FUTURE)
        await needed(store, writer, artifact)
        assert not await hide_artifact(spare, FUTURE, sql, connection)
    assert await store.artifact(artifact.artifact_id) == (None if needed is by_deletion else artifact)


async def test_an_artifact_that_is_put_again_after_it_was_found_spare_stays(either: str, store: SessionStore) -> None:
    sql = dialect_of(either).statements
    await begin(store)
    artifact = await store.put_artifact("s", b"x", "text/plain")
    async with connected(either) as connection:
        ((first,),) = await connection.rows("SELECT created_at FROM lw_artifacts")
        (spare,) = await spare_artifacts(connection, sql, FUTURE)
        await connection.run("UPDATE lw_artifacts SET created_at = 1.0")
        await store.put_artifact("s", b"x", "text/plain")
        assert not await hide_artifact(spare, first, sql, connection)
    assert await store.read_artifact(artifact.artifact_id) == b"x"


async def test_names_in_a_long_journal_are_found_on_every_page(either: str, store: SessionStore) -> None:
    writer = await begin(store)
    first, last, spare = [await store.put_artifact("s", name, "text/plain") for name in (b"first", b"last", b"spare")]
    await by_record(store, writer, first)
    await writer.write(2000)
    await by_record(store, writer, last)
    async with connected(either) as connection:
        found = await spare_artifacts(connection, dialect_of(either).statements, FUTURE)
    assert [one.artifact_id for one in found] == [spare.artifact_id]


def image(session_id: str = "s", **changes: Any) -> SessionImage:
    session = new_session(session_id)
    head = structs.replace(fresh_head(session), inbox_seq=1, **changes)
    waiting = (InboxItem("waits", "message", b"{}", 2.0, 1),)
    return SessionImage(Inventory(head, waiting, (), (), ()), session.records, ())


class CutAfterCommit:
    """A connection whose commits succeed and whose answers to them are lost."""

    def __init__(self, connection: ServerConnection, commit: str) -> None:
        self._connection = connection
        self._commit = commit
        self.rows = connection.rows
        self.run_many = connection.run_many
        self.close = connection.close
        self.terminate = connection.terminate

    async def run(self, statement: str, *values: Any) -> None:
        await self._connection.run(statement, *values)
        if statement == self._commit:
            raise ConnectionError("cut")


async def test_a_session_whose_commit_was_answered_by_silence_is_restored_once(
    either: str, store: SessionStore
) -> None:
    sql = dialect_of(either).statements
    await store.create(new_session("makes the tables"))
    asked: list[Head] = []
    work = partial(restore, image(), asked, sql)
    async with connected(either) as connection:
        with pytest.raises(ConnectionError):
            await work(CutAfterCommit(connection, sql.COMMIT))
        assert await work(connection) == image().inventory.head
        await acquire(store)
        with pytest.raises(StoreUnavailableError, match="others wrote meanwhile"):
            await work(connection)
        with pytest.raises(SessionExistsError):
            await restore(image(), [], sql, connection)
    assert (await head_of(store)).position == 2


async def test_an_image_that_cannot_be_stored_leaves_nothing_and_the_store_goes_on(store: SessionStore) -> None:
    await store.create(new_session("other"))
    taken = await store.put_artifact("other", b"x", "text/plain")
    whole = image()
    clash = structs.replace(whole.inventory, artifacts=(structs.replace(taken, digest="of other content"),))
    with pytest.raises(InvariantError):
        await store.restore(structs.replace(whole, inventory=clash, artifact_data=(b"x",)))
    assert (await store.figures()).records == 1
    await store.restore(whole)
    assert (await head_of(store)).position == 1


async def test_a_server_has_no_file_to_copy_and_says_what_copies_it(either: str, store: SessionStore) -> None:
    program = "pg_dump" if either.startswith("postgresql") else "mariadb-dump"
    with pytest.raises(ConfigError, match=f"{program}.*loopwright db export"):
        await store.backup("copy.db")


async def test_records_that_belong_to_no_session_are_found(either: str, store: SessionStore) -> None:
    await store.create(new_session())
    async with connected(either) as connection:
        await connection.run("INSERT INTO lw_records VALUES (999, 0, 'fact', 1, 1.0, 'x')")
    assert [one.what for one in await store.check()] == ["1 records belong to no session"]


def records_of(bodies: Sequence[bytes]) -> tuple[EncodedRecord, ...]:
    return tuple(EncodedRecord("fact", 1, 1.0, body) for body in bodies)


async def test_a_restore_of_many_megabytes_is_one_session(store: SessionStore) -> None:
    bodies = [b"\x00'\\" * 200_000 for _ in range(20)]
    whole = image(position=len(bodies))
    await store.restore(structs.replace(whole, records=records_of(bodies)))
    assert [one.body for one in await store.read("s")] == bodies
    assert (await store.session_sizes())["s"] == sum(map(len, bodies)) + 2


async def test_a_table_that_the_server_cannot_make_anew_is_an_error_that_names_it(mariadb: str) -> None:
    sql = structs.replace(MysqlDialect(mariadb).statements, VACUUM=("OPTIMIZE TABLE nowhere",))
    async with connected(mariadb) as connection:
        with pytest.raises(StoreError, match=r"OPTIMIZE TABLE nowhere.*doesn't exist"):
            await vacuum(sql, connection)
