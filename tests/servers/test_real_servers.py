"""The servers of the tests are there, can be stopped and killed, keep what was written, and leave nothing behind."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import asyncmy
import pytest
from tests.quick_files import is_fit

from . import client
from .asking import ask
from .choice import NEEDS, Choice, Need, NoServerError, choose, installed
from .client import ServerHandle
from .plugin import ROOT

FACTS = "CREATE TABLE facts (n INTEGER PRIMARY KEY)", "INSERT INTO facts VALUES (7)"


async def test_postgres_answers(postgres: str) -> None:
    assert await ask(postgres, "SELECT 1") == [(1,)]


async def test_mariadb_answers(mariadb: str) -> None:
    assert await ask(mariadb, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_has_an_empty_database(postgres: str, mariadb: str, turn: int) -> None:
    for dsn in (postgres, mariadb):
        await ask(dsn, *FACTS)


@pytest.mark.parametrize("abrupt", [False, True])
async def test_postgres_comes_back_with_its_data(own_postgres: ServerHandle, abrupt: bool) -> None:
    await comes_back(own_postgres, own_postgres.dsn("postgres"), abrupt)


@pytest.mark.parametrize("abrupt", [False, True])
async def test_mariadb_comes_back_with_its_data(own_mariadb: ServerHandle, abrupt: bool) -> None:
    await comes_back(own_mariadb, own_mariadb.dsn("mysql"), abrupt)


async def comes_back(server: ServerHandle, dsn: str, abrupt: bool) -> None:
    await ask(dsn, *FACTS)
    before = server.pid
    server.restart(abrupt=abrupt)
    assert server.pid != before
    assert await ask(dsn, "SELECT n FROM facts") == [(7,)]


@pytest.mark.kill
async def test_a_killed_server_refuses_until_it_is_started(
    own_postgres: ServerHandle, own_mariadb: ServerHandle
) -> None:
    for server, dsn in ((own_postgres, own_postgres.dsn("postgres")), (own_mariadb, own_mariadb.dsn("mysql"))):
        server.kill()
        with pytest.raises((OSError, asyncmy.errors.OperationalError)):
            await ask(dsn, "SELECT 1")
        server.start()
        assert await ask(dsn, "SELECT 1") == [(1,)]


RUN = """
    import json, os, pathlib, sys, tempfile
    from tests.servers import client, plugin
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loopwright-servers-"))
    folder.chmod(0o711)
    keeper = plugin.start_keeper(folder, json.loads(sys.argv[1]))
    os.environ[client.VARIABLE] = json.dumps({"socket": str(folder / "socket"), "given": {}})
    servers = [client.shared("postgres"), client.shared("mariadb")]
    print(json.dumps([str(folder), keeper.pid, *(server.pid for server in servers)]), flush=True)
    sys.stdin.read()
"""


def ended(pid: int, within_s: float = 20.0) -> bool:
    """Waits for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


@pytest.mark.server
@pytest.mark.kill
@pytest.mark.skipif(sys.platform != "linux", reason="watches foreign processes through pidfd, which is Linux's")
@pytest.mark.parametrize("victim", ["run", "keeper"])
def test_no_server_outlives_a_killed_run(victim: str) -> None:
    programs = {kind: str(installed(need)) for kind, need in NEEDS.items()}
    if "None" in programs.values():
        pytest.skip("a server was given by address")
    environment = {name: value for name, value in os.environ.items() if name != client.VARIABLE}
    command = [sys.executable, "-c", textwrap.dedent(RUN), json.dumps(programs)]
    run = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout is not None
    folder, keeper, *servers = json.loads(run.stdout.readline())
    os.kill(run.pid if victim == "run" else keeper, signal.SIGKILL)
    for pid in (keeper, *servers):
        assert ended(pid)
    run.kill()
    run.communicate()
    if victim == "run":
        assert not Path(folder).exists()
    shutil.rmtree(folder, ignore_errors=True)


MISSING = NEEDS["postgres"]._replace(program="no-such-program", packages=("no-such-package",))


def refuse(need: Need) -> str:
    return "only root may install it"


def test_an_address_is_taken_where_nothing_is_installed_and_nothing_can_be() -> None:
    address = "postgresql://somebody@localhost/tests"
    assert choose(MISSING, {MISSING.variable: address}, refuse) == Choice(None, address)


def test_without_any_server_the_choice_says_what_to_do() -> None:
    with pytest.raises(NoServerError) as told:
        choose(MISSING, {}, refuse)
    for words in ("only root", "no-such-package", MISSING.variable, "--embedded"):
        assert words in str(told.value)


def test_what_is_installed_is_preferred_to_an_address() -> None:
    need = NEEDS["postgres"]
    if installed(need) is None:
        pytest.skip("a server was given by address")
    found = choose(need, {need.variable: "postgresql://somebody@localhost/tests"}, refuse)
    assert found == Choice(installed(need), None)


ASKING = "from tests.servers.choice import NEEDS, install; print(install(NEEDS['postgres']))"
"""In a process of its own, whose PATH has our apt-get: nothing is installed on the machine."""


def installing(folder: Path, script: str | None) -> tuple[str, list[str]]:
    """What `install` says where apt-get is this script, and how the script was called."""
    asked = folder / "asked"
    asked.touch()
    if script is not None:
        program = folder / "apt-get"
        program.write_text(f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {asked}\n{script}\n')
        program.chmod(0o755)
    path = str(folder) if script is None else f"{folder}:/usr/bin:/bin"
    command = [sys.executable, "-c", ASKING]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=True)
    return done.stdout.strip(), asked.read_text().splitlines()


@pytest.mark.skipif(os.getuid() != 0, reason="only root is let through to apt-get")
def test_root_asks_apt_get_for_the_lists_and_then_for_the_packages_and_nothing_more(tmp_path: Path) -> None:
    said, asked = installing(tmp_path, "exit 0")
    assert said == ""
    assert asked == [
        "noninteractive -qq update",
        "noninteractive -qq install -y --no-install-recommends postgresql",
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="only root is let through to apt-get")
def test_what_apt_get_complains_about_is_told_and_nothing_is_installed_after_it(tmp_path: Path) -> None:
    said, asked = installing(tmp_path, "echo no network >&2; exit 100")
    assert said == "`apt-get -qq update` failed: no network"
    assert len(asked) == 1


def test_a_machine_without_apt_get_is_told_so(tmp_path: Path) -> None:
    assert installing(tmp_path, None) == ("there is no apt-get here", [])


def test_files_of_a_run_go_to_memory_only_where_there_is_room_for_them(tmp_path: Path) -> None:
    assert is_fit(tmp_path, room=1)
    assert not is_fit(tmp_path, room=2**60)
    assert not is_fit(tmp_path / "none", room=1)
