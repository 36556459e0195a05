"""Random sequences of calls from several clients end the same on the SQLite store and on the model."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_machine import store_machine

TestSqliteIsTheModel = store_machine(lambda place: SqliteStore(place / "store.db", durability="relaxed")).TestCase
TestSqliteIsTheModel.settings = settings(
    database=None, max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
