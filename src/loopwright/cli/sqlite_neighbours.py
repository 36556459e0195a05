"""Other SQLite libraries that touch the same file.

Owns: which versions can lose committed data, and who has the file open. Must not know: sessions.
SQLite 3.7.0 to 3.51.2 can lose or damage committed data when two connections commit and checkpoint at the same moment
(the WAL-reset bug, sqlite.org/wal.html, 2026). The library that loopwright brings is newer; other programs may not be.
Read next: `checkup.py`.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

FIRST_SAFE: Final = (3, 51, 3)


class Neighbour(Struct, frozen=True):
    """Another process that has the database open."""

    pid: int
    program: str
    version: str | None
    """Of its SQLite, where it can be told."""

    @property
    def old(self) -> bool:
        """True when its SQLite is known to be one that can lose data."""
        return self.version is not None and is_old(self.version)


def is_old(version: str) -> bool:
    """True for versions with the WAL-reset bug."""
    return tuple(int(part) for part in version.split(".") if part.isdigit()) < FIRST_SAFE


def own_version() -> str:
    """Of the SQLite that loopwright uses."""
    return apsw.sqlite_lib_version()


def standard_version() -> str:
    """Of this Python's own `sqlite3` module."""
    return sqlite3.sqlite_version


def neighbours_of(path: Path, proc: Path = Path("/proc")) -> list[Neighbour]:
    """Processes that have the file open, as far as the system lets us see (Linux, our own processes)."""
    try:
        wanted = {(s.st_dev, s.st_ino) for s in (path.stat(),)}
        numbers = [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    found = [n for n in numbers if n != os.getpid() and _has_open(proc / str(n) / "fd", wanted)]
    return [Neighbour(n, _program(proc / str(n)), _version_in(proc / str(n))) for n in sorted(found)]


def _has_open(folder: Path, wanted: set[tuple[int, int]]) -> bool:
    try:
        for entry in folder.iterdir():
            status = entry.stat()
            if (status.st_dev, status.st_ino) in wanted:
                return True
    except OSError:
        return False
    return False


def _program(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").split()
    except OSError:
        return "?"
    return " ".join(words[:3])


def _version_in(process: Path) -> str | None:
    """The version of the SQLite library that the process has loaded; None when it is built in or cannot be seen."""
    try:
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    if "apsw" in maps:
        return None  # it brings its own SQLite; another one beside it may be for something else
    places = {line.split(maxsplit=5)[5] for line in maps.splitlines() if "libsqlite3" in line}
    for place in sorted(places):
        try:
            library = ctypes.CDLL(place)
            library.sqlite3_libversion.restype = ctypes.c_char_p
            return str(library.sqlite3_libversion().decode("ascii"))
        except (OSError, AttributeError):
            continue
    return None
