"""Rights, space and places of a running server that go away and come back: the same loop object goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.contract.stores.fault_stage import error_of, first_error, goes_on, tables, written
from tests.servers import client
from tests.servers.asking import ask, changed, name_of
from tests.servers.choice import NEEDS, installed
from tests.servers.client import ServerHandle
from tests.servers.postgres import Standby

from loopwright import open_store
from loopwright.model.errors import (
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
)
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.testing.store_kit import begin, head_of, new_session

USER = "tenant"


async def tenant(server: ServerHandle, *, create: bool = True) -> tuple[str, str]:
    """The administrator's address of a database, and that of a user who may use it as our pages say."""
    admin = server.new_database()
    name = name_of(admin)
    if server.kind == "postgres":
        rights = "CREATE, USAGE" if create else "USAGE"
        await ask(admin, f"CREATE ROLE {USER} LOGIN", f"GRANT {rights} ON SCHEMA public TO {USER}")
    else:
        rights = "SELECT, INSERT, UPDATE, DELETE" + (", CREATE" if create else "")
        await ask(admin, f"CREATE USER {USER}", f"GRANT {rights} ON {name}.* TO {USER}")
    return admin, changed(admin, user=USER)


async def owned_by_the_administrator(server: ServerHandle) -> tuple[str, str]:
    """Tables of the administrator, on each of which the user has each right by itself."""
    admin = server.new_database()
    store = open_store(admin)
    await store.create(new_session("made by its owner"))
    await store.aclose()
    who = f"ROLE {USER} LOGIN" if server.kind == "postgres" else f"USER {USER}"
    await ask(admin, f"CREATE {who}", *[f"GRANT {RIGHTS} ON {table} TO {USER}" for table in await tables(admin)])
    return admin, changed(admin, user=USER)


RIGHTS = "SELECT, INSERT, UPDATE, DELETE"


@pytest.mark.parametrize(
    "right, table", [("INSERT", "lw_records"), ("SELECT", "lw_sessions"), ("UPDATE", "lw_sessions")]
)
async def test_a_right_on_one_table_that_goes_in_mid_run(own_either: ServerHandle, right: str, table: str) -> None:
    admin, dsn = await owned_by_the_administrator(own_either)

    async def spoil() -> None:
        await ask(admin, f"REVOKE {right} ON {table} FROM {USER}")

    async def mend() -> None:
        await ask(admin, f"GRANT {RIGHTS} ON {table} TO {USER}")

    await goes_on(dsn, spoil, mend, StoreReadOnlyError, admin=admin, words="grant")


async def test_a_reader_without_the_right_is_told_so_and_reads_when_it_is_given(own_either: ServerHandle) -> None:
    admin, dsn = await owned_by_the_administrator(own_either)
    await ask(admin, f"REVOKE SELECT ON lw_records FROM {USER}")
    store = open_store(dsn)
    error = await error_of(store.read("made by its owner"))
    assert isinstance(error, StoreReadOnlyError)
    assert "lw_records" in str(error)
    await ask(admin, f"GRANT SELECT ON lw_records TO {USER}")
    assert len(await store.read("made by its owner")) == 1
    await store.aclose()


async def test_a_user_who_may_not_create_is_told_so_and_what_others_make_is_enough(own_either: ServerHandle) -> None:
    admin, dsn = await tenant(own_either, create=False)
    store = open_store(dsn, busy_wait_s=0.3)
    error = await error_of(store.create(new_session()))
    assert isinstance(error, StoreReadOnlyError)
    assert "DDL" in str(error)
    assert await tables(admin) == []
    maker = open_store(admin)
    await maker.create(new_session("of the maker"))
    if own_either.kind == "postgres":
        await ask(admin, *[f"GRANT {RIGHTS} ON {table} TO {USER}" for table in await tables(admin)])
    await store.create(new_session())
    assert (await head_of(maker)).position == 1
    for one in (maker, store):
        await one.aclose()
    checked = open_store(dsn, schema=SchemaPolicy.VERIFY)
    assert list(await checked.check()) == []
    await checked.aclose()


async def test_a_role_that_may_not_use_the_schema(own_postgres: ServerHandle) -> None:
    admin, dsn = await owned_by_the_administrator(own_postgres)

    async def spoil() -> None:
        await ask(admin, f"REVOKE USAGE ON SCHEMA public FROM PUBLIC, {USER}")

    async def mend() -> None:
        await ask(admin, f"GRANT USAGE ON SCHEMA public TO {USER}")

    await goes_on(dsn, spoil, mend, StoreSchemaError, admin=admin)
    await spoil()
    assert isinstance(await first_error(dsn), StoreReadOnlyError | StoreSchemaError)


async def test_a_script_that_was_run_in_part_is_finished_by_the_next_opening(own_either: ServerHandle) -> None:
    admin, dsn = await tenant(own_either)
    script = open_store(dsn).ddl().rstrip().rstrip(";").split(";\n")
    await ask(dsn, *script[:4])
    error = await first_error(dsn, SchemaPolicy.VERIFY)
    assert isinstance(error, StoreSchemaError)
    assert "lw_timers" in error.ddl
    store = open_store(dsn)
    writer = await begin(store)
    assert (await writer.write()).position == 3
    assert len(await tables(admin)) == 16
    await store.aclose()


async def test_a_table_that_is_dropped_in_mid_run_is_named_with_the_script(own_either: ServerHandle) -> None:
    dsn = own_either.new_database()

    async def spoil() -> None:
        await ask(dsn, "ALTER TABLE lw_records RENAME TO kept_records")

    async def mend() -> None:
        await ask(dsn, "ALTER TABLE kept_records RENAME TO lw_records")

    await goes_on(dsn, spoil, mend, StoreSchemaError, words="lw_records")


async def test_a_server_that_was_made_to_read_only(own_either: ServerHandle) -> None:
    admin, dsn = await tenant(own_either)
    name = name_of(dsn)

    async def set_to(value: str) -> None:
        if own_either.kind == "mariadb":
            await ask(admin, f"SET GLOBAL read_only = {value}")
            return
        await ask(
            changed(admin, database="postgres"),
            f"ALTER DATABASE {name} SET default_transaction_read_only = {value}",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'",
        )

    await goes_on(dsn, lambda: set_to("on"), lambda: set_to("off"), StoreReadOnlyError, admin=admin, words="primary")


async def test_a_user_with_too_few_connections_goes_on_when_there_are_some(own_either: ServerHandle) -> None:
    admin, dsn = await tenant(own_either)
    limit = (
        "ALTER ROLE {} CONNECTION LIMIT {}"
        if own_either.kind == "postgres"
        else "ALTER USER {} WITH MAX_USER_CONNECTIONS {}"
    )
    await ask(admin, limit.format(USER, 1))
    first = open_store(dsn)
    await first.create(new_session())
    second = open_store(dsn, busy_wait_s=0.3)
    error = await error_of(second.create(new_session("other")))
    assert isinstance(error, StoreUnavailableError)
    assert "connection" in str(error)
    await ask(admin, limit.format(USER, 10))
    await second.create(new_session("other"))
    for one in (first, second):
        await one.aclose()
    assert await written(admin) == (2, 2)


async def test_a_server_that_is_shutting_down_or_starting_is_waited_for(own_postgres: ServerHandle) -> None:
    """While somebody is connected, a server told to end in peace answers that it takes nobody new."""
    dsn = own_postgres.new_database()
    first, late = open_store(dsn), open_store(dsn, busy_wait_s=0.3)
    await first.create(new_session())
    assert own_postgres.pid is not None
    os.kill(own_postgres.pid, signal.SIGTERM)
    error = await error_of(late.create(new_session("late")))
    assert isinstance(error, StoreUnavailableError), error
    await first.aclose()
    patient = open_store(dsn, busy_wait_s=20.0)
    coming = asyncio.ensure_future(patient.create(new_session("patient")))
    await asyncio.to_thread(own_postgres.restart)
    await coming
    await late.create(new_session("late"))
    assert await written(dsn) == (3, 3)
    for one in (late, patient):
        await one.aclose()


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """A database with a session in it: its address on the primary server, and on a hot standby of it."""
    programs = installed(NEEDS["postgres"])
    if programs is None:
        pytest.skip("a server was given by address")
    with client.own("postgres", durable=True) as primary, tempfile.TemporaryDirectory(prefix="loopwright-") as folder:
        os.chmod(folder, 0o711)  # the standby runs as another user
        dsn = primary.new_database()
        asyncio.run(one_session(dsn))
        standby = Standby(programs, Path(folder) / "standby", primary.dsn("postgres"))
        standby.start()
        try:
            yield dsn, changed(dsn, port=standby.port)
        finally:
            standby.kill()


async def one_session(dsn: str) -> None:
    store = open_store(dsn)
    await store.create(new_session())
    await store.aclose()


@pytest.mark.server
async def test_a_standby_is_read_and_refuses_writes_until_it_is_the_primary(pair: tuple[str, str]) -> None:
    primary, standby = pair
    store = open_store(standby, busy_wait_s=0.3)
    assert (await head_of(store)).position == 1
    error = await error_of(store.create(new_session("other")))
    assert isinstance(error, StoreReadOnlyError), error
    assert "primary" in str(error)
    empty = await first_error(changed(standby, query="prefix=none_"))
    assert isinstance(empty, StoreReadOnlyError)
    both = urlsplit(primary)._replace(
        netloc=f"{urlsplit(standby).netloc},{urlsplit(primary).hostname}:{urlsplit(primary).port}",
        query="target_session_attrs=read-write",
    )
    chosen = open_store(both.geturl())
    await chosen.create(new_session("of the primary"))
    await chosen.aclose()
    assert await written(primary) == (2, 2)
    await ask(standby, "SELECT pg_promote()")
    await store.create(new_session("other"))
    assert (await head_of(store, "other")).position == 1
    await store.aclose()
