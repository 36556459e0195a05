"""What administrators set for everybody: it changes nothing, or a typed error names it, and on it goes when it is changed."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.stores.fault_stage import error_of, first_error, tables
from tests.servers.asking import ask, changed, name_of
from tests.servers.client import ServerHandle
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop, open_store
from loopwright.model.errors import StoreError, StoreSchemaError, StoreUnavailableError, UsageError
from loopwright.ports.store import EncodedRecord
from loopwright.testing.store_kit import begin, head_of, item, new_session, texts

OF_POSTGRES = [
    "default_transaction_isolation = 'serializable'",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_deferrable = on",
    "timezone = 'Pacific/Kiritimati'",
    "datestyle = 'German, DMY'",
    "intervalstyle = 'sql_standard'",
    "standard_conforming_strings = off",
    "transform_null_equals = on",
    "bytea_output = 'escape'",
    "extra_float_digits = -10",
    "client_encoding = 'LATIN1'",
    "lock_timeout = 1",
]
OF_MARIADB = [
    "tx_isolation = 'SERIALIZABLE'",
    "tx_isolation = 'READ-UNCOMMITTED'",
    "time_zone = '-11:00'",
    "sql_mode = ''",
    "sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "sql_mode = 'ORACLE'",
    "sql_select_limit = 1",
    "sql_safe_updates = 1",
    "sql_auto_is_null = 1",
    "max_join_size = 1",
    "autocommit = 0",
    "completion_type = 'CHAIN'",
    "completion_type = 'RELEASE'",
    "collation_server = 'latin1_swedish_ci'",
    "default_storage_engine = 'MyISAM'",
    "init_connect = 'SET sql_mode = \"\"'",
]


async def works(dsn: str) -> None:
    """Writers at once, an inbox, odd bytes, a whole conversation."""
    store = open_store(dsn)
    writers = [await begin(store, f"s{n}") for n in range(4)]
    await asyncio.gather(*[writer.write(3) for writer in writers for _ in range(1)])
    body = bytes(range(256)) + "'\\\"ü😀".encode()
    await store.commit(writers[0].transition(records=(EncodedRecord("fact", 1, 1700000000.123456, body),)))
    (*_, last) = await store.read("s0")
    assert (last.body, last.at) == (body, 1700000000.123456)
    assert [len(await texts(store, writer.session_id)) for writer in writers] == [6, 5, 5, 5]
    await store.enqueue("s1", item("später 😀"))
    assert (await store.lookup("s1", item_id="später 😀")).waiting[0].item_id == "später 😀"
    assert 0 < (await head_of(store, "s1")).expires_in_s < 60
    async with StatefulAgentLoop(llm="echo:", store=store) as loop:
        session_id = (await loop.send("one")).session_id
        await loop.follow_up("two", session_id=session_id)
        assert (await loop.send("three", session_id=session_id)).status == "completed"
    assert list(await store.check()) == []
    await store.aclose()


@pytest.mark.parametrize("setting", OF_POSTGRES)
async def test_settings_of_a_postgres_database_change_nothing(postgres: str, setting: str) -> None:
    await ask(postgres, f"ALTER DATABASE {name_of(postgres)} SET {setting}")
    await works(postgres)


async def test_settings_of_a_mariadb_server_change_nothing(own_mariadb: ServerHandle) -> None:
    for setting in OF_MARIADB:
        dsn = own_mariadb.new_database()
        name = setting.partition(" ")[0]
        ((before,),) = await ask(dsn, f"SELECT @@global.{name}")
        await ask(
            dsn,
            "CREATE USER IF NOT EXISTS tenant",
            "GRANT ALL ON *.* TO tenant",
            "REVOKE SUPER ON *.* FROM tenant",
            f"SET GLOBAL {setting}",
        )
        try:
            await works(changed(dsn, user="tenant"))
        except BaseException as error:
            error.add_note(setting)
            raise
        finally:
            back = repr(before) if isinstance(before, str) else before
            await ask(dsn, "SET SESSION sql_select_limit = DEFAULT", f"SET GLOBAL {name} = {back}")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_postgres_database_that_cannot_hold_every_text_is_refused_untouched(
    postgres: str, encoding: str
) -> None:
    name = f"{name_of(postgres)}_odd"
    await ask(
        postgres, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE_PROVIDER libc LOCALE 'C'"
    )
    try:
        error = await first_error(changed(postgres, database=name))
        assert isinstance(error, StoreSchemaError)
        assert encoding in str(error)
        assert "UTF8" in str(error)
        assert await tables(changed(postgres, database=name)) == []
    finally:
        await ask(postgres, f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_mariadb_database_of_another_character_set_holds_every_text(mariadb: str) -> None:
    await ask(mariadb, f"ALTER DATABASE {name_of(mariadb)} CHARACTER SET latin1")
    await works(mariadb)


async def test_connections_cut_for_being_idle_are_made_again_unseen(own_either: ServerHandle) -> None:
    dsn = own_either.new_database()
    if own_either.kind == "postgres":
        await ask(dsn, f"ALTER DATABASE {name_of(dsn)} SET idle_session_timeout = 100")
        alive = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'loopwright'"
    else:
        await ask(dsn, "SET GLOBAL wait_timeout = 1")
        alive = f"SELECT 1 FROM information_schema.processlist WHERE db = '{name_of(dsn)}' AND id <> CONNECTION_ID()"
    store = open_store(dsn)
    writer = await begin(store)
    for n in range(3, 5):
        assert len(await texts(store)) == writer.position
        async with asyncio.timeout(10):
            while await ask(dsn, alive):
                await next_turn(0.02)
        assert (await writer.write()).position == n
    assert list(await store.check()) == []
    await store.aclose()


async def test_a_limit_on_the_time_of_statements_is_a_retryable_error_that_names_it(own_either: ServerHandle) -> None:
    dsn = own_either.new_database()
    is_postgres = own_either.kind == "postgres"
    store = open_store(dsn)
    await begin(store)
    await store.aclose()
    if is_postgres:
        await ask(dsn, f"ALTER DATABASE {name_of(dsn)} SET statement_timeout = 50")
        held = ["SET statement_timeout = 0", "BEGIN", "SELECT 1 FROM lw_sessions FOR UPDATE", "SELECT pg_sleep(60)"]
    else:
        await ask(dsn, "SET GLOBAL max_statement_time = 0.05")
        held = ["SET max_statement_time = 0", "BEGIN", "SELECT 1 FROM lw_sessions FOR UPDATE", "SELECT SLEEP(60)"]
    holding = asyncio.ensure_future(ask(dsn, *held))
    waiting = open_store(dsn, busy_wait_s=0.5)
    async with asyncio.timeout(10):
        error = None
        while error is None:
            try:
                await waiting.enqueue("s", item(f"i{len(await texts(waiting))}"))
                await next_turn(0.02)
            except StoreUnavailableError as told:
                error = told
    assert "timeout" in str(error) or "max_statement_time" in str(error)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await waiting.aclose()


async def test_a_small_packet_bounds_one_record_and_not_what_is_sent_together(own_mariadb: ServerHandle) -> None:
    dsn = own_mariadb.new_database()
    await ask(dsn, "SET GLOBAL max_allowed_packet = 65536")
    store = open_store(dsn)
    writer = await begin(store)
    many = tuple(EncodedRecord("fact", 1, 1.0, b"x" * 20_000) for _ in range(20))
    writer.committed = await store.commit(writer.transition(records=many))
    large = EncodedRecord("fact", 1, 1.0, b"x" * 100_000)
    error = await error_of(store.commit(writer.transition(records=(large,))))
    assert isinstance(error, StoreError)
    assert "max_allowed_packet" in str(error)
    assert (await writer.write()).position == 23
    await ask(dsn, "SET GLOBAL max_allowed_packet = 1048576")
    assert isinstance(
        await error_of(store.commit(writer.transition(records=(EncodedRecord("fact", 1, 1.0, b"x" * 2_000_000),)))),
        StoreError,
    )
    assert (await store.commit(writer.transition(records=(large,)))).position == 24
    assert len(await store.read("s")) == 24
    await store.aclose()


async def test_an_id_that_an_index_cannot_hold_is_a_fault_of_the_call(either: str) -> None:
    store = open_store(either)
    scattered = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(5000))
    error = await error_of(store.create(new_session(scattered)))
    assert isinstance(error, UsageError), repr(error)
    await store.create(new_session())
    assert list(await store.check()) == []
    await store.aclose()
