"""A conversation of 2,000 sends with tools under 16,000 tokens, in every representation and fold, killed at random points.

Each request is judged when it is made (`long_talk.Watch`), the journal at the end (`long_exam.Exam`).
`./dev crash --long` has all combinations killed over their whole length, on both stores.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.long_exam import Exam, examined
from tests.crash.long_talk import FOLDS, REPRESENTATIONS, Model, Plan, Watch, loop_of, talk
from tests.crash.processes import PATIENCE_S

from loopwright import StatefulAgentLoop, open_store
from loopwright.testing.crash_matrix import Life, play
from loopwright.testing.crash_points import CrashPoints, EffectLog, StopAt
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash

SENDS = 2_000
IS_LONG = bool(os.environ.get("LOOPWRIGHT_LONG"))
KILLED_SENDS = SENDS if IS_LONG else 150
BETWEEN_KILLS = 1_500 if IS_LONG else 500
"""A process passes so many points at most before it is killed."""

PLANS = [Plan(shown_as, fold) for shown_as in REPRESENTATIONS for fold in FOLDS]
IDS = [f"{plan.representation}-{plan.fold}" for plan in PLANS]
Dsn = Callable[[str], str]


@pytest.fixture(params=["memory", "sqlite"])
def dsn(request: pytest.FixtureRequest, folder: Path) -> str:
    """A store of its own."""
    return f"memory:{folder.name}" if request.param == "memory" else f"{folder}/sessions.db"


def exam_of(dsn: str, sends: int) -> Exam:
    async def read() -> Exam:
        store = open_store(dsn)
        try:
            return await examined(store, sends)
        finally:
            await store.aclose()

    return asyncio.run(read())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("plan", PLANS, ids=IDS)
async def test_every_window_is_valid_and_within_the_budget_for_two_thousand_sends(plan: Plan, folder: Path) -> None:
    dsn = f"{folder}/sessions.db" if IS_LONG or plan.representation == plan.fold == "own" else f"memory:{folder.name}"
    watch = Watch()
    async with loop_of(plan, dsn, VirtualAmbient(), Model(watch)) as loop:
        await talk(loop, watch, SENDS)
        await loop.aclose()
        exam = await examined(open_store(dsn), SENDS)
    assert watch.problems + exam.problems == []
    assert (exam.usage.total_tokens, exam.usage.estimated) == (watch.paid, False)
    assert exam.folds > SENDS // 20
    assert watch.notes > watch.requests * 0.95
    quarters = [sum(watch.shown[send] for send in range(at, at + SENDS // 4)) for at in range(0, SENDS, SENDS // 4)]
    assert max(quarters[1:]) < 1.2 * min(quarters[1:]), "what a send costs does not grow with their number"
