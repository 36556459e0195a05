"""The stores that we ship keep every promise of the suite that we ship."""

from __future__ import annotations

from pathlib import Path

from loopwright.ports.store import Durability
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_suite import ForkingStoreSuite


class TestMemoryStore(ForkingStoreSuite):
    def make_store(self, place: Path) -> SessionStore:
        return MemoryStore(str(place))


class TestSqliteStore(ForkingStoreSuite):
    durability: Durability = "barrier"

    def make_store(self, place: Path) -> SessionStore:
        return SqliteStore(place / "store.db", durability=self.durability)


class TestRelaxedSqliteStore(TestSqliteStore):
    durability = "relaxed"


class TestFullSqliteStore(TestSqliteStore):
    durability = "full"
