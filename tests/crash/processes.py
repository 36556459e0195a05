"""Starting, stopping and reading real processes from a test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.agents import AGENTS, SESSION
from tests.crash.child import played
from tests.crash.family_agents import FAMILIES
from tests.quick_processes import ROOT, Copied, Process, started

from loopwright import open_store
from loopwright.ports.store import StoredRecord
from loopwright.testing.crash_matrix import Life, StoreContent, look_at
from loopwright.testing.crash_points import CRASH_AT, CRASH_HOW, CrashPoints, EffectLog
from loopwright.testing.virtual import VirtualAmbient

PATIENCE_S = 60.0


def start(name: str, folder: Path, *, at: str | None = None, how: str = "kill") -> Process:
    environment = dict(os.environ)
    if at is not None:
        environment |= {CRASH_AT: at, CRASH_HOW: how}
    return started("tests.crash.child", name, str(folder), cwd=ROOT, env=environment, pipes=["stdout"])


def ended(process: Process) -> dict[str, Any]:
    """What a process printed at its end."""
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"the process ended with {process.returncode}"
    report: dict[str, Any] = json.loads(out)
    return report


def killed_at(name: str, folder: Path, at: str) -> None:
    process = start(name, folder, at=at)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL, f"{at} was never reached"


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def until_paused(process: Process) -> None:
    def is_paused() -> bool:
        if isinstance(process, Copied):
            return process.is_paused()
        return os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)[0] == process.pid

    until(is_paused, "the process paused itself")


def effects(folder: Path) -> EffectLog:
    return EffectLog(folder / "effects")


def found(folder: Path) -> StoreContent:
    return asyncio.run(look_at(str(folder / "sessions.db")))


def records(folder: Path) -> tuple[StoredRecord, ...]:
    async def read() -> tuple[StoredRecord, ...]:
        store = open_store(folder / "sessions.db")
        try:
            return tuple(await store.read(SESSION))
        finally:
            await store.aclose()

    return asyncio.run(read())


def undisturbed(name: str) -> tuple[str, ...]:
    """The canonical journal of an agent that nobody stops."""
    life = Life(f"memory:undisturbed-{name}-{time.monotonic_ns()}", 1, CrashPoints(VirtualAmbient()), EffectLog())
    asyncio.run(played(AGENTS.get(name) or FAMILIES[name], life))
    return asyncio.run(look_at(life.dsn)).journal
