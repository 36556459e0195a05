"""The store suite's place on a server: a database for each folder that a test was given."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from loopwright.ports.store import Durability
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.dsn import open_store

from . import client


class ServerPlace:
    """For a subclass of `StoreSuite`: `make_store` and `place` on the shared server of one kind.

    A folder stands for a database of its own, dropped with the folder.
    """

    kind: str
    durability: Durability = "barrier"
    _databases: dict[Path, str]

    def make_store(self, place: Path) -> SessionStore:
        return open_store((place / "dsn").read_text(), durability=self.durability)

    def reopen(self, place: Path) -> SessionStore:
        return self.make_store(place)

    @contextmanager
    def place(self) -> Generator[Path, None, None]:
        with tempfile.TemporaryDirectory() as folder, client.shared(self.kind).database() as dsn:
            path = Path(folder)
            (path / "dsn").write_text(dsn)
            yield path


def server_maker(kind: str) -> Callable[[Path], SessionStore]:
    """For `store_machine`, whose places are folders too: one database a place, made at its first use."""
    made: dict[Path, str] = {}

    def make(place: Path) -> SessionStore:
        if place not in made:
            made[place] = client.shared(kind).new_database()
        return open_store(made[place], durability="relaxed")

    return make
