"""An application with a table of orders beside its sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.application import KINDS, Application, application
from tests.scenario.conftest import Stage


@pytest.fixture(params=KINDS)
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Application]:
    with application(request.param, tmp_path) as made:
        await made.ask("CREATE TABLE orders (id VARCHAR(40) NOT NULL PRIMARY KEY, n INTEGER NOT NULL)")
        yield made


@pytest.fixture
async def stage(app: Application) -> AsyncIterator[Stage]:
    stage = Stage(app.dsn)
    yield stage
    await stage.close()
