"""Tables of an older version on a server become those of a newer one: once, also when processes start at once or die."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from tests.contract.stores.later_server_schema import (
    LAST,
    NEXT,
    SO_FAR,
    VERSION,
    connected,
    dialect_of,
    later,
    prepared,
    rows,
    run,
)
from tests.servers import client

from loopwright import open_store
from loopwright.model.errors import StoreSchemaError, StoreUnavailableError
from loopwright.ports.schema_policy import SchemaPolicy
from loopwright.ports.store import ClaimQuery, PutTimer, Store
from loopwright.stores.migration import complete_ddl, newest
from loopwright.stores.mysql_statements import MysqlStatements
from loopwright.stores.server_dialect import ServerConnection, ServerDialect
from loopwright.stores.server_schema import ServerSchema
from loopwright.testing.store_kit import begin, new_session

IS_FULL = bool(os.environ.get("LOOPWRIGHT_FULL"))
"""With LOOPWRIGHT_FULL=1 a migration is cut at each of its calls on PostgreSQL too, without it at every fourth."""

AUTO, VERIFY, MIGRATE = SchemaPolicy.AUTO_CREATE, SchemaPolicy.VERIFY, SchemaPolicy.MIGRATE
HISTORY = Path(__file__).parents[2] / "history"
A_SESSION = (
    "INSERT INTO lw_sessions (session_id, position, updated_at, min_format, agent_name, kind, lifecycle, title, created_at)"
    " VALUES ('s', 0, 1.0, 1, 'default', 'agent', 'linked', '', 1.0)"
)

pytestmark = pytest.mark.server


def schema_of(dsn: str, version: int) -> str:
    kind = "postgres" if dsn.startswith("postgresql:") else "mysql"
    return (HISTORY / f"{kind}_schema_{version}.sql").read_text("ascii")


def schema_1(dsn: str) -> str:
    return schema_of(dsn, 1)


@pytest.fixture
async def old(either: str) -> str:
    """A database of version 1 with a session in it."""
    await run(either, schema_1(either) + A_SESSION)
    return either


async def versions(dsn: str) -> list[int]:
    return [row[0] for row in await rows(dsn, "SELECT version FROM lw_schema ORDER BY version")]


async def timers_of(store: Store, *agents: str, limit: int = 50) -> tuple[list[str], float | None]:
    """Which timers are due at 9, and when the next one is."""
    found = await store.claim(ClaimQuery(agent_names=agents, max_format=1, now=9.0, limit=limit))
    return [timer.timer_id for timer in found.timers], found.next_timer_at


async def test_the_list_leads_to_the_version_that_new_tables_get(either: str) -> None:
    sql = dialect_of(either).statements
    assert newest(1, sql.MIGRATIONS) == sql.SCHEMA.version == VERSION
    assert [one.version for one in sql.MIGRATIONS] == list(range(2, VERSION + 1))
    assert {path.name for path in HISTORY.glob("postgres_schema_*.sql")} == {
        f"postgres_schema_{n}.sql" for n in range(1, VERSION)
    }


async def columns(dsn: str) -> list[list[Any]]:
    here = "current_schema()" if dsn.startswith("postgresql:") else "DATABASE()"
    return await rows(
        dsn,
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
        f" WHERE table_schema = {here} ORDER BY 1, 2",
    )


async def indexes(dsn: str) -> list[list[Any]]:
    if dsn.startswith("postgresql:"):
        return await rows(dsn, "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1")
    return await rows(
        dsn, "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1"
    )


@pytest.mark.parametrize("version", range(1, VERSION))
async def test_migrated_tables_have_the_same_columns_and_indexes_as_new_ones(either: str, version: int) -> None:
    await run(either, schema_of(either, version) + A_SESSION)
    migrations = dialect_of(either).statements.MIGRATIONS
    await prepared(either, AUTO, migrations)
    await prepared(either, MIGRATE, migrations)
    with client.shared("postgres" if either.startswith("postgresql:") else "mariadb").database() as new:
        await prepared(new, AUTO, migrations)
        assert await columns(either) == await columns(new)
        assert await indexes(either) == await indexes(new)
        assert await versions(new) == [VERSION]
    assert await versions(either) == SO_FAR[version - 1 :]


async def test_opening_runs_what_must_come_first_and_leaves_the_clean_up(old: str) -> None:
    schema = await prepared(old, AUTO)
    async with connected(old) as connection:
        assert [version for version, _ in await schema.cleanup(connection)] == [5, NEXT]
    assert await versions(old) == [*SO_FAR, NEXT, LAST]
    assert await rows(old, "SELECT colour, shape FROM lw_sessions") == [["none", None]]
    await prepared(old, VERIFY)


async def test_migrating_cleans_up_once(old: str) -> None:
    await prepared(old, AUTO)
    schema = await prepared(old, MIGRATE)
    async with connected(old) as connection:
        assert await schema.cleanup(connection) == []
    assert await rows(old, "SELECT shape FROM lw_sessions") == [["round"]]
    await run(old, "UPDATE lw_sessions SET shape = NULL")
    await prepared(old, MIGRATE)
    assert await rows(old, "SELECT shape FROM lw_sessions") == [[None]]


async def test_processes_of_the_version_before_go_on_beside_a_migration(old: str) -> None:
    await prepared(old, AUTO)
    await run(old, "INSERT INTO lw_timers VALUES (1, 't', 5.0, 'as version 1 writes it')")
    assert await rows(old, "SELECT timer_id, paused FROM lw_timers") == [["t", 0]]
    store = open_store(old, schema=VERIFY)
    with pytest.raises(StoreSchemaError, match="upgrade loopwright"):
        await store.create(new_session("of this version"))
    await store.aclose()


async def test_timers_from_before_a_migration_and_those_that_the_version_before_arms_beside_it_fire(
    either: str,
) -> None:
    older = "INSERT INTO lw_timers ({}, timer_id, due_at, body) SELECT {}, '{}', {}, '' FROM lw_sessions"
    key = "key" if either.startswith("postgresql:") else "`key`"
    await run(either, schema_of(either, 4) + A_SESSION)
    await run(either, older.format(key, key, "before", 5.0))
    await prepared(either, AUTO, dialect_of(either).statements.MIGRATIONS)
    assert await rows(either, "SELECT agent_name FROM lw_timers") == [["default"]]
    for timer_id, due_at in (("beside", 4.0), ("later", 12.0), ("last", 20.0)):
        await run(either, older.format(key, key, timer_id, due_at))
    store = open_store(either)
    assert await timers_of(store, "default", "other") == (["beside", "before"], 12.0)
    assert await timers_of(store, "default", "other", limit=1) == (["beside"], 12.0)
    assert await timers_of(store, "other") == ([], None)
    await store.enqueue("s", None, (PutTimer("later", 11.0, b"moved"),))
    assert await rows(either, "SELECT agent_name FROM lw_timers WHERE timer_id = 'later'") == [["default"]]
    assert await timers_of(store, "default") == (["beside", "before"], 11.0)
    await store.aclose()


async def test_verify_gives_exactly_the_statements_that_are_missing_and_they_work(old: str) -> None:
    with pytest.raises(StoreSchemaError, match="version 1") as missing:
        await prepared(old, VERIFY)
    assert await versions(old) == [1]
    script = missing.value.ddl
    made = [line.split()[5] for line in script.splitlines() if line.startswith("CREATE TABLE IF NOT EXISTS")]
    since = [
        "lw_artifact_shares",
        "lw_budgets",
        "lw_holds",
        "lw_hold_caps",
        "lw_boards",
        "lw_board_entries",
        "lw_memories",
    ]
    assert made == since, "tables that are there are not in it"
    assert script.index("ADD COLUMN cleaned_at") < script.index("colour") < script.index("lw_notes")
    await run(old, script)
    await prepared(old, VERIFY)


async def test_the_complete_script_makes_all_tables_and_may_run_again(either: str) -> None:
    script = open_store(either).ddl()
    assert script == complete_ddl(dialect_of(either).statements.SCHEMA)
    with pytest.raises(StoreSchemaError) as missing:
        await prepared(either, VERIFY, dialect_of(either).statements.MIGRATIONS)
    assert sorted(missing.value.ddl.splitlines()) == sorted(script.splitlines())
    for _ in range(2):
        await run(either, script)
    await prepared(either, VERIFY, dialect_of(either).statements.MIGRATIONS)
    assert await versions(either) == [VERSION]


def started_at_once(dsn: str) -> None:
    """Four processes, of which two also clean up."""
    command = [sys.executable, "-m", "tests.contract.stores.later_server_schema", dsn]
    started = [
        subprocess.Popen([*command, policy], stderr=subprocess.PIPE, cwd=Path(__file__).parents[3])
        for policy in (AUTO, AUTO, MIGRATE, MIGRATE)
    ]
    for process in started:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()


async def test_processes_that_start_at_once_migrate_once(old: str) -> None:
    await asyncio.to_thread(started_at_once, old)
    assert await versions(old) == [*SO_FAR, NEXT, LAST]
    assert await rows(old, "SELECT version FROM lw_schema WHERE cleaned_at IS NULL") == [[1]]


class Cut:
    """A connection that is dropped right before its call number `at`."""

    def __init__(self, connection: ServerConnection, at: int) -> None:
        self._connection = connection
        self._at = at
        self.calls = 0

    async def rows(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        self._count()
        return await self._connection.rows(statement, *values)

    async def run(self, statement: str, *values: Any) -> None:
        self._count()
        await self._connection.run(statement, *values)

    async def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._count()
        await self._connection.run_many(statement, rows)

    async def close(self) -> None:
        await self._connection.close()

    def terminate(self) -> None:
        self._connection.terminate()

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            self.terminate()
            raise ConnectionError("cut")


@asynccontextmanager
async def aged(kind: str) -> AsyncIterator[str]:
    with client.shared(kind).database() as dsn:
        await run(dsn, schema_1(dsn) + A_SESSION)
        yield dsn


async def cut_at(dsn: str, at: int) -> int:
    """Migrates with a connection that is cut; how many calls it did."""
    connection = Cut(await dialect_of(dsn).connect(sync=False), at)
    try:
        await ServerSchema(dialect_of(dsn), MIGRATE, later(dsn)).prepare(connection)
    except ConnectionError:
        return connection.calls
    await connection.close()
    return connection.calls


async def left_behind(dsn: str) -> str:
    """Everything that a migration might have changed, in words."""
    found = [await columns(dsn), await indexes(dsn), await rows(dsn, "SELECT * FROM lw_schema ORDER BY version")]
    return repr([*found, await rows(dsn, "SELECT * FROM lw_sessions")])


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
async def test_a_migration_that_is_cut_at_any_call_is_finished_by_the_next_process_or_by_its_script(kind: str) -> None:
    async with aged(kind) as dsn:
        untouched = await left_behind(dsn)
        calls = await cut_at(dsn, 0)
    assert calls > 15
    step = 4 if kind == "postgres" and not IS_FULL else 1  # one transaction there: few calls leave anything
    finished, at = set[str](), 0
    while at < calls:
        async with aged(kind) as dsn:
            left = untouched
            while left == untouched and at < calls:  # until something is left that the next one did not begin with
                at = min(at + step, calls)
                await cut_at(dsn, at)
                left = await left_behind(dsn)
            if kind == "postgres":
                assert await versions(dsn) in ([1], [*SO_FAR, NEXT, LAST]), "versions come together or not at all"
            if left not in finished:
                await finish(dsn)
                finished.add(left)
    if untouched not in finished:
        async with aged(kind) as dsn:
            await finish(dsn)


async def finish(dsn: str) -> None:
    """By the script that a process gets, if it gets one, and by the next process."""
    try:
        await prepared(dsn, VERIFY)
    except StoreSchemaError as half:
        await run(dsn, half.ddl)
        await prepared(dsn, VERIFY)
    await prepared(dsn, MIGRATE)
    assert await versions(dsn) == [*SO_FAR, NEXT, LAST]
    assert await rows(dsn, "SELECT shape FROM lw_sessions") == [["round"]]


@pytest.mark.parametrize("policy", [AUTO, VERIFY])
async def test_tables_that_are_not_of_the_version_they_say_are_refused_until_an_operator_says_so(
    old: str, policy: SchemaPolicy
) -> None:
    await prepared(old, AUTO)
    await run(old, "ALTER TABLE lw_artifacts DROP COLUMN created_at")
    with pytest.raises(
        StoreSchemaError, match="keep a dump of the database and run `loopwright db migrate`"
    ) as refused:
        await prepared(old, policy)
    assert refused.value.ddl.startswith("ALTER TABLE lw_artifacts ADD COLUMN created_at")
    assert refused.value.ddl.count(";") == 1
    await prepared(old, MIGRATE)
    await prepared(old, policy)


async def test_tables_of_the_future_are_refused_by_this_version_and_untouched(old: str) -> None:
    await prepared(old, AUTO)
    before = await columns(old)
    for policy in SchemaPolicy:
        with pytest.raises(StoreSchemaError, match="upgrade loopwright"):
            await prepared(old, policy, dialect_of(old).statements.MIGRATIONS)
    assert await columns(old) == before


async def test_tables_of_another_prefix_are_migrated_by_themselves(either: str) -> None:
    await run(either, schema_1(either).replace("lw_", "other_"))
    await run(either, schema_1(either))
    store = open_store(f"{either}?prefix=other_")
    writer = await begin(store)
    await writer.apply(PutTimer("t", 5.0, b"{}"))
    query = ClaimQuery(agent_names=("default",), max_format=1, now=9.0)
    assert [timer.timer_id for timer in (await store.claim(query)).timers] == ["t"]
    figures = await store.figures()
    assert (figures.schema_version, figures.records) == (VERSION, 3)
    assert [one for one in figures.cleanup if "other_timers_due" not in one] == []
    await store.aclose()
    assert await versions(either) == [1]


async def test_tables_in_a_schema_of_their_own_are_migrated_there(postgres: str) -> None:
    await run(postgres, "CREATE SCHEMA apart")
    inside = f"{postgres}?schema=apart"
    await run(inside, schema_1(postgres) + A_SESSION)
    store = open_store(inside)
    assert (await store.figures()).schema_version == VERSION
    assert (await store.vacuum()).before > 0
    await store.aclose()
    assert await rows(postgres, "SELECT 1 FROM pg_tables WHERE tablename LIKE 'lw%' AND schemaname = 'public'") == []


async def test_stores_that_open_one_database_at_once_all_work(old: str) -> None:
    stores = [open_store(old) for _ in range(5)]
    await asyncio.gather(*[store.create(new_session(f"s{n}")) for n, store in enumerate(stores)])
    assert await versions(old) == SO_FAR
    await asyncio.gather(*[store.aclose() for store in stores])


class OutOfPatience:
    """A server whose lock is not waited for."""

    def __init__(self, dsn: str) -> None:
        self.place = dsn
        sql = dialect_of(dsn).statements
        self.statements = structs.replace(cast("MysqlStatements", sql), LOCK_SCHEMA=sql.LOCK_SCHEMA.replace("30", "0"))


async def test_a_process_that_waited_too_long_for_another_says_so_and_changes_nothing(mariadb: str) -> None:
    schema = ServerSchema(cast("ServerDialect", OutOfPatience(mariadb)), AUTO)
    async with connected(mariadb) as other, connected(mariadb) as connection:
        await other.rows(dialect_of(mariadb).statements.LOCK_SCHEMA)
        with pytest.raises(StoreUnavailableError, match="another process is changing the tables"):
            await schema.prepare(connection)
        assert await columns(mariadb) == []
        await other.rows(dialect_of(mariadb).statements.UNLOCK_SCHEMA)
        await schema.prepare(connection)
    assert await versions(mariadb) == [VERSION]
