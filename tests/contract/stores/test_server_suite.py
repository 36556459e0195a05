"""The promises of a store, kept by database servers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from tests.servers import client
from tests.servers.one_database import emptied

from loopwright import open_store
from loopwright.ports.store_admin import SessionStore
from loopwright.testing.store_machine import store_machine
from loopwright.testing.store_suite import ForkingStoreSuite, WholeStoreSuite

pytestmark = pytest.mark.server


RUNS = itertools.count(1)
IN_USE: set[str] = set()
"""Kinds of servers whose one database a test has now; if it wants a second one, that is another one."""


@functools.cache
def one_database(kind: str) -> Callable[[int], str]:
    """An empty database for each number, which is the same one."""
    return emptied(client.shared(kind).new_database())


class ServerSuite(WholeStoreSuite):
    """An empty database for each test; on a server of our own they share one, so that its tables are made once."""

    kind: ClassVar[str]

    @contextmanager
    def place(self) -> Generator[Path, None, None]:
        with ExitStack() as stack:
            server = client.shared(self.kind)
            if self.kind in IN_USE or not server.is_ours:
                dsn = stack.enter_context(server.database())
            else:
                IN_USE.add(self.kind)
                stack.callback(IN_USE.remove, self.kind)
                dsn = one_database(self.kind)(next(RUNS))
            yield Path(dsn.replace("/", "|"))

    def make_store(self, place: Path) -> SessionStore:
        return open_store(str(place).replace("|", "/"))


class TestPostgres(ServerSuite, ForkingStoreSuite):
    kind = "postgres"


class TestMariaDb(ServerSuite, ForkingStoreSuite):
    kind = "mariadb"


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_random_sequences_are_answered_as_in_memory(kind: str) -> None:
    with client.shared(kind).database() as dsn:

        def opened(place: Path) -> SessionStore:
            # The machine names a new place for each run: here that is a table prefix.
            return open_store(f"{dsn}?prefix=m{abs(hash(place)) % 10**9}_")

        machine = store_machine(opened)
        case = machine.TestCase()
        case.settings = settings(case.settings, max_examples=10, stateful_step_count=25, deadline=None)
        case.runTest()
