"""Where the tests' servers come from: installed programs, else apt-get as root, else an address that was given.

Owns: the order of the choice and what is said when there is none. Must not know: how a server is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

APT_S = 600


class Need(NamedTuple):
    """What a kind of server needs, and under which name its address may be given."""

    title: str
    program: str
    """The program that tells where the others are."""
    folders: tuple[str, ...]
    """Where it may be beside PATH; the newest version comes last."""
    packages: tuple[str, ...]
    variable: str


class Choice(NamedTuple):
    """Either the folder of the programs, for servers of our own, or the address of a server that somebody else runs."""

    programs: Path | None
    address: str | None


class NoServerError(Exception):
    """There is no server of a kind; the text says what to do."""


NEEDS: Mapping[str, Need] = {
    "postgres": Need(
        "PostgreSQL",
        "initdb",
        ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin"),
        ("postgresql",),
        "LOOPWRIGHT_TEST_PG_DSN",
    ),
    "mariadb": Need(
        "MariaDB",
        "mariadb-install-db",
        ("/usr/bin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/bin", "/usr/local/mysql/scripts"),
        ("mariadb-server-core", "mariadb-client-core"),
        "LOOPWRIGHT_TEST_MYSQL_DSN",
    ),
}


def _version(folder: Path) -> list[int]:
    return [int(part) for part in "".join(c if c.isdigit() else " " for c in str(folder)).split()]


def installed(need: Need) -> Path | None:
    """The folder of the newest installed programs."""
    found = [path for folder in need.folders for path in Path("/").glob(folder.lstrip("/"))]
    for folder in sorted(found, key=_version, reverse=True):
        if (folder / need.program).exists() and _complete(need, folder):
            return folder
    on_path = shutil.which(need.program)
    if on_path is None:
        return None
    folder = Path(on_path).resolve().parent
    return folder if _complete(need, folder) else None


def _complete(need: Need, folder: Path) -> bool:
    if need.program == "initdb":
        return (folder / "postgres").exists()
    server = any((place / "mariadbd").exists() for place in (folder, folder.parent / "sbin"))
    return server and shutil.which("my_print_defaults", path=f"{folder}:{os.environ.get('PATH', '')}") is not None


def install(need: Need) -> str:
    """Installs the packages where we may; the reason why not, empty when it worked."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get here"
    if os.getuid() != 0:
        return "only root may install it"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *need.packages]):
        command = ["apt-get", "-qq", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=APT_S)
        if done.returncode:
            return f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}"
    return ""


def choose(need: Need, environ: Mapping[str, str], install: Callable[[Need], str] = install) -> Choice:
    """The server for one need; raises `NoServerError` when there is none and none can be had."""
    programs = installed(need)
    if programs is not None:
        return Choice(programs, None)
    reason = install(need)
    programs = installed(need)
    if programs is not None:
        return Choice(programs, None)
    if environ.get(need.variable):
        return Choice(None, environ[need.variable])
    raise NoServerError(
        f"The tests need {need.title}, which is not installed, and {reason or 'its programs were not found afterwards'}. "
        f"Install it (Debian and Ubuntu: sudo apt-get install {' '.join(need.packages)}), or name a server of yours "
        f"in {need.variable}, or leave servers out with ./dev test --embedded."
    )
