"""What each sandbox stops, and what it does not: every attempt is made, and docs/sandboxes.md says what came of it."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.sandboxes.escapes import ESCAPES, Escape, table
from tests.contract.sandboxes.ground import Ground

from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.ports.cancellation import CancellationToken
from loopwright.ports.shell import ShellBackend
from loopwright.tools import BubblewrapShellBackend, LocalShellBackend, SandboxLimits
from loopwright.tools.process import BoundedOutput, run_process

ROOT = Path(__file__).parents[3]
LIMITS = SandboxLimits(
    processes=40, memory_bytes=200 << 20, file_bytes=1 << 20, tmp_bytes=1 << 20, open_files=100, cpu_s=20
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("escapes")
    copy = folder / "bwrap"
    if program := shutil.which("bwrap"):
        shutil.copy(program, copy)  # so that an attempt to overwrite it hits a copy
    before = dict(os.environ)
    made = Ground(folder, copy)
    os.environ.update(HOME=str(made.home), CANARY_TOKEN=made.canary)
    yield made
    os.environ.clear()
    os.environ.update(before)
    made.close()


async def tried(escape: Escape, backend: ShellBackend, ground: Ground, *, expected: bool) -> tuple[bool, str]:
    workspace = ground.prepared(next(_numbers))
    output = BoundedOutput(100_000)
    try:
        launch = backend.launch(ground.fill(escape.script), str(workspace))
        await run_process(launch, output, timeout_s=20, cancellation=CancellationToken())
        return ground.worked(escape, output.text(), workspace, expected=expected), output.text()
    finally:
        ground.clear()


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
async def test_a_sandbox_stops_what_its_table_says_and_nothing_else(
    escape: Escape, ground: Ground, sandbox: BubblewrapLauncher
) -> None:
    backend = BubblewrapShellBackend(limits=LIMITS, program=str(ground.bwrap))
    expected = escape.bubblewrap == "open" or (escape.bubblewrap == "open for root" and os.getuid() == 0)
    worked, output = await tried(escape, backend, ground, expected=expected)
    assert worked == expected, output


OUTSIDE = [escape for escape in ESCAPES if escape.outside and escape.bubblewrap == "stopped"]


@pytest.mark.parametrize("escape", OUTSIDE, ids=lambda escape: escape.name)
async def test_the_same_attempt_works_without_a_sandbox(escape: Escape, ground: Ground) -> None:
    worked, output = await tried(escape, LocalShellBackend(), ground, expected=True)
    assert worked, output


def test_the_table_in_the_documentation_is_that_of_the_attempts() -> None:
    assert len({escape.name for escape in ESCAPES}) == len(ESCAPES) >= 40
    assert table() in (ROOT / "docs/sandboxes.md").read_text()
