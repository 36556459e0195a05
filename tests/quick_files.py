"""The files of a run are in memory where the system has room there: what is written is gone with the run anyway.

Owns: the choice of TMPDIR for the run, once, before the first test. Must not know: who writes what.
No test needs a disk that keeps its data: a stopped or killed process loses nothing that it wrote, synced or not, and
what a loss of power does is simulated (`loopwright.testing.faulty_vfs`). The databases of the servers are there too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 3 * 2**30
"""Bytes that have to be free: two servers and the largest tests at once take about a third of it."""


def is_fit(place: Path, room: int = ROOM) -> bool:
    """Whether files of tests may go there: enough room, and programs that a test writes can be run."""
    if not (place.is_dir() and os.access(place, os.W_OK)):
        return False
    return not os.statvfs(place).f_flag & os.ST_NOEXEC and shutil.disk_usage(place).free >= room


def pytest_configure(config: pytest.Config) -> None:
    is_chosen = "TMPDIR" in os.environ or config.option.basetemp or hasattr(config, "workerinput")
    if not is_chosen and is_fit(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # what was chosen before this is forgotten


def pytest_report_header() -> str:
    return f"files: in {tempfile.gettempdir()}"
