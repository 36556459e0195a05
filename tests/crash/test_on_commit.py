"""What a tool writes with `on_commit` is there if and only if its result is, wherever the process was stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from tests.application import Application, application
from tests.crash.agents import calls_then_sums_up, one_send, told_of_uncertain_calls
from tests.crash.counting import AT_ONCE, TABLES, books, counting_loop
from tests.quick_processes import ROOT, Process, started
from tests.servers.one_database import emptied
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix, look_at
from loopwright.testing.crash_points import CRASH_AT

pytestmark = pytest.mark.crash

PATIENCE_S = 50.0
IS_FULL = bool(os.environ.get("LOOPWRIGHT_FULL"))
"""`./dev crash`: servers too see a restarted process that stops, and processes that are killed at each of the points."""
LEFT_TO_FULL = {("postgres", "twice"), ("mariadb", "twice")}


KINDS = ("sqlite", "postgres", "mariadb")


def on(kind: str, *more: object) -> ParameterSet:
    """A parameter of a test on this store."""
    marks = [] if kind == "sqlite" else [pytest.mark.server]
    return pytest.param(kind, *more, marks=marks, id="-".join([kind, *map(str, more)]))


@pytest.fixture(params=[on(kind) for kind in KINDS])
def app(request: pytest.FixtureRequest, folder: Path) -> Iterator[Application]:
    with application(request.param, folder) as made:
        asyncio.run(made.ask(*TABLES))
        yield made


@pytest.mark.parametrize(
    "app, times",
    [on(kind, times) for kind in KINDS for times in ("once", "twice") if IS_FULL or (kind, times) not in LEFT_TO_FULL],
    indirect=["app"],
)
def test_a_process_stopped_at_any_point_has_counted_exactly_what_it_recorded(
    app: Application, folder: Path, times: str
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
    names_only = app.kind != "sqlite" and not IS_FULL
    report = crash_matrix(build, scenario, dsn=place, twice=times == "twice", names_only=names_only)
    counted_what_the_last_run_recorded()
    assert len(report.rows) >= 15


def start(app: Application, *, sessions: int, calls: int, at: str | None = None) -> Process:
    environment = {**os.environ} | ({CRASH_AT: at} if at else {})
    return started("tests.crash.counting", app.kind, app.dsn, str(sessions), str(calls), cwd=ROOT, env=environment)


def balanced(app: Application) -> int:
    """The count, which is that of the recorded results at every moment."""
    found = asyncio.run(books(app))
    assert found.total == found.results["finished"]
    return found.total


ON_POSTGRES = [
    "tool.before:count#2",
    "commit.after:tool_started+tool_finished#1",
    "commit.before:tool_started+tool_finished#4",
    "commit.after:assistant_message_added+send_finished#1",
]
ON_MARIADB = [
    "tool.after:count#1",
    "commit.before:tool_started+tool_finished#1",
    "commit.after:tool_started+tool_finished#5",
    "commit.before:assistant_message_added#2",
]
EVERYWHERE = [*ON_POSTGRES, *ON_MARIADB]
POINTS = dict.fromkeys(KINDS, EVERYWHERE) | ({} if IS_FULL else {"postgres": ON_POSTGRES, "mariadb": ON_MARIADB})


@pytest.mark.kill
@pytest.mark.parametrize("app, point", [on(kind, at) for kind in KINDS for at in POINTS[kind]], indirect=["app"])
def test_a_process_killed_at_a_point_has_counted_exactly_what_it_recorded(app: Application, point: str) -> None:
    process = start(app, sessions=1, calls=2 * AT_ONCE, at=point)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL, f"{point} was never reached"
    balanced(app)
    assert start(app, sessions=1, calls=2 * AT_ONCE).wait(PATIENCE_S) == 0
    assert balanced(app) == 2 * AT_ONCE


@pytest.mark.kill
def test_processes_killed_at_any_moment_count_every_recorded_result_once(app: Application) -> None:
    """Four sessions side by side, killed whenever the count has grown; it fits the records at every look."""
    sessions, calls = (
        4,
        (60 if app.kind == "sqlite" or IS_FULL else 25) * AT_ONCE,
    )  # so many that no process gets to the end between two looks
    asyncio.run(_opened(app))
    counted = 0
    for grown in (5, 11, 17, 13) if app.kind == "sqlite" or IS_FULL else (5, 11):
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


async def _until_counted(app: Application, process: Process, count: int) -> None:
    while process.poll() is None:
        found = await books(app)
        assert found.total == found.results["finished"]
        if found.total >= count:
            return
        await next_turn(0.003)
    raise AssertionError("the process ended by itself")
