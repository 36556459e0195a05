"""What a test says to the servers: an address with a fresh database, or a server of its own to stop and kill.

The calls block for milliseconds, the first one of a run for about a second; `restart` and `kill` too, so that a test
that has to go on meanwhile calls them through `asyncio.to_thread`.
Read next: `keeper.py`, the process that answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from .asking import ask

VARIABLE = "LOOPWRIGHT_TEST_SERVERS"
"""Set for the whole run: the keeper's socket, and the address of each server that somebody else runs."""
ASK_S = 100.0
_VERSIONS: dict[str, int] = {}
"""Address of a PostgreSQL server → its version, as a number; asked once a process."""


class NotOursError(Exception):
    """The server was given by address: it cannot be stopped or killed, and there is no second one."""


def _setup() -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(os.environ[VARIABLE])
    except KeyError:
        raise RuntimeError(
            "no servers in this run: mark the test with `server` so that --embedded leaves it out"
        ) from None
    return found


def _ask(**request: Any) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ASK_S)
        connection.connect(_setup()["socket"])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def blocking(work: Coroutine[Any, Any, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Runs a coroutine to its end, also where an event loop is running already."""
    failed: list[BaseException] = []
    found: list[tuple[Any, ...]] = []

    def run() -> None:
        try:
            found.extend(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found


class ServerHandle:
    """One server, as a test sees it."""

    def __init__(self, kind: str, key: str, dsn: str, *, ours: bool) -> None:
        self.kind = kind
        self.pid: int | None = None
        self._key = key
        self._dsn = dsn
        self.is_ours = ours

    def dsn(self, database: str) -> str:
        """The address of a database on it."""
        return self._dsn.replace("/NAME", f"/{database}")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of an empty database, dropped at the end if the server is still there."""
        dsn = self.new_database()
        try:
            yield dsn
        finally:
            if self.pid is not None or not self.is_ours:
                force = " WITH (FORCE)" if self.kind == "postgres" else ""
                self._administer(f"DROP DATABASE {dsn.rpartition('/')[2]}{force}")

    def new_database(self) -> str:
        """The address of an empty database that stays until the server goes."""
        name = f"test_{uuid4().hex[:16]}"
        self._administer(f"CREATE DATABASE {name}{self._copied()}")
        return self.dsn(name)

    def start(self) -> None:
        """Starts it; nothing happens when it runs."""
        self._tell("start")

    def stop(self) -> None:
        """Stops it in order: open connections are ended, everything is written."""
        self._tell("stop")

    def kill(self) -> None:
        """Ends all its processes at once."""
        self._tell("kill")

    def restart(self, *, abrupt: bool = False, settings: Sequence[str] = ()) -> None:
        """Stops (or kills) it and starts it again: same port, same data; other `settings` where some are given."""
        self._tell("restart", abrupt=abrupt, settings=list(settings))

    def drop(self) -> None:
        """Kills it and removes its data."""
        self._tell("drop")

    def _copied(self) -> str:
        """How a new database is made: from 15 on PostgreSQL would write it whole into its log, which takes it longer."""
        if self.kind != "postgres":
            return ""
        if self._dsn not in _VERSIONS:
            _VERSIONS[self._dsn] = int(self._administer("SHOW server_version_num")[0][0])
        return " TEMPLATE template0" + (" STRATEGY FILE_COPY" if _VERSIONS[self._dsn] >= 150_000 else "")

    def _administer(self, statement: str) -> list[tuple[Any, ...]]:
        return blocking(ask(self.dsn("postgres" if self.kind == "postgres" else ""), statement))

    def _tell(self, wish: str, **more: object) -> None:
        if not self.is_ours:
            raise NotOursError(f"{self.kind} was given by address")
        answer = _ask(wish=wish, key=self._key, kind=self.kind, **more)
        self.pid, self._dsn = answer["pid"], answer["dsn"]


def shared(kind: str) -> ServerHandle:
    """The server that all tests of the run share; it must not be stopped. Kinds: "postgres", "mariadb"."""
    given = _setup()["given"].get(kind)
    if given is not None:
        return ServerHandle(kind, kind, given.rstrip("/").rpartition("/")[0] + "/NAME", ours=False)
    handle = ServerHandle(kind, kind, "", ours=True)
    handle.start()
    return handle


@contextmanager
def own(kind: str, *, durable: bool = False, settings: Sequence[str] = ()) -> Iterator[ServerHandle]:
    """A server for one test alone, which may be stopped and killed."""
    if kind in _setup()["given"]:
        raise NotOursError(f"{kind} was given by address: this test needs a server that it may kill")
    handle = ServerHandle(kind, f"{kind}-{uuid4().hex}", "", ours=True)
    handle._tell("start", durable=durable, settings=list(settings))
    try:
        yield handle
    finally:
        handle.drop()
