"""Invariant 5 for workflow runs: stopped at every named point and resumed, the journals of the whole tree are the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.workflow_agents import busy_loop, drive

from loopwright.model.codec import decode_record
from loopwright.model.records import ToolFinished
from loopwright.stores.dsn import open_store
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix, play
from loopwright.testing.crash_points import CrashPoints, EffectLog
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash

BUSY = CrashScenario(name="busy", drive=drive)


def test_a_run_stopped_at_any_point_is_resumed_and_no_finished_step_runs_again(tmp_path: Path) -> None:
    report = crash_matrix(busy_loop, BUSY, dsn=f"{tmp_path}/{{run}}.db")
    assert len(report.rows) >= 30


def test_a_run_stopped_at_any_point_is_recovered_in_memory() -> None:
    assert len(crash_matrix(busy_loop, BUSY, dsn="memory:busy-recovered-{run}", recover=True).rows) >= 30


def test_a_run_stopped_while_it_recovers_is_continued_by_a_third() -> None:
    assert len(crash_matrix(busy_loop, BUSY, dsn="memory:busy-twice-{run}", twice=True).rows) >= 30


def test_keys_of_iterations_differ(tmp_path: Path) -> None:
    dsn = f"{tmp_path}/sessions.db"
    play(Life(dsn, 1, CrashPoints(VirtualAmbient()), EffectLog()), busy_loop, drive)

    async def keys() -> list[str]:
        store = open_store(dsn)
        try:
            rows = await store.read("r")
        finally:
            await store.aclose()
        records = [decode_record(row.kind, row.version, row.body) for row in rows]
        return [record.key for record in records if isinstance(record, ToolFinished)]

    found = asyncio.run(keys())
    assert len(found) == 5
    assert len(set(found)) == 5
