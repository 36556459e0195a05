"""Addresses that lead nowhere, to the wrong place or past the guard: typed errors in bounded time, never with a password."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.contract.stores.fault_stage import first_error, tables
from tests.servers.asking import ask, changed, name_of
from tests.servers.client import ServerHandle

from loopwright.model.errors import (
    ConfigError,
    StoreError,
    StoreSchemaError,
    StoreUnavailableError,
)
from loopwright.stores.dsn import open_store
from loopwright.stores.server_address import server_address

SECRET = "hunter2"
BOUND_S = 20.0
"""One limit of a connection and what a slow machine adds: nothing that answers may hold a call for longer where nobody waits for it."""

MALFORMED = [
    "{}://u:hunter2/rest@host/db",
    "{}://u:hunter2#rest@host/db",
    "{}://u:hunter2?rest@host/db",
    "{}://u:hunter2 rest@host/db",
    "{}://u:hunter2\x00@host/db",
    "{}://u:hunter2@host:port/db",
    "{}://u:hunter2@host:99999/db",
    "{}://u:hunter2@host:0/db",
    "{}://u:hunter2@[::1/db",
    "{}://u:hunter2@host:1:2/db",
    "{}://u:hunter2@host",
    "{}://u:hunter2@host/",
    "{}://u:hunter2@host/db/table",
    "{}://u:hunter2@host/db?prefix=No-Name",
    "{}://u:hunter2@host/db#part",
    "{}:/u:hunter2@host/db",
    "{}:u:hunter2@host/db",
]


def all_words(error: BaseException) -> str:
    """The whole report of an error, with what it came from."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb"])
@pytest.mark.parametrize("dsn", MALFORMED)
def test_a_malformed_address_is_refused_without_showing_its_password(dsn: str, scheme: str) -> None:
    with pytest.raises(ConfigError) as told:
        open_store(dsn.format(scheme))
    # Not the traceback: it shows lines of source, and the innermost may show the test's own.
    assert SECRET not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__context__ is None or told.value.__suppress_context__


@pytest.mark.parametrize(
    "dsn",
    [
        "postgre://u:hunter2@host/db",
        "user:hunter2@host/db",
        "mysql://u:u@host/db?password=hunter2",
        "mysql://u:hunter2@one,two/db",
        "postgresql://u:hunter2@host/db?sslrootcert=/nowhere.crt",
        "postgresql://u:hunter2@host/db?schema=no-name",
        "mysql://u:hunter2@host/db?ssl=perhaps",
    ],
)
def test_an_address_that_cannot_be_meant_says_what_can_without_its_password(dsn: str) -> None:
    with pytest.raises(ConfigError) as told:
        open_store(dsn)
    assert SECRET not in str(told.value)


def test_an_address_is_read_as_it_was_written() -> None:
    found = server_address("postgresql://a%40b:p%2F%3A%23@one:1,[::1]:2,three/d%20b?x=1&y=")
    assert (found.user, found.password, found.database) == ("a@b", "p/:#", "d b")
    assert found.places == (("one", 1), ("::1", 2), ("three", 0))
    assert found.query == {"x": "1", "y": ""}
    assert found.shown("localhost", 9) == "one:1,[::1]:2,three:9"
    bare = server_address("mysql:///db")
    assert (bare.user, bare.password, bare.places, bare.shown("here", 9)) == ("", "", (("", 0),), "here:9")
    assert server_address("mysql://u:a:b@h@host/db").places == (("host", 0),), "the last @ counts"


async def test_each_wrong_part_of_an_address_is_told_apart(either: str) -> None:
    unresolved = changed(either, host="no-such-host.invalid")
    for dsn, kind, words in (
        (unresolved, StoreUnavailableError, "no-such-host"),
        (changed(either, port=1), StoreUnavailableError, ":1/"),
        (changed(either, user="nobody_here"), StoreError, "refuses this user"),
        (changed(either, database="nowhere"), StoreSchemaError, "create it first"),
    ):
        error = await first_error(dsn)
        assert type(error) is kind, error
        assert words in str(error)


@contextmanager
def password_of_its_own(server: ServerHandle, dsn: str) -> Iterator[str]:
    """A user who has to give a password."""
    user = "locked_in"
    if server.kind == "postgres":
        asyncio.run(ask(dsn, f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}'"))
        data = Path(asyncio.run(ask(dsn, "SHOW data_directory"))[0][0])
        rules = data / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        asyncio.run(ask(dsn, f"ALTER DATABASE {name_of(dsn)} OWNER TO {user}", "SELECT pg_reload_conf()"))
    else:
        asyncio.run(ask(dsn, f"CREATE USER {user} IDENTIFIED BY '{SECRET}'", f"GRANT ALL ON *.* TO {user}"))
    yield changed(dsn, user=user, password=SECRET)


def test_a_password_counts_and_stands_in_no_error_and_no_log(
    own_either: ServerHandle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with password_of_its_own(own_either, own_either.new_database()) as right:
        wrong = (
            changed(right, user="locked_in", password=f"{SECRET}-but-wrong"),
            changed(right, user="locked_in"),
            changed(right, user="nobody_here", password=SECRET),
            changed(right, user="locked_in", password=SECRET, database="nowhere"),
            changed(right, user="locked_in", password=SECRET, port=1),
        )
        errors = [asyncio.run(first_error(dsn)) for dsn in wrong]
        assert type(errors[0]) is StoreError
        assert all(SECRET not in all_words(error) for error in errors)
        assert SECRET not in caplog.text
        asyncio.run(opens(right))
        store = open_store(right)
        assert SECRET not in store.identity
        assert SECRET not in repr(store)


async def opens(dsn: str) -> None:
    store = open_store(dsn)
    assert list(await store.check()) == []
    await store.aclose()


@asynccontextmanager
async def listener(answers: Sequence[bytes], *, closes: bool) -> AsyncIterator[int]:
    """Something that is no database: says the first answer at once, then one for each thing it hears."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for n, answer in enumerate(answers):
                if n and not await reader.read(4096):
                    break
                writer.write(answer)
                await writer.drain()
            while not closes and await reader.read(4096):
                pass
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


MYSQL_GREETING = b"\x0a5.5.5-10.11.6-MariaDB\x00\x01\x00\x00\x00abcdefgh\x00\xff\xff\x08\x02\x00\xff\xff\x15"
STRANGERS = {
    "silence": ([b""], False),
    "a closed door": ([b""], True),
    "ssh": ([b"SSH-2.0-OpenSSH_9.6\r\n"], False),
    "http": ([b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"], True),
    "zeros": ([b"\x00" * 100], False),
    "ones": ([b"\xff" * 5000], False),
}
OF_MYSQL = {
    "half a greeting": ([b"\x4a\x00\x00\x00" + MYSQL_GREETING], False),
    "a short greeting": ([b"\x03\x00\x00\x00\x0a5\x00"], False),
    "a greeting and goodbye": ([len(MYSQL_GREETING).to_bytes(3, "little") + b"\x00" + MYSQL_GREETING, b""], True),
}
OF_POSTGRES = {
    "no tls and rubbish": ([b"", b"N", b"Z" * 60], False),
    "no tls and half a welcome": ([b"", b"N", b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00"], False),
    "an unknown way to log in": ([b"", b"N", b"R\x00\x00\x00\x08\x00\x00\x00\x63"], False),
    "tls promised and never begun": ([b"", b"S"], False),
}


async def meets(scheme: str, answers: Sequence[bytes], *, closes: bool) -> list[str]:
    """What is wrong with the error that this listener leads to."""
    async with listener(answers, closes=closes) as port, asyncio.timeout(BOUND_S):
        error = await first_error(f"{scheme}://somebody:{SECRET}@127.0.0.1:{port}/db", busy_wait_s=0.1)
    wrong = [] if isinstance(error, StoreError | StoreUnavailableError) else [repr(error)]
    wrong += [] if str(port) in str(error) else [f"does not say where: {error}"]
    return wrong + ([f"shows the password: {error}"] if SECRET in all_words(error) else [])


@pytest.mark.parametrize(
    "scheme, more", [("postgresql", OF_POSTGRES), ("mysql", OF_MYSQL)], ids=["postgresql", "mysql"]
)
async def test_what_is_no_database_server_is_a_typed_error_in_bounded_time(
    scheme: str, more: dict[str, tuple[list[bytes], bool]]
) -> None:
    """All at once: many of them are waited for as long as a connection may take."""
    strangers = STRANGERS | more
    met = [meets(scheme, answers, closes=closes) for answers, closes in strangers.values()]
    wrong = dict(zip(strangers, await asyncio.gather(*met), strict=True))
    assert {name: found for name, found in wrong.items() if found} == {}


async def test_the_other_kind_of_server_is_a_typed_error_in_bounded_time(postgres: str, mariadb: str) -> None:
    async def misled(dsn: str, port: int | None) -> BaseException:
        async with asyncio.timeout(BOUND_S):
            return await first_error(changed(dsn, port=port or 0), busy_wait_s=0.1)

    errors = await asyncio.gather(misled(postgres, urlsplit(mariadb).port), misled(mariadb, urlsplit(postgres).port))
    assert [type(error) for error in errors if not isinstance(error, StoreError | StoreUnavailableError)] == []


async def test_settings_of_tls_that_cannot_work_say_so_at_once(postgres: str, mariadb: str) -> None:
    """Both servers speak no TLS."""
    for dsn, kind, words in (
        (changed(postgres, query="sslmode=require"), StoreError, "speaks no TLS"),
        (changed(postgres, query="sslmode=often"), ConfigError, "sslmode"),
        (changed(postgres, query="ssl=true"), StoreError, "sslmode=require"),
        (changed(postgres, query="no_such_setting=1"), StoreError, "no_such_setting"),
        (changed(mariadb, query="ssl=true"), StoreError, "TLS"),
        (changed(mariadb, query="sslmode=require"), ConfigError, "sslmode"),
    ):
        error = await first_error(dsn, busy_wait_s=30.0)
        assert type(error) is kind, error
        assert words in str(error)
    assert await tables(postgres) == await tables(mariadb) == []


def self_signed(folder: Path) -> tuple[Path, Path]:
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=elsewhere", "-days", "2"]
    key, certificate = folder / "server.key", folder / "server.crt"
    subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


def test_a_certificate_that_is_not_the_servers_is_refused_at_once(own_postgres: ServerHandle, tmp_path: Path) -> None:
    dsn = own_postgres.new_database()
    data = Path(asyncio.run(ask(dsn, "SHOW data_directory"))[0][0])
    owner = data.stat()
    key, certificate = self_signed(tmp_path)
    for path in (key, certificate):
        placed = data / path.name
        placed.write_bytes(path.read_bytes())
        placed.chmod(0o600)
        os.chown(placed, owner.st_uid, owner.st_gid)
    asyncio.run(ask(dsn, "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"))
    query = f"sslmode=verify-full&sslrootcert={certificate}"
    error = asyncio.run(first_error(changed(dsn, query=query), busy_wait_s=30.0))
    assert type(error) is StoreError, error
    assert "certificate" in str(error)
    asyncio.run(opens(changed(dsn, query=query.replace("verify-full", "verify-ca"))))
