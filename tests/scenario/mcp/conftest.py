"""One kind of store is enough here: what servers do does not depend on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.scenario.conftest import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(f"sqlite:///{tmp_path / 'sessions.db'}")
    yield made
    await made.close()
