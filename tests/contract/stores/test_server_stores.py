"""The stores on servers keep every promise of the suite, and random calls end on them as on the model."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from tests.servers.stores import ServerPlace, server_maker

from loopwright.ports.store import Durability
from loopwright.testing.store_machine import store_machine
from loopwright.testing.store_suite import StoreSuite


@pytest.mark.server
class TestPostgresStore(ServerPlace, StoreSuite):
    kind = "postgres"


@pytest.mark.server
class TestMariaDbStore(ServerPlace, StoreSuite):
    kind = "mariadb"


@pytest.mark.server
class TestRelaxedMariaDbStore(TestMariaDbStore):
    durability: Durability = "relaxed"


RANDOM = settings(
    database=None, max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

TestPostgresIsTheModel = pytest.mark.server(store_machine(server_maker("postgres")).TestCase)
TestPostgresIsTheModel.settings = RANDOM

TestMariaDbIsTheModel = pytest.mark.server(store_machine(server_maker("mariadb")).TestCase)
TestMariaDbIsTheModel.settings = RANDOM
