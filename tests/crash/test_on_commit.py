"""What a tool writes with `on_commit` is there if and only if its result is, wherever the process was stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.application import KINDS, Application, application
from tests.crash.agents import calls_then_sums_up, one_send, told_of_uncertain_calls
from tests.crash.counting import AT_ONCE, TABLES, books, counting_loop
from tests.crash.one_database import emptied
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix, look_at
from loopwright.testing.crash_points import CRASH_AT

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
PATIENCE_S = 50.0


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, folder: Path) -> Iterator[Application]:
    with application(request.param, folder) as made:
        asyncio.run(made.ask(*TABLES))
        yield made


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_a_process_stopped_at_any_point_has_counted_exactly_what_it_recorded(
    app: Application, folder: Path, twice: bool
) -> None:
    last: list[tuple[str, str]] = []
    empty = emptied(app.dsn) if app.kind != "sqlite" else lambda run: f"{folder}/{run}.db"

    def at(dsn: str) -> Application:
        return Application("sqlite", dsn) if app.kind == "sqlite" else app

    def counted_what_the_last_run_recorded() -> None:
        run, dsn = last.pop()
        rows = asyncio.run(at(dsn).ask(f"SELECT id FROM done WHERE run = '{run}'"))
        statuses = asyncio.run(look_at(dsn)).statuses
        assert set(statuses.values()) <= {"finished", "uncertain"}
        assert Counter(row[0] for row in rows) == {key: 1 for key, status in statuses.items() if status == "finished"}

    def place(run: int) -> str:
        if last:
            counted_what_the_last_run_recorded()
        last.append((f"run {run}", empty(run)))
        if app.kind == "sqlite":
            at(last[0][1]).ask_file(*TABLES)
        return last[0][1]

    def build(life: Life) -> StatefulAgentLoop:
        model = life.model(calls_then_sums_up("count", "count_once", "count"))
        return counting_loop(at(life.dsn), life.ambient, model, dsn=life.dsn, run=last[0][0])

    scenario = CrashScenario(name="on-commit", drive=one_send, expected=told_of_uncertain_calls)
    names_only = app.kind != "sqlite" and not os.environ.get("LOOPWRIGHT_FULL")
    report = crash_matrix(build, scenario, dsn=place, twice=twice, names_only=names_only)
    counted_what_the_last_run_recorded()
    assert len(report.rows) >= 15


def start(app: Application, *, sessions: int, calls: int, at: str | None = None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | ({CRASH_AT: at} if at else {})
    command = [sys.executable, "-m", "tests.crash.counting", app.kind, app.dsn, str(sessions), str(calls)]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def balanced(app: Application) -> int:
    """The count, which is that of the recorded results at every moment."""
    found = asyncio.run(books(app))
    assert found.total == found.results["finished"]
    return found.total


POINTS = [
    "tool.before:count#2",
    "tool.after:count#1",
    "commit.before:tool_started+tool_finished#1",
    "commit.after:tool_started+tool_finished#1",
    "commit.before:tool_started+tool_finished#4",
    "commit.after:tool_started+tool_finished#5",
    "commit.before:assistant_message_added#2",
    "commit.after:assistant_message_added+send_finished#1",
]


@pytest.mark.kill
@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_at_a_point_has_counted_exactly_what_it_recorded(app: Application, point: str) -> None:
    process = start(app, sessions=1, calls=2 * AT_ONCE, at=point)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL, f"{point} was never reached"
    balanced(app)
    assert start(app, sessions=1, calls=2 * AT_ONCE).wait(PATIENCE_S) == 0
    assert balanced(app) == 2 * AT_ONCE


@pytest.mark.kill
def test_processes_killed_at_any_moment_count_every_recorded_result_once(app: Application) -> None:
    """Four sessions side by side, killed whenever the count has grown; it fits the records at every look."""
    sessions, calls = 4, 60 * AT_ONCE  # so many that no process gets to the end between two looks
    asyncio.run(_opened(app))
    counted = 0
    for grown in (5, 11, 17, 13):
        process = start(app, sessions=sessions, calls=calls)
        asyncio.run(_until_counted(app, process, counted + grown))
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        counted = balanced(app)
    assert start(app, sessions=sessions, calls=calls).wait(PATIENCE_S) == 0
    found = asyncio.run(books(app))
    assert found.total == found.results["finished"]
    assert found.results.total() == sessions * calls


async def _opened(app: Application) -> None:
    """The tables of the store, so that both counts can be read from the start."""
    async with StatefulAgentLoop(llm="echo:", dsn=app.dsn) as loop:
        await loop.new_session(session_id="other")


async def _until_counted(app: Application, process: subprocess.Popen[bytes], count: int) -> None:
    while process.poll() is None:
        found = await books(app)
        assert found.total == found.results["finished"]
        if found.total >= count:
            return
        await next_turn(0.003)
    raise AssertionError("the process ended by itself")
