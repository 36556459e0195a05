"""An encrypted store keeps every promise of the store that it wraps."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from tests.contract.stores.sealing import sealed
from tests.contract.stores.test_server_suite import ServerSuite

from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_machine import store_machine
from loopwright.testing.store_suite import ForkingStoreSuite


class TestEncryptedMemoryStore(ForkingStoreSuite):
    adds_bytes: ClassVar[bool] = True
    fork_chain: ClassVar[int] = 150

    def make_store(self, place: Path) -> SessionStore:
        return sealed(MemoryStore(str(place)))


class TestEncryptedSqliteStore(ForkingStoreSuite):
    adds_bytes: ClassVar[bool] = True
    fork_chain: ClassVar[int] = 150

    def make_store(self, place: Path) -> SessionStore:
        return sealed(SqliteStore(place / "store.db"))


class EncryptedServerSuite(ServerSuite):
    adds_bytes: ClassVar[bool] = True
    fork_chain: ClassVar[int] = 150

    def make_store(self, place: Path) -> SessionStore:
        return sealed(super().make_store(place))


@pytest.mark.server
class TestEncryptedPostgres(EncryptedServerSuite):
    kind = "postgres"


@pytest.mark.server
class TestEncryptedMariaDb(EncryptedServerSuite):
    kind = "mariadb"


def test_random_sequences_are_answered_as_in_memory() -> None:
    machine = store_machine(lambda place: sealed(SqliteStore(place / "store.db")))
    case = machine.TestCase()
    case.settings = settings(case.settings, max_examples=20, stateful_step_count=25, deadline=None)
    case.runTest()
