"""The stores that are measured, and the private servers behind two of them.

Owns: where each store is, how it is opened, and how its waits are counted. Must not know: what is measured.
Read next: `wire.py` for the counting, `commits.py` for a figure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from tests.servers import plugin
from tests.servers.choice import NoServerError
from tests.servers.client import ServerHandle, own, shared

from loopwright.ports.store import Durability
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.dsn import open_store
from loopwright.stores.sqlite import SqliteStore

from .wire import CountingVfs, RoundTrips

__all__ = ["Contestant", "NoServerError", "contestants"]

TITLES = {"postgres": "PostgreSQL", "mariadb": "MariaDB"}


Counted = tuple[SessionStore, Callable[[], int]]


class Contestant(Protocol):
    """One store, as it may be chosen by a DSN and a durability."""

    name: str
    grows: bool
    """Whether the cost of a larger database is asked of it."""

    def open(self, place: str, durability: Durability | None = None) -> SessionStore:
        """The database of this name, empty at first; without a durability its own."""
        ...

    def counted(self) -> AbstractAsyncContextManager[Counted]:
        """A store on a database of its own, and how often it has waited so far: for the disk, or for the server."""
        ...


class Memory:
    name = "memory"
    grows = True

    def open(self, place: str, durability: Durability | None = None) -> SessionStore:
        return open_store(f"memory:bench-{place}")

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[Counted]:
        yield self.open("counted"), lambda: 0


class Sqlite:
    def __init__(self, folder: Path, durability: Durability) -> None:
        self.name = f"SQLite {durability}"
        self.grows = durability == "barrier"
        self._folder = folder
        self._durability: Durability = durability

    def open(self, place: str, durability: Durability | None = None) -> SessionStore:
        return open_store(self._path(place), durability=durability or self._durability)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[Counted]:
        vfs = CountingVfs()
        store = SqliteStore(self._path("counted"), durability=self._durability, vfs=vfs.vfs_name)
        try:
            yield store, lambda: vfs.count
        finally:
            await store.aclose()

    def _path(self, place: str) -> Path:
        return self._folder / f"stores-{self._durability}-{place}.db"


class OnServer:
    grows = True

    def __init__(self, server: ServerHandle, running: ExitStack) -> None:
        """Databases are dropped when `running` ends: the server may be somebody else's."""
        self.name = TITLES[server.kind]
        self._new_database = lambda: running.enter_context(server.database())
        self._databases: dict[str, str] = {}

    def open(self, place: str, durability: Durability | None = None) -> SessionStore:
        if place not in self._databases:
            self._databases[place] = self._new_database()
        return open_store(self._databases[place], durability=durability or "barrier")

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[Counted]:
        parts = urlsplit(self._new_database())
        assert parts.hostname is not None
        assert parts.port is not None
        trips = RoundTrips(parts.hostname, parts.port)
        async with trips.relayed() as port:
            account = parts.netloc.rpartition("@")[0]
            relayed = urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{port}"))
            store = open_store(relayed)
            try:
                yield store, lambda: trips.count
            finally:
                await store.aclose()


@contextmanager
def contestants(folder: Path, *, embedded: bool, durable: bool) -> Iterator[list[Contestant]]:
    """Every store; servers are started now and are gone at the end. They sync to the disk where it is to be `durable`.

    Raises `NoServerError`, which says what to do, when a server is neither installed nor given by address.
    """
    levels: list[Durability] = ["relaxed", "barrier", "full"]
    ours: list[Contestant] = [Memory(), *[Sqlite(folder, level) for level in levels]]
    if embedded:
        yield ours
        return
    with plugin.kept_servers() as choices, ExitStack() as running:
        for kind, choice in choices.items():
            handle = running.enter_context(own(kind, durable=durable)) if choice.programs else shared(kind)
            ours.append(OnServer(handle, running))
        yield ours
