"""A conversation of 2,000 sends with tools under 16,000 tokens, in every representation and fold, killed at random points.

Each request is judged when it is made (`long_talk.Watch`), the journal at the end (`long_exam.Exam`).
`./dev crash --long` has all combinations killed over their whole length, on both stores.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.crash.long_exam import Exam, examined
from tests.crash.long_talk import (
    FOLDS,
    NOTE,
    REPRESENTATIONS,
    SESSION,
    Model,
    Plan,
    Watch,
    answer,
    loop_of,
    shows,
    talk,
    words,
)
from tests.crash.processes import PATIENCE_S
from tests.quick_processes import ROOT, ended

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop, open_store
from loopwright.model.messages import as_messages
from loopwright.testing.crash_matrix import Life, play
from loopwright.testing.crash_points import CRASH_AT, CrashPoints, EffectLog, StopAt
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash

SENDS = 2_000
IS_LONG = bool(os.environ.get("LOOPWRIGHT_LONG"))
KILLED_SENDS = SENDS if IS_LONG else 300
BETWEEN_KILLS = 400
"""A process passes so many points at most before it is killed."""

PLANS = [Plan(shown_as, fold) for shown_as in REPRESENTATIONS for fold in FOLDS]
WHOLE = [Plan("verbatim", "summary"), Plan("projected", "agentic"), Plan("own", "own")]
"""Each representation and each fold once: these are had over the whole length each time."""
DENSITY = {"summary": 1.0, "agentic": 1.3, "own": 0.7}
AT_FOLDS = (
    "fold.before",
    "fold.after",
    "commit.before:fold_made+prompt_epoch_started+state_checkpointed",
    "commit.after:fold_made+prompt_epoch_started+state_checkpointed",
)
"""Points that a random one seldom hits."""


def id_of(given: object) -> str:
    return f"{given.representation}-{given.fold}" if isinstance(given, Plan) else str(given)


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
@pytest.mark.parametrize("plan", WHOLE, ids=id_of)
async def test_every_window_is_valid_and_within_the_budget_for_two_thousand_sends(plan: Plan, folder: Path) -> None:
    await has_valid_windows(plan, SENDS, folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("plan", [plan for plan in PLANS if plan not in WHOLE], ids=id_of)
async def test_every_window_is_valid_and_within_the_budget_in_every_combination(plan: Plan, folder: Path) -> None:
    await has_valid_windows(plan, SENDS if IS_LONG else SENDS // 4, folder)


async def has_valid_windows(plan: Plan, sends: int, folder: Path) -> None:
    dsn = f"{folder}/sessions.db" if IS_LONG or plan.representation == plan.fold == "own" else f"memory:{folder.name}"
    watch = Watch(density=DENSITY[plan.fold])
    async with loop_of(plan, dsn, VirtualAmbient(), Model(watch)) as loop:
        await talk(loop, watch, sends)
        await loop.aclose()
        exam = await examined(open_store(dsn), sends)
    assert watch.problems + exam.problems == []
    assert (exam.usage.total_tokens, exam.usage.estimated) == (watch.paid, False)
    assert exam.folds > sends // 40
    assert watch.requests - watch.notes < SENDS // 10, "only the first ones have no note"
    if sends == SENDS:  # what fewer cost depends on which they are
        quarters = [sum(watch.shown[send] for send in range(at, at + sends // 4)) for at in range(0, sends, sends // 4)]
        assert max(quarters[1:]) < 1.2 * min(quarters[1:]), "what a send costs does not grow with their number"


def goes_on(watch: Watch, *, recover: bool) -> Callable[[StatefulAgentLoop], Awaitable[None]]:
    """What the host of one process does."""
    return lambda loop: talk(loop, watch, KILLED_SENDS, recover=recover)


def stops_by_chance(where: random.Random) -> Iterator[StopAt]:
    """Anywhere, and at folds, in turn."""
    for point in itertools.cycle(AT_FOLDS):
        yield StopAt("*", where.randint(1, BETWEEN_KILLS))
        yield StopAt(point, where.randint(1, 2))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "plan, dsn",
    [
        (plan, kind)
        for plan in PLANS
        for kind in ("memory", "sqlite")
        if IS_LONG or (kind == "sqlite") == (plan in WHOLE)
    ],
    ids=id_of,
    indirect=["dsn"],
)
def test_a_conversation_killed_again_and_again_loses_and_doubles_nothing(plan: Plan, dsn: str) -> None:
    watch, effects, where = Watch(density=DENSITY[plan.fold]), EffectLog(), random.Random(f"{plan} {dsn[:3]}")
    stops, kills = stops_by_chance(where), list[StopAt]()
    while watch.ended < KILLED_SENDS:
        at = next(stops)
        life = Life(dsn, len(kills) + 1, CrashPoints(VirtualAmbient(seed=len(kills) + 1), stop_at=at), effects)

        def build(life: Life) -> StatefulAgentLoop:
            return loop_of(plan, life.dsn, life.ambient, Model(watch, life.ambient.alive), life.effect)

        play(life, build, goes_on(watch, recover=where.random() < 0.5))
        if life.ambient.stopped is not None:
            kills.append(life.ambient.reached[-1])
    exam = exam_of(dsn, KILLED_SENDS)
    assert watch.problems + exam.problems == [], kills
    assert len(kills) > KILLED_SENDS // 50
    assert exam.folds > KILLED_SENDS // 60
    assert {at.point for at in kills} >= set(AT_FOLDS), kills
    assert exam.usage.total_tokens <= watch.paid
    assert {name for name, _ in effects.counts()} == {"put"}
    assert max(effects.counts().values()) <= 1 + len(kills)


REALLY_KILLED = PLANS if IS_LONG else [Plan("projected", "summary"), Plan("own", "agentic")]


@pytest.mark.kill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plan", REALLY_KILLED, ids=id_of)
def test_a_conversation_whose_process_is_really_killed_goes_on(plan: Plan, folder: Path) -> None:
    sends = 600 if IS_LONG else 80
    where, kills = random.Random(f"{plan}"), 0
    stops = stops_by_chance(where)
    while not one_process(plan, folder, sends, next(stops)):
        kills += 1
    assert kills >= sends // 20
    exam = exam_of(f"{folder}/sessions.db", sends)
    assert [*(folder / "problems").read_text().splitlines(), *exam.problems] == []
    assert max(EffectLog(folder / "effects").counts().values()) <= 1 + kills


def one_process(plan: Plan, folder: Path, sends: int, at: StopAt) -> bool:
    """True when the process was not killed before the end."""
    words = [str(folder), plan.representation, plan.fold, str(sends)]
    done = ended(
        "tests.crash.long_child", *words, cwd=ROOT, env={**os.environ, CRASH_AT: str(at)}, timeout=2 * PATIENCE_S
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("shown_as", REPRESENTATIONS)
async def test_a_fork_in_the_middle_is_shown_to_the_model_as_the_original_is(shown_as: str, dsn: str) -> None:
    plan, watch, sends = Plan(shown_as, "summary"), Watch(), 130
    async with loop_of(plan, dsn, VirtualAmbient(), Model(watch)) as loop:
        await talk(loop, watch, sends)
    shown: list[LLMRequest] = []
    watch.current = sends
    for is_fork in (True, False):
        async with loop_of(plan, dsn, VirtualAmbient(seed=2 + is_fork), FirstOf(shown, Model(watch))) as loop:
            session = await loop.fork(SESSION) if is_fork else SESSION
            assert (await loop.send(words(sends), session_id=session)).final_text == answer(sends)
    as_sent = [msgspec.json.encode(msgspec.structs.replace(one, cache_key=None)) for one in shown]
    assert as_sent[0] == as_sent[1]
    assert shows(as_messages(shown[0].messages)[0], NOTE)
    assert watch.problems + (await examined(open_store(dsn), sends + 1)).problems == []


class FirstOf:
    """A model of which only the first request is kept."""

    def __init__(self, shown: list[LLMRequest], inner: Model) -> None:
        self._shown = shown
        self._wanted = len(shown) + 1
        self._inner = inner

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The reply of the other."""
        if len(self._shown) < self._wanted:
            self._shown.append(request)
        return await self._inner.complete(request)

    async def aclose(self) -> None:
        """Nothing to release."""


@pytest.mark.parametrize("fold", ["summary", "agentic"])
async def test_while_no_note_can_be_made_history_stays_whole_and_later_fits_again(fold: str, dsn: str) -> None:
    plan, watch, sends = Plan("verbatim", fold), Watch(no_notes=range(60, 130)), 260
    async with loop_of(plan, dsn, VirtualAmbient(), Model(watch)) as loop:
        await talk(loop, watch, sends)
        exam = await examined(open_store(dsn), sends)
    assert exam.problems == []
    assert exam.failed_folds >= 4
    late = [one for one in watch.problems if not one.endswith(" tokens") or int(one.split()[1].strip(",")) > 200]
    assert watch.problems != late == []
