"""Invariant 5: stopped at every named point and resumed, the journal is that of the undisturbed run."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.crash.agents import AGENTS
from tests.servers import client
from tests.servers.one_database import emptied

from loopwright.testing.crash_matrix import CrashReport, Life, crash_matrix, play
from loopwright.testing.crash_points import CrashPoints, EffectLog
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash

NAMES = sorted(AGENTS)
LONGEST = frozenset({"folded", "folded-in-mid-send", "notes-and-todo"})
"""On a server only with `./dev crash --long`: what is special about them is in their records, not in the store;
`folded-accounts` folds there each time."""
SHARED = {
    "postgres": frozenset(
        {
            "aborted-while-it-waits",
            "degraded",
            "folded-accounts",
            "four-parallel-tools",
            "linked",
            "retry-after-503",
            "two-questions",
        }
    ),
    "mariadb": frozenset(
        {
            "approval",
            "big-output",
            "follow-up-to-an-idle-session",
            "forked-while-it-waits",
            "four-parallel-tools",
            "linked",
            "once-handler-that-asks",
            "sent-back-by-a-completion-hook",
        }
    ),
}
"""What each server sees without `./dev crash`: together they see every point. Where a point is, the engine decides; that
it is the same place on every store, SQLite and memory show with all agents each time."""
IS_FULL = bool(os.environ.get("LOOPWRIGHT_FULL"))
"""`./dev crash`: all agents are stopped each time that a point is reached, on servers too; without it SQLite sees that."""
LEFT_OUT = frozenset[str]() if os.environ.get("LOOPWRIGHT_LONG") else LONGEST
ON_SERVERS = [(kind, name) for kind in SHARED for name in NAMES if name not in LEFT_OUT]


def stopped_everywhere(
    name: str,
    dsn: str | Callable[[int], str],
    *,
    recover: bool = False,
    twice: bool = False,
    names_only: bool = False,
) -> CrashReport:
    agent = AGENTS[name]
    return crash_matrix(agent.build, agent.scenario, dsn=dsn, recover=recover, twice=twice, names_only=names_only)


@pytest.mark.parametrize("name", NAMES)
def test_a_process_stopped_at_any_point_is_continued_by_the_same_send_on_sqlite(name: str, folder: Path) -> None:
    assert len(stopped_everywhere(name, f"{folder}/{{run}}.db").rows) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_process_stopped_at_any_point_is_continued_by_recover_in_memory(name: str) -> None:
    report = stopped_everywhere(name, "memory:recovered-{scenario}-{run}", recover=True, names_only=not IS_FULL)
    assert len(report.rows) >= 9


# What is right there depends on both stops: whether the reply was durable before its follow-up was taken.
DEPENDS = "follow-up-during-the-last-reply"


@pytest.mark.parametrize("name", [name for name in NAMES if name != DEPENDS])
def test_a_process_stopped_while_it_recovers_is_continued_by_a_third(name: str) -> None:
    report = stopped_everywhere(name, "memory:twice-{scenario}-{run}", twice=True, names_only=not IS_FULL)
    assert len(report.rows) >= 9


# A process that is stopped here leaves its connections as they are, and Python says so of each when it finds it.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.server
@pytest.mark.parametrize("kind, name", [one for one in ON_SERVERS if IS_FULL or one[1] in SHARED[one[0]]])
def test_a_process_stopped_at_any_point_is_continued_on_a_server(kind: str, name: str) -> None:
    with client.shared(kind).database() as dsn:
        assert len(stopped_everywhere(name, emptied(dsn), names_only=not IS_FULL).rows) >= 9
        gc.collect()


def points_of(name: str) -> set[str]:
    """The named points that an agent passes when nobody stops it."""
    life = Life(f"memory:undisturbed-{name}-{uuid4().hex}", 1, CrashPoints(VirtualAmbient()), EffectLog())
    play(life, AGENTS[name].build, AGENTS[name].scenario.drive)
    return {at.point for at in life.ambient.reached}


def test_servers_see_every_point_that_is_passed_by_an_agent_they_leave_to_the_full_matrix() -> None:
    points = {name: points_of(name) for name in NAMES if name not in LONGEST}
    seen = {point for names in SHARED.values() for name in names for point in points[name]}
    assert {name: missing for name, passed in points.items() if (missing := passed - seen)} == {}
