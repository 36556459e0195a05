"""Invariant 5 for families of sessions: stopped at every named point and resumed, all their journals are the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.family_agents import FAMILIES

from loopwright import StatefulAgentLoop
from loopwright.testing.crash_matrix import CrashScenario, crash_matrix

pytestmark = pytest.mark.crash

NAMES = sorted(FAMILIES)
IS_FULL = bool(os.environ.get("LOOPWRIGHT_FULL"))
"""`./dev crash`: every family in every way, each time that a point is reached."""
DEEP = "four-calls-three-agents-deep-need-approval"
"""Its points take long: by name in memory, and in all ways in `./dev crash`."""
QUICK = NAMES if IS_FULL else [name for name in NAMES if name != DEEP]
LONG = frozenset({DEEP, "four-handlers-of-a-grandchild-ask-at-once"})
"""Stopped once at each named point, and not each of the hundreds of times that one is reached."""
SOME = (
    "a-background-child-is-nudged-and-waited-for",
    "a-grandchild-asks-and-the-root-is-answered",
    "child-with-a-once-tool",
)
"""Those that between them have all that a worker or a third process could do otherwise."""
IN_EVERY_WAY = sorted(set(NAMES) - LONG) if IS_FULL else SOME


@pytest.mark.parametrize("name", QUICK)
def test_a_family_stopped_at_any_point_goes_on_by_the_same_send_on_sqlite(name: str, folder: Path) -> None:
    family, some = FAMILIES[name], name in LONG or not IS_FULL
    assert len(crash_matrix(family.build, family.scenario, dsn=f"{folder}/{{run}}.db", names_only=some).rows) >= 10


@pytest.mark.parametrize("name", QUICK)
def test_a_family_stopped_at_any_point_is_recovered_in_memory(name: str) -> None:
    family = FAMILIES[name]
    dsn = "memory:family-{scenario}-{run}"
    report = crash_matrix(family.build, family.scenario, dsn=dsn, recover=True, names_only=name in LONG)
    assert len(report.rows) >= 10


@pytest.mark.parametrize("name", IN_EVERY_WAY)
def test_a_family_stopped_at_any_point_is_run_by_a_worker(name: str) -> None:
    family = FAMILIES[name]

    async def served(loop: StatefulAgentLoop) -> None:
        await loop.serve(once=True)
        await family.scenario.drive(loop)

    scenario = CrashScenario(name=name, drive=served, expected=family.scenario.expected)
    assert len(crash_matrix(family.build, scenario, dsn="memory:family-served-{scenario}-{run}").rows) >= 10


@pytest.mark.parametrize("name", IN_EVERY_WAY)
def test_a_family_stopped_while_it_recovers_is_continued_by_a_third_process(name: str) -> None:
    family = FAMILIES[name]
    report = crash_matrix(family.build, family.scenario, dsn="memory:family-twice-{scenario}-{run}", twice=True)
    assert len(report.rows) >= 10


def test_four_approvals_three_agents_deep_hold_wherever_the_process_stops() -> None:
    family = FAMILIES[DEEP]
    report = crash_matrix(family.build, family.scenario, dsn="memory:family-deep-{scenario}-{run}", names_only=True)
    assert len(report.rows) >= 40
