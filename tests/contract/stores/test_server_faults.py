"""Servers that go away, refuse, or are the wrong ones: typed errors, and nothing lost or half-written."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import asyncpg
from tests.contract.stores.server_cuts import cut_all
from tests.servers.client import ServerHandle
from tests.waiting import next_turn

from loopwright import open_store
from loopwright.model.errors import (
    ConfigError,
    LoopwrightError,
    StoreError,
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
)
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.testing.store_kit import Writer, begin, head_of, item, new_session, raises, texts

WRITERS = 6
COMMITS = 100


async def busy(writer: Writer) -> None:
    for _ in range(COMMITS):
        await writer.write(2, sync=True)


async def test_writers_whose_connections_are_cut_lose_nothing_and_say_nothing_twice(postgres: str) -> None:
    store = open_store(postgres)
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*map(busy, writers))
    cuts, written = 0, 0
    while not working.done():
        if (now := sum(writer.position for writer in writers)) > written + WRITERS:  # let them get somewhere
            await cut_all(postgres)
            cuts, written = cuts + 1, now
        await next_turn()
    await working
    assert cuts >= 3
    for writer in writers:
        assert len(await texts(store, writer.session_id)) == writer.position == 2 + 2 * COMMITS
    assert list(await store.check()) == []
    await store.aclose()


async def test_a_run_of_commits_survives_a_server_that_is_killed_and_started_again(own_postgres: ServerHandle) -> None:
    store = open_store(own_postgres.dsn("postgres"))
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*map(busy, writers))
    await asyncio.to_thread(own_postgres.restart, abrupt=True)
    await working
    for writer in writers:
        assert len(await texts(store, writer.session_id)) == writer.position == 2 + 2 * COMMITS
    await store.aclose()


async def test_a_server_that_stays_away_is_a_retryable_error_and_the_store_goes_on_when_it_is_back(
    own_postgres: ServerHandle,
) -> None:
    store = open_store(own_postgres.dsn("postgres"), busy_wait_s=0.3)
    writer = await begin(store)
    await asyncio.to_thread(own_postgres.stop)
    for call in (writer.write, lambda: head_of(store), lambda: store.enqueue("s", item())):
        with raises(StoreUnavailableError):
            await call()
    await asyncio.to_thread(own_postgres.start)
    assert (await head_of(store)).position == 2
    assert (await writer.write()).position == 3
    await store.aclose()


def with_part(dsn: str, *, user: str = "", database: str = "", query: str = "") -> str:
    address, _, name = dsn.rpartition("/")
    if user:
        address = f"postgresql://{user}@{address.rpartition('@')[2].removeprefix('postgresql://')}"
    return f"{address}/{database or name}{'?' + query if query else ''}"


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


async def tables(dsn: str) -> list[str]:
    admin = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await admin.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE 'lw%'")]
    finally:
        await admin.close()


async def test_wrong_addresses_say_what_is_wrong(postgres: str) -> None:
    assert isinstance(await first_error(with_part(postgres, database="nowhere")), StoreSchemaError)
    assert isinstance(await first_error("postgresql://nobody@127.0.0.1:1/db"), StoreUnavailableError)
    assert isinstance(await first_error(with_part(postgres, user="nobody_of_that_name")), StoreError)


async def test_a_server_that_only_reads_and_a_user_without_rights_are_told_apart_from_damage(postgres: str) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("CREATE ROLE poor LOGIN")
    try:
        await admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC, poor")
        assert isinstance(await first_error(with_part(postgres, user="poor")), StoreReadOnlyError | StoreSchemaError)
        store = open_store(postgres)
        await store.create(new_session("made by its owner"))
        await store.aclose()
        await admin.execute("GRANT USAGE ON SCHEMA public TO poor")
        error = await first_error(with_part(postgres, user="poor"))
        assert isinstance(error, StoreReadOnlyError)
        assert "grant" in str(error)
        await admin.execute("ALTER DATABASE " + postgres.rpartition("/")[2] + " SET default_transaction_read_only = on")
        assert isinstance(await first_error(postgres), StoreReadOnlyError)
    finally:
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute("DROP OWNED BY poor; DROP ROLE poor")
        await admin.close()


async def test_with_verify_nothing_is_made_and_the_script_in_the_error_makes_it(postgres: str) -> None:
    error = await first_error(postgres, SchemaPolicy.VERIFY)
    assert isinstance(error, StoreSchemaError)
    assert "CREATE TABLE" in error.ddl
    assert await tables(postgres) == []
    admin = await asyncpg.connect(postgres)
    await admin.execute(error.ddl)
    await admin.close()
    store = open_store(postgres, schema=SchemaPolicy.VERIFY)
    await store.create(new_session())
    await store.aclose()


async def test_a_newer_schema_is_refused_and_untouched(postgres: str) -> None:
    store = open_store(postgres)
    await store.create(new_session())
    await store.aclose()
    admin = await asyncpg.connect(postgres)
    await admin.execute("INSERT INTO lw_schema VALUES (99, 0)")
    await admin.close()
    error = await first_error(postgres)
    assert isinstance(error, StoreSchemaError)
    assert "99" in str(error)


async def test_several_processes_may_open_an_empty_database_at_once(postgres: str) -> None:
    stores = [open_store(postgres) for _ in range(6)]
    await asyncio.gather(*[store.create(new_session(f"s{n}")) for n, store in enumerate(stores)])
    assert len(await tables(postgres)) == 9
    await asyncio.gather(*[store.aclose() for store in stores])


async def test_text_that_no_server_takes_comes_back_as_it_was(postgres: str) -> None:
    store = open_store(postgres)
    odd = "a\x00b\ud800c\x1ad\x1a0000"
    await store.create(new_session(odd, title=odd))
    await store.enqueue(odd, item(odd))
    found = await store.lookup(odd, item_id=odd)
    assert (found.head.session_id, found.head.title, found.waiting[0].item_id) == (odd, odd, odd)
    await store.aclose()


async def test_two_prefixes_are_two_stores(postgres: str) -> None:
    one, other = open_store(postgres), open_store(f"{postgres}?prefix=other_")
    assert one.identity != other.identity
    await one.create(new_session())
    await other.create(new_session())
    await one.aclose()
    await other.aclose()


def test_without_its_driver_a_server_is_an_error_that_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from loopwright import open_store\n"
        "try: open_store('postgresql://localhost/db')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith(ConfigError.__name__)
    assert "loopwright[postgres]" in said
