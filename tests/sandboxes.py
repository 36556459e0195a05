"""The program that makes sandboxes, in pytest: installed once before the first test, where that may be done.

Owns: the fixture `sandbox` and what is said when there is none. Must not know: what is tested in a sandbox.
With `--embedded` nothing is installed, as for servers; a program that is there is used in any case.
"""

from __future__ import annotations

import functools
import shutil

import pytest
from tests.servers.choice import Need, install

from loopwright.executors.bubblewrap import BubblewrapLauncher

NEED = Need("bubblewrap", "bwrap", (), ("bubblewrap",), "")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not (is_worker or config.option.embedded or config.option.collectonly or shutil.which(NEED.program)):
        install(NEED)  # what came of it is said below


@functools.cache
def missing() -> str | None:
    """Why no sandbox can be made here; None when one can."""
    return BubblewrapLauncher().available()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = [report for report in terminalreporter.stats.get("skipped", []) if "sandbox" in str(report.longrepr)]
    if left_out:
        terminalreporter.section("SANDBOXES WERE NOT TESTED", red=True, bold=True)
        terminalreporter.write_line(f"{len(left_out)} tests were left out: {missing()}")


@pytest.fixture(scope="session")
def sandbox() -> BubblewrapLauncher:
    """A launcher that works here."""
    reason = missing()
    if reason is not None:
        pytest.skip(f"no sandbox: {reason}")
    return BubblewrapLauncher()
