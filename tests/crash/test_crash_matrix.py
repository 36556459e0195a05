"""Invariant 5: stopped at every named point and resumed, the journal is that of the undisturbed run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.agents import AGENTS
from tests.servers import client

from loopwright.testing.crash_matrix import CrashReport, crash_matrix

pytestmark = pytest.mark.crash

NAMES = sorted(AGENTS)
LONGEST = frozenset({"folded", "folded-in-mid-send", "notes-and-todo"})
"""On a server only with `./dev crash --long`: what is special about them is in their records, not in the store;
`folded-accounts` folds there each time."""
ON_SERVERS = [name for name in NAMES if name not in LONGEST or os.environ.get("LOOPWRIGHT_LONG")]


def stopped_everywhere(name: str, dsn: str, *, recover: bool = False, twice: bool = False) -> CrashReport:
    return crash_matrix(AGENTS[name].build, AGENTS[name].scenario, dsn=dsn, recover=recover, twice=twice)


@pytest.mark.parametrize("name", NAMES)
def test_a_process_stopped_at_any_point_is_continued_by_the_same_send_on_sqlite(name: str, folder: Path) -> None:
    assert len(stopped_everywhere(name, f"{folder}/{{run}}.db").rows) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_process_stopped_at_any_point_is_continued_by_recover_in_memory(name: str) -> None:
    assert len(stopped_everywhere(name, "memory:recovered-{scenario}-{run}", recover=True).rows) >= 10


# What is right there depends on both stops: whether the reply was durable before its follow-up was taken.
DEPENDS = "follow-up-during-the-last-reply"


@pytest.mark.parametrize("name", [name for name in NAMES if name != DEPENDS])
def test_a_process_stopped_while_it_recovers_is_continued_by_a_third(name: str) -> None:
    assert len(stopped_everywhere(name, "memory:twice-{scenario}-{run}", twice=True).rows) >= 10


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("name", ON_SERVERS)
def test_a_process_stopped_at_any_point_is_continued_on_a_server(name: str, kind: str) -> None:
    with client.shared(kind).database() as dsn:
        assert len(stopped_everywhere(name, f"{dsn}?prefix=run{{run}}_").rows) >= 10
