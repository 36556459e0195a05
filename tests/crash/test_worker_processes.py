"""Workers as processes: they share work, die in the middle of it, are asked to go."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from tests.crash.agents import SESSION
from tests.crash.processes import effects, ended, found, records, start, until
from tests.scenario.worker_stage import interrupted

from loopwright import StatefulAgentLoop, open_store
from loopwright.model.codec import decode_record
from loopwright.model.records import Record, RunResumed, SendFinished
from loopwright.ports.store import Head, SessionQuery

pytestmark = [pytest.mark.crash, pytest.mark.kill]


def left_behind(folder: Path, *session_ids: str) -> None:
    """Sessions whose send was accepted and not run."""

    async def leave() -> None:
        async with StatefulAgentLoop(llm="echo:", dsn=folder / "sessions.db") as loop:
            for session_id in session_ids:
                await interrupted(loop, session_id=session_id)

    asyncio.run(leave())


def heads(folder: Path) -> list[Head]:
    async def read() -> list[Head]:
        store = open_store(folder / "sessions.db")
        try:
            return list(await store.list(SessionQuery()))
        finally:
            await store.aclose()

    return asyncio.run(read())


def journal(folder: Path) -> list[Record]:
    return [decode_record(row.kind, row.version, row.body) for row in records(folder)]


def test_two_worker_processes_share_fifty_interrupted_sessions_and_each_runs_once(folder: Path) -> None:
    left_behind(folder, *[f"s{n}" for n in range(50)])
    (folder / "go").touch()
    reports = [ended(process) for process in [start("worker-once", folder) for _ in range(2)]]
    assert [report["error"] for report in reports] == [None, None]
    assert sum(report["model_calls"] for report in reports) == 100
    assert effects(folder).totals() == {"pay": 50}
    assert {(head.status, head.owner, head.takeovers) for head in heads(folder)} == {("idle", None, 0)}


def test_a_worker_killed_in_the_middle_of_a_tool_is_followed_by_another_that_repeats_no_once_call(folder: Path) -> None:
    left_behind(folder, SESSION)
    killed = start("worker", folder)
    until(lambda: effects(folder).totals()["pay"] == 1, "the first worker pays")
    killed.kill()
    killed.communicate()
    assert ended(start("worker-once", folder))["error"] is None
    assert effects(folder).totals() == {"pay": 1}
    final = found(folder)
    assert list(final.statuses.values()) == ["uncertain"]
    assert [line for line in final.journal if "pay not ok" in line]


def test_sigterm_lets_the_run_come_to_its_end(folder: Path) -> None:
    left_behind(folder, SESSION)
    worker = start("worker", folder)
    until(lambda: effects(folder).totals()["pay"] == 1, "the worker pays")
    worker.send_signal(signal.SIGTERM)
    (folder / "go").touch()
    assert ended(worker)["error"] is None
    assert [type(record) for record in journal(folder)].count(RunResumed) == 1
    assert [record.outcome for record in journal(folder) if isinstance(record, SendFinished)] == ["completed"]


def test_sigterm_with_a_tool_that_does_not_end_leaves_the_session_to_the_next_worker_at_once(folder: Path) -> None:
    left_behind(folder, SESSION)
    worker = start("worker-that-leaves", folder)
    until(lambda: effects(folder).totals()["pay"] == 1, "the worker pays")
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)["error"] is None
    [head] = heads(folder)
    assert (head.status, head.owner, head.takeovers) == ("running", None, 0)
    assert ended(start("worker-once", folder))["error"] is None
    assert effects(folder).totals() == {"pay": 1}
    assert list(found(folder).statuses.values()) == ["uncertain"]


def test_a_second_signal_leaves_what_runs_at_once_and_for_the_next_worker(folder: Path) -> None:
    left_behind(folder, SESSION)
    worker = start("worker", folder)  # would let the run go on for half a minute
    until(lambda: effects(folder).totals()["pay"] == 1, "the worker pays")
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    assert ended(worker)["error"] is None
    [head] = heads(folder)
    assert (head.status, head.owner, head.takeovers) == ("running", None, 0)
    assert not any(isinstance(record, SendFinished) for record in journal(folder))


def test_a_session_that_kills_each_worker_ends_and_is_not_taken_again(folder: Path) -> None:
    left_behind(folder, SESSION)
    codes = []
    while len(codes) < 10 and codes[-1:] != [0]:
        worker = start("poison-worker", folder)
        worker.communicate(timeout=60)
        codes.append(worker.returncode)
    assert codes == [9] * 5 + [0]
    last = journal(folder)[-1]
    assert isinstance(last, SendFinished)
    assert (last.outcome, last.error_code) == ("failed", "session.poisoned")
    length = len(records(folder))
    assert ended(start("poison-worker", folder))["model_calls"] == 0
    assert len(records(folder)) == length
