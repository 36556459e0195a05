"""What is MariaDB's own: cut connections, odd text, several servers' settings, values that do not fit."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from urllib.parse import urlsplit

import asyncmy
import pytest
from tests.contract.stores.server_cuts import cut_all
from tests.servers import mariadb as server
from tests.servers.client import ServerHandle

from loopwright import open_store
from loopwright.model.errors import (
    ConfigError,
    LoopwrightError,
    StoreError,
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
    UsageError,
)
from loopwright.ports.store import EncodedRecord
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.stores.mysql import MysqlDialect
from loopwright.stores.mysql_statements import MysqlStatements
from loopwright.stores.mysql_text import filled, filled_many, literal
from loopwright.testing.store_kit import Writer, begin, head_of, item, new_session, raises, texts

WRITERS = 6
COMMITS = 60


async def ask(dsn: str, statement: str) -> list[tuple[object, ...]]:
    parts = urlsplit(dsn)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, database=parts.path[1:] or None, autocommit=True
    )
    async with connection.cursor() as cursor:
        await cursor.execute(statement)
        rows = list(await cursor.fetchall())
        while await cursor.nextset():
            pass
    connection.close()
    return rows


async def busy(writer: Writer) -> None:
    for _ in range(COMMITS):
        await writer.write(2, sync=True)


async def test_writers_whose_connections_are_cut_lose_nothing_and_say_nothing_twice(mariadb: str) -> None:
    store = open_store(mariadb)
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*map(busy, writers))
    cuts = 0
    while not working.done():
        await cut_all(mariadb)
        cuts += 1
        await asyncio.wait({working}, timeout=0.03)  # as long as a connection and a commit need, and not always enough
    await working
    assert cuts > 3
    for writer in writers:
        assert len(await texts(store, writer.session_id)) == writer.position == 2 + 2 * COMMITS
    assert list(await store.check()) == []
    await store.aclose()


@pytest.mark.kill
async def test_a_run_of_commits_survives_a_server_that_is_killed_and_started_again(own_mariadb: ServerHandle) -> None:
    dsn = own_mariadb.new_database()
    store = open_store(dsn)
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*map(busy, writers))
    await asyncio.to_thread(own_mariadb.restart, abrupt=True)
    await working
    for writer in writers:
        assert len(await texts(store, writer.session_id)) == writer.position == 2 + 2 * COMMITS
    await store.aclose()


async def test_a_server_that_stays_away_is_a_retryable_error_and_the_store_goes_on_when_it_is_back(
    own_mariadb: ServerHandle,
) -> None:
    store = open_store(own_mariadb.new_database(), busy_wait_s=0.3)
    writer = await begin(store)
    await asyncio.to_thread(own_mariadb.stop)
    for call in (writer.write, lambda: head_of(store), lambda: store.enqueue("s", item())):
        with raises(StoreUnavailableError):
            await call()
    await asyncio.to_thread(own_mariadb.start)
    assert (await head_of(store)).position == 2
    assert (await writer.write()).position == 3
    await store.aclose()


async def first_error(dsn: str, schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE) -> LoopwrightError:
    """What the first call on this address raises."""
    store = open_store(dsn, schema=schema, busy_wait_s=0.3)
    try:
        await store.create(new_session())
    except LoopwrightError as error:
        return error
    finally:
        await store.aclose()
    raise AssertionError("nothing was raised")


async def test_wrong_addresses_say_what_is_wrong(mariadb: str) -> None:
    assert isinstance(await first_error(f"{mariadb}_of_nobody"), StoreSchemaError)
    assert isinstance(await first_error("mysql://nobody@127.0.0.1:1/db"), StoreUnavailableError)
    assert isinstance(await first_error(mariadb.replace("root@", "nobody_of_that_name@")), StoreError)


async def test_a_user_without_rights_is_told_apart_from_damage(mariadb: str) -> None:
    database = mariadb.rpartition("/")[2]
    user = f"poor_{database[-8:]}"
    store = open_store(mariadb)
    await store.create(new_session("made by its owner"))
    await store.aclose()
    await ask(mariadb, f"CREATE USER {user}; GRANT SELECT ON {database}.* TO {user}")
    try:
        error = await first_error(mariadb.replace("root@", f"{user}@"))
        assert isinstance(error, StoreReadOnlyError)
        assert "grant" in str(error)
    finally:
        await ask(mariadb, f"DROP USER {user}")


async def test_with_verify_nothing_is_made_and_the_script_makes_it(mariadb: str) -> None:
    error = await first_error(mariadb, SchemaPolicy.VERIFY)
    assert isinstance(error, StoreSchemaError)
    assert await ask(mariadb, "SHOW TABLES") == []
    for _ in range(2):
        await server.execute(mariadb, f"USE {mariadb.rpartition('/')[2]}", *error.ddl.rstrip().rstrip(";").split(";\n"))
    assert len(await ask(mariadb, "SHOW TABLES")) == 9


async def test_a_newer_schema_is_refused(mariadb: str) -> None:
    store = open_store(mariadb)
    await store.create(new_session())
    await store.aclose()
    await ask(mariadb, "INSERT INTO lw_schema (version, created_at) VALUES (99, 0)")
    error = await first_error(mariadb)
    assert isinstance(error, StoreSchemaError)
    assert "99" in str(error)


async def test_several_stores_may_open_an_empty_database_at_once(mariadb: str) -> None:
    stores = [open_store(mariadb) for _ in range(6)]
    await asyncio.gather(*[store.create(new_session(f"s{n}")) for n, store in enumerate(stores)])
    assert len(await ask(mariadb, "SHOW TABLES")) == 9
    await asyncio.gather(*[store.aclose() for store in stores])


async def test_text_that_the_server_would_take_for_other_text_stays_apart(mariadb: str) -> None:
    """Case, accents, spaces at the end, four-byte characters, what text columns do not take, and long ids."""
    names = [
        "a",
        "A",
        "á",
        "a ",
        "a  ",
        " a",
        "😀",
        "😁",
        "a\\",
        "a'",
        "a\x00b\ud800c\x1ad\x1a0000",
        "x" * 200,
        "😀" * 200,
    ]
    store = open_store(mariadb)
    for name in names:
        await store.create(new_session(name, title=name))
        await store.enqueue(name, item(name))
    for name in names:
        found = await store.lookup(name, item_id=name)
        assert (found.head.session_id, found.head.title, found.waiting[0].item_id) == (name, name, name)
    await store.aclose()


async def test_a_record_larger_than_the_server_takes_is_refused_and_the_store_goes_on(mariadb: str) -> None:
    store = open_store(mariadb)
    writer = await begin(store)
    huge = EncodedRecord("fact", 1, 1.0, b"'" * 9_000_000)
    with pytest.raises(StoreError, match="max_allowed_packet"):
        await store.commit(writer.transition(records=(huge,)))
    assert (await writer.write()).position == 3
    await store.aclose()


async def test_due_timers_are_found_by_their_time_and_not_by_looking_at_every_session(mariadb: str) -> None:
    store = open_store(mariadb)
    await store.create(new_session("s0"))
    await store.aclose()
    await ask(
        mariadb,
        "INSERT INTO lw_sessions (session_id, position, min_format, agent_name, kind, lifecycle, title, updated_at,"
        " created_at) SELECT concat('s', seq), 0, 1, 'agent', 'agent', 'linked', '', 0, 0 FROM seq_1_to_2000",
    )
    timers = "SELECT s.`key`, concat('t', n.seq), n.seq, '' FROM lw_sessions AS s JOIN seq_1_to_5 AS n"
    await ask(mariadb, f"INSERT INTO lw_timers (`key`, timer_id, due_at, body) {timers}")
    await ask(mariadb, "ANALYZE TABLE lw_sessions, lw_timers")
    due = filled(MysqlStatements().DUE, (["agent"], 9.0, 1, 50)).decode()
    first = (await ask(mariadb, f"EXPLAIN {due}"))[0]
    assert "lw_timers_due" in first, "the server looks at every session first"
    assert "filesort" not in str(first[-1]), "the server sorts all that is due"


def test_the_oldest_servers_are_refused_and_their_names_told_apart() -> None:
    dialect = MysqlDialect("mysql://localhost/db")
    for version in ("8.0.36", "9.1.0-commercial", "10.6.0-MariaDB", "5.5.5-10.11.19-MariaDB-log", "11.4.2-MariaDB"):
        dialect._check(version, synced=True)
    for version in ("5.7.44-log", "10.5.9-MariaDB", "5.5.5-10.4.1-MariaDB"):
        with pytest.raises(ConfigError, match="or newer"):
            dialect._check(version, synced=True)


def test_values_are_written_as_the_server_reads_them() -> None:
    assert filled("SELECT $2, $1, $2", [1, "a'b\\"]) == b"SELECT 'a\\'b\\\\', 1, 'a\\'b\\\\'"
    assert filled("x IN $1[] OR $2? OR $3?", [[1, 2], None, "a"]) == b"x IN (1, 2) OR 0 OR 1"
    assert filled("x IN $1[]", [[]]) == b"x IN (NULL)"
    assert filled("($1|$2)", [[1, 2], ["a", "b"]]) == b"(SELECT 1 AS a, 'a' AS b UNION ALL SELECT 2 AS a, 'b' AS b)"
    assert [literal(value) for value in (None, 0.1, 1e300, b"\x00'")] == [
        b"NULL",
        b"0.1e0",
        b"1e+300",
        b"_binary'\x00\\''",
    ]
    for value in (math.nan, math.inf, object()):
        with pytest.raises(UsageError):
            literal(value)


def test_many_rows_are_one_insert_or_many_statements_of_bounded_size() -> None:
    assert list(filled_many("INSERT INTO t VALUES ($1)", [[1], [2]])) == [b"INSERT INTO t VALUES (1), (2)"]
    assert list(filled_many("UPDATE t SET a = $1", [[1], [2]])) == [b"UPDATE t SET a = 1;\nUPDATE t SET a = 2"]
    assert [len(text) for text in filled_many("INSERT INTO t VALUES ($1)", [[b"x" * 600_000]] * 3)] == [600_032] * 3


def test_without_its_driver_a_server_is_an_error_that_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['asyncmy'] = None\n"
        "from loopwright import open_store\n"
        "try: open_store('mysql://localhost/db')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith(ConfigError.__name__)
    assert "loopwright[mysql]" in said
