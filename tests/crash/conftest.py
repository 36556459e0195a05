"""Where the files of crash tests are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where the system has one: a stopped process loses nothing that was written, synced or not."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="loopwright-", dir=shared if shared.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)
