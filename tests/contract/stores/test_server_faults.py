"""Servers that go away, refuse, or are the wrong ones: typed errors, and nothing lost or half-written."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.contract.stores.fault_stage import are_whole, busy, first_error, tables
from tests.contract.stores.server_cuts import cut_all
from tests.servers.asking import ask, changed, name_of
from tests.servers.client import ServerHandle
from tests.waiting import next_turn

from loopwright import open_store
from loopwright.model.errors import (
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
)
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.testing.store_kit import begin, head_of, item, new_session, raises

WRITERS = 6
COMMITS = 60


async def test_writers_whose_connections_are_cut_lose_nothing_and_say_nothing_twice(either: str) -> None:
    store = open_store(either)
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*[busy(writer, COMMITS) for writer in writers])
    cuts, written = 0, 0
    while not working.done():
        if (now := sum(writer.position for writer in writers)) > written + WRITERS:  # let them get somewhere
            await cut_all(either)
            cuts, written = cuts + 1, now
        await next_turn()
    await working
    assert cuts >= 3
    await are_whole(writers, COMMITS)
    assert list(await store.check()) == []
    await store.aclose()


@pytest.mark.kill
async def test_a_run_of_commits_survives_a_server_that_is_killed_and_started_again(own_either: ServerHandle) -> None:
    store = open_store(own_either.new_database())
    writers = [await begin(store, f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*[busy(writer, COMMITS) for writer in writers])
    await asyncio.to_thread(own_either.restart, abrupt=True)
    await working
    await are_whole(writers, COMMITS)
    await store.aclose()


async def test_a_server_that_stays_away_is_a_retryable_error_and_the_store_goes_on_when_it_is_back(
    own_either: ServerHandle,
) -> None:
    store = open_store(own_either.new_database(), busy_wait_s=0.3)
    writer = await begin(store)
    await asyncio.to_thread(own_either.stop)
    for call in (writer.write, lambda: head_of(store), lambda: store.enqueue("s", item())):
        with raises(StoreUnavailableError):
            await call()
    await asyncio.to_thread(own_either.start)
    assert (await head_of(store)).position == 2
    assert (await writer.write()).position == 3
    await store.aclose()


async def test_with_verify_nothing_is_made_and_the_script_makes_it(either: str) -> None:
    error = await first_error(either, SchemaPolicy.VERIFY)
    assert isinstance(error, StoreSchemaError)
    assert await tables(either) == []
    for _ in range(2):
        await ask(either, *error.ddl.rstrip().rstrip(";").split(";\n"))
    assert len(await tables(either)) == 16
    store = open_store(either, schema=SchemaPolicy.VERIFY)
    await store.create(new_session())
    await store.aclose()


async def test_a_newer_schema_is_refused(either: str) -> None:
    store = open_store(either)
    await store.create(new_session())
    await store.aclose()
    await ask(either, "INSERT INTO lw_schema (version, created_at) VALUES (99, 0)")
    error = await first_error(either)
    assert isinstance(error, StoreSchemaError)
    assert "99" in str(error)


async def test_several_stores_may_open_an_empty_database_at_once(either: str) -> None:
    stores = [open_store(either) for _ in range(6)]
    await asyncio.gather(*[store.create(new_session(f"s{n}")) for n, store in enumerate(stores)])
    assert len(await tables(either)) == 16
    await asyncio.gather(*[store.aclose() for store in stores])


async def test_a_database_that_only_reads_and_a_user_without_rights_are_told_apart_from_damage(postgres: str) -> None:
    user = f"poor_{name_of(postgres)[-8:]}"
    await ask(postgres, f"CREATE ROLE {user} LOGIN", f"REVOKE ALL ON SCHEMA public FROM PUBLIC, {user}")
    try:
        error = await first_error(changed(postgres, user=user))
        assert isinstance(error, StoreReadOnlyError | StoreSchemaError)
        store = open_store(postgres)
        await store.create(new_session("made by its owner"))
        await store.aclose()
        await ask(postgres, f"GRANT USAGE ON SCHEMA public TO {user}")
        error = await first_error(changed(postgres, user=user))
        assert isinstance(error, StoreReadOnlyError)
        assert "grant" in str(error)
        await ask(postgres, f"ALTER DATABASE {name_of(postgres)} SET default_transaction_read_only = on")
        assert isinstance(await first_error(postgres), StoreReadOnlyError)
    finally:
        await ask(postgres, "SET default_transaction_read_only = off", f"DROP OWNED BY {user}", f"DROP ROLE {user}")


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


WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
from loopwright import open_store
try: open_store(sys.argv[2])
except Exception as error: print(error.code, error)
"""


@pytest.mark.parametrize(
    "driver, scheme, extra",
    [
        ("asyncpg", "postgresql", "postgres"),
        ("asyncpg", "postgres", "postgres"),
        ("asyncmy", "mysql", "mysql"),
        ("asyncmy", "mariadb", "mysql"),
    ],
)
def test_without_its_driver_a_server_is_an_error_that_names_the_extra(driver: str, scheme: str, extra: str) -> None:
    words = [sys.executable, "-c", WITHOUT, driver, f"{scheme}://somebody:secret@localhost/db"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said.startswith("config.invalid")
    assert f"pip install 'loopwright[{extra}]'" in said
    assert "secret" not in said
