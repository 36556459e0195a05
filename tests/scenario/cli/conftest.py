"""A command line with the offline model behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine
from tests.scenario.cli.offline_models import playful

from loopwright.testing.model_server import ModelServer


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    with ModelServer(playful) as server:
        yield server.base_url


@pytest.fixture
def loopwright(tmp_path: Path, model_url: str) -> CommandLine:
    (tmp_path / "a.md").write_text("# a\n")
    return CommandLine(tmp_path, model_url)


@pytest.fixture
def without_model(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)
