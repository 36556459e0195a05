"""Servers in pytest: chosen once before the first test, shared by all workers, gone with the run.

Owns: the option `--embedded`, the marker `server`, and the fixtures. Must not know: how a server is run.

`postgres`, `mariadb`: the address of an empty database of this test's own, on the shared server.
`either`: such an address on PostgreSQL, then on MariaDB.
`own_postgres`, `own_mariadb`: a server of this test's own, to be stopped, restarted and killed.
`own_either`: such a server, PostgreSQL, then MariaDB.
A test that asks for a server in another way (`client.shared`) carries the marker `server`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from . import client
from .choice import NEEDS, Choice, NoServerError, choose

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = {"postgres", "mariadb", "either", "own_postgres", "own_mariadb", "own_either"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--embedded", action="store_true", help="leave out the tests that need PostgreSQL or MariaDB")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "server: needs PostgreSQL or MariaDB; left out with --embedded")
    is_worker = hasattr(config, "workerinput")
    if config.option.embedded or is_worker or config.option.collectonly or client.VARIABLE in os.environ:
        return
    running = ExitStack()
    try:
        running.enter_context(kept_servers())
    except NoServerError as error:
        raise pytest.UsageError(str(error)) from None
    config.add_cleanup(running.close)


@contextmanager
def kept_servers() -> Iterator[Mapping[str, Choice]]:
    """Where servers come from, chosen now; inside, `client` starts and reaches them, and afterwards all are gone.

    Raises `NoServerError`.
    """
    choices = {kind: choose(need, os.environ) for kind, need in NEEDS.items()}
    programs = {kind: str(choice.programs) for kind, choice in choices.items() if choice.programs}
    given = {kind: choice.address for kind, choice in choices.items() if choice.address}
    folder = Path(tempfile.mkdtemp(prefix="loopwright-servers-"))
    folder.chmod(0o711)  # a server that runs as another user has to get through
    keeper = start_keeper(folder, programs)
    os.environ[client.VARIABLE] = json.dumps({"socket": str(folder / "socket"), "given": given})
    try:
        yield choices
    finally:
        stop_keeper(keeper)


def start_keeper(folder: Path, programs: dict[str, str]) -> subprocess.Popen[bytes]:
    """The keeper in a session of its own, so that an interrupt from the keyboard does not reach it before its owner."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.keeper", str(folder), json.dumps(programs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    if keeper.stdout.readline() != b"ready\n":
        raise pytest.UsageError("the process that keeps the servers did not start")
    return keeper


def stop_keeper(keeper: subprocess.Popen[bytes]) -> None:
    """Ends the keeper, and with it every server, and waits for that."""
    os.environ.pop(client.VARIABLE, None)
    for pipe in (keeper.stdin, keeper.stdout):
        assert pipe is not None
        pipe.close()
    keeper.wait(30)


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.embedded:
        return "servers: left out (--embedded)"
    if client.VARIABLE not in os.environ:
        return "servers: none"
    given = json.loads(os.environ[client.VARIABLE])["given"]
    return f"servers: our own, except those given by address: {', '.join(given) or 'none'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("server")
    if config.option.embedded:
        left_out = [item for item in items if item.get_closest_marker("server")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def postgres_server() -> client.ServerHandle:
    return client.shared("postgres")


@pytest.fixture(scope="session")
def mariadb_server() -> client.ServerHandle:
    return client.shared("mariadb")


@pytest.fixture
def postgres(postgres_server: client.ServerHandle) -> Iterator[str]:
    with postgres_server.database() as dsn:
        yield dsn


@pytest.fixture
def mariadb(mariadb_server: client.ServerHandle) -> Iterator[str]:
    with mariadb_server.database() as dsn:
        yield dsn


@pytest.fixture(params=["postgres", "mariadb"])
def either(request: pytest.FixtureRequest) -> Iterator[str]:
    with client.shared(request.param).database() as dsn:
        yield dsn


def _own(kind: str) -> Iterator[client.ServerHandle]:
    try:
        with client.own(kind) as server:
            yield server
    except client.NotOursError as error:
        pytest.skip(str(error))


@pytest.fixture
def own_postgres() -> Iterator[client.ServerHandle]:
    yield from _own("postgres")


@pytest.fixture
def own_mariadb() -> Iterator[client.ServerHandle]:
    yield from _own("mariadb")


@pytest.fixture(params=["postgres", "mariadb"])
def own_either(request: pytest.FixtureRequest) -> Iterator[client.ServerHandle]:
    yield from _own(request.param)
