"""Stops an agent at every named point it passes, restarts it, and compares what comes out.

Owns: the matrix of a scenario: running, stopping, resuming, judging, reporting. Must not know: any test runner.
For your own agent: `build` makes your loop from a `Life`, `drive` uses it as your host would, and
`print(crash_matrix(build, CrashScenario(name="mine", drive=drive)))` shows the table or raises `CrashMatrixError`.
Read next: `crash_points.py`, `canonical.py`.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from ..core.pairing import problem
from ..engine.actor import ACTORS
from ..loop import StatefulAgentLoop
from ..model.codec import decode_record
from ..model.control_records import HandlerAsked
from ..model.family_records import SessionSpawned
from ..model.messages import as_messages
from ..model.records import ToolFinished, ToolStarted
from ..ports.llm import LLMRequest, LLMResponse, LLMService
from ..ports.store import Head, SessionQuery
from ..ports.store_admin import SessionStore
from ..ports.tool import ToolContext
from ..stores.dsn import open_store
from .canonical import canonical
from .crash_points import CrashPoints, EffectLog, ProcessStopped, StopAt
from .virtual import VirtualAmbient

Answer: TypeAlias = Callable[[LLMRequest], LLMResponse | str]
"""A model as a function of its request: after a restart it answers the same window in the same way."""

SECOND_STOPS = 11
"""With `twice`, the restarted process is stopped at its first to eleventh point, in turn."""

MAX_RUNS = 2000
"""Stops of one matrix; a scenario with more points than that should be made smaller."""

STUCK_S = 0.1
"""How long tasks of a stopped process may unwind."""


class WatchedModel:
    """A model of a `Life`: checks every window it is shown and counts calls."""

    def __init__(self, life: Life, inner: LLMService | Answer) -> None:
        self._life = life
        self._inner = inner

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The reply; a window that providers refuse is noted."""
        self._life.ambient.alive()
        self._life.model_calls += 1
        if (why := problem(as_messages(request.messages))) is not None:
            self._life.problems.append(f"the model was shown an invalid window: {why}")
        if callable(self._inner):
            reply = self._inner(request)
            return reply if isinstance(reply, LLMResponse) else LLMResponse(text=reply, finish_reason="stop")
        return await self._inner.complete(request)

    async def aclose(self) -> None:
        """Nothing to release."""


class Life:
    """One process of a scenario, simulated: what `build` makes its loop from."""

    def __init__(self, dsn: str, number: int, ambient: CrashPoints, effects: EffectLog) -> None:
        self.dsn = dsn
        """Open the loop with this."""
        self.number = number
        """1 before the first stop, 2 after the restart."""
        self.ambient = ambient
        """Give this to the loop."""
        self.effects = effects
        self.model_calls = 0
        self.problems: list[str] = []

    def effect(self, context: ToolContext) -> None:
        """Call it in a handler at the moment when it touches the world; a dead process cannot."""
        self.ambient.alive()
        self.effects.add(context.tool_name, context.idempotency_key)

    def model(self, inner: LLMService | Answer) -> LLMService:
        """`inner` as the model of this life, watched: give this to the loop."""
        return WatchedModel(self, inner)  # type: ignore[return-value]  # without `stream` the engine uses `complete`


class Interrupted(Struct, frozen=True, kw_only=True):
    """One stop, for `CrashScenario.expected`."""

    at: StopAt
    in_flight: tuple[str, ...]
    """Names of `once` tools that were started and had no result, in call order."""
    undisturbed: tuple[str, ...]
    """The canonical journal of the undisturbed run."""


class CrashScenario(Struct, frozen=True, kw_only=True):
    """What is done with a loop, and what may come out of it."""

    name: str
    drive: Callable[[StatefulAgentLoop], Awaitable[object]]
    """Does all that the host does. Called again after the restart, so it must be what a host can repeat: a session of a
    fixed id, sends with a `send_id`, questions answered when they are open."""
    expected: Callable[[Interrupted], Sequence[str] | None] | None = None
    """The canonical journal after a stop, where it is not the undisturbed one (None): `once` calls were in flight, or what
    another process had said meanwhile comes in earlier."""


class CrashRow(Struct, frozen=True, kw_only=True):
    """One stop and what became of it."""

    at: StopAt
    outcome: str
    """resumed, or "not reached" when the order of parallel work was another this time."""
    in_flight: tuple[str, ...] = ()
    effects: dict[str, int] = field(default_factory=lambda: {})
    model_calls: int = 0
    problems: tuple[str, ...] = ()


class CrashReport(Struct, frozen=True, kw_only=True):
    """All stops of one scenario; `str()` is a table."""

    scenario: str
    undisturbed: tuple[str, ...]
    rows: tuple[CrashRow, ...]

    @property
    def failed(self) -> tuple[CrashRow, ...]:
        """Rows with a problem."""
        return tuple([row for row in self.rows if row.problems])

    def __str__(self) -> str:
        width = max([len(str(row.at)) for row in self.rows] + [5])
        lines = [f"{self.scenario}: {len(self.rows)} stops, {len(self.failed)} with problems"]
        for row in self.rows:
            effects = " ".join(f"{name}x{times}" for name, times in sorted(row.effects.items())) or "-"
            doubt = f"  in flight: {', '.join(row.in_flight)}" if row.in_flight else ""
            word = "PROBLEM" if row.problems else row.outcome
            lines.append(f"  {row.at!s:<{width}}  {word:<11}  model calls {row.model_calls}  effects {effects}{doubt}")
        return "\n".join(lines)


class CrashMatrixError(AssertionError):
    """At least one stop changed the outcome; `report` has all rows."""

    def __init__(self, report: CrashReport) -> None:
        self.report = report
        details = [f"{row.at}:\n" + "\n".join(row.problems) for row in report.failed]
        super().__init__("\n\n".join([str(report), *details]))


def crash_matrix(
    build: Callable[[Life], StatefulAgentLoop],
    scenario: CrashScenario,
    *,
    dsn: str | Callable[[int], str] = "memory:crash-matrix-{scenario}-{run}",
    opened: Callable[[str], SessionStore] = open_store,
    recover: bool = False,
    twice: bool = False,
    names_only: bool = False,
) -> CrashReport:
    """Runs the scenario once undisturbed, then once for each point it passed, stopped there and resumed.

    `dsn` names a fresh store for each run by `{run}`, or is called with the number of the run and returns the address
    of a store that is empty then; no run needs the stores of earlier ones. `opened` opens it to look at, when `build`
    opens it in a way of its own. `recover`: the restarted process calls `loop.recover()` before it
    drives the scenario again; otherwise driving it again is all. `twice`: the restarted process is stopped as well, at
    another of its points in each run, and a third one finishes. `names_only`: stops where each named point is reached
    for the first time, and leaves out the other times. Each life has an event loop of its own, so call this
    outside of one. Raises: `CrashMatrixError` with the table and a diff for each difference.
    """
    matrix = _Matrix(build, scenario, dsn, opened=opened, recover=recover, twice=twice)
    return matrix.run(names_only=names_only)


class StoreContent(Struct, frozen=True):
    """What a store holds between two lives."""

    journal: tuple[str, ...]
    """All sessions, oldest first, each as its status and its canonical journal."""
    finished: frozenset[str]
    """Keys of calls with a result."""
    open_once: dict[str, str]
    """Key → tool name of started `once` calls without a result."""
    statuses: dict[str, str]
    """Key → status of each result."""
    listed: frozenset[str]
    """Keys in `uncertain_calls()`."""
    damage: tuple[str, ...]


class _Crash(Struct, frozen=True):
    """What one process left behind."""

    content: StoreContent
    counted: Counter[tuple[str, str]]
    """Effects so far."""


class _Matrix:
    """One scenario; an object because all runs share the undisturbed one."""

    def __init__(
        self,
        build: Callable[[Life], StatefulAgentLoop],
        scenario: CrashScenario,
        dsn: str | Callable[[int], str],
        *,
        opened: Callable[[str], SessionStore],
        recover: bool,
        twice: bool,
    ) -> None:
        self._build = build
        self._scenario = scenario
        self._dsn = dsn
        self._opened = opened
        self._recover = recover
        self._twice = twice
        self._runs = 0
        self._undisturbed: tuple[str, ...] = ()
        self._totals: Counter[str] = Counter()

    def run(self, *, names_only: bool) -> CrashReport:
        """Every point, those that only show up in disturbed runs included."""
        dsn, effects = self._fresh(), EffectLog()
        first = self._live(dsn, 1, effects, None)
        found = asyncio.run(look_at(dsn, self._opened))
        self._undisturbed, self._totals = found.journal, effects.totals()
        if first.problems or found.damage:
            raise CrashMatrixError(self._report([_row(StopAt("undisturbed"), [first], effects, found.damage)]))
        waiting, known, rows = list(dict.fromkeys(first.ambient.reached)), set(first.ambient.reached), list[CrashRow]()
        while waiting and len(rows) < MAX_RUNS:
            at = waiting.pop(0)
            if names_only and at.occurrence > 1:
                continue
            row, seen = self._stopped(at)
            rows.append(row)
            waiting += [at for at in dict.fromkeys(seen) if at not in known]
            known.update(seen)
        report = self._report(rows)
        if report.failed:
            raise CrashMatrixError(report)
        return report

    def _report(self, rows: list[CrashRow]) -> CrashReport:
        return CrashReport(scenario=self._scenario.name, undisturbed=self._undisturbed, rows=tuple(rows))

    def _fresh(self) -> str:
        self._runs += 1
        if callable(self._dsn):
            return self._dsn(self._runs)
        return self._dsn.format(run=self._runs, scenario=self._scenario.name)

    def _stopped(self, at: StopAt) -> tuple[CrashRow, list[StopAt]]:
        dsn, effects = self._fresh(), EffectLog()
        before = self._live(dsn, 1, effects, at)
        if before.ambient.stopped is None:
            problems = _difference(self._undisturbed, asyncio.run(look_at(dsn, self._opened)).journal)
            return _row(at, [before], effects, problems, outcome="not reached"), before.ambient.reached
        crashes = [_Crash(asyncio.run(look_at(dsn, self._opened)), effects.counts())]
        lives = [before]
        if self._twice:
            lives.append(self._live(dsn, 2, effects, StopAt("*", self._runs % SECOND_STOPS + 1)))
            crashes.append(_Crash(asyncio.run(look_at(dsn, self._opened)), effects.counts()))
        lives.append(self._live(dsn, len(lives) + 1, effects, None))
        final = asyncio.run(look_at(dsn, self._opened))
        open_once = {key: name for crash in crashes for key, name in crash.content.open_once.items()}
        in_flight = tuple(open_once.values())
        stop = Interrupted(at=at, in_flight=in_flight, undisturbed=self._undisturbed)
        told = self._scenario.expected(stop) if self._scenario.expected is not None else None
        expected = self._undisturbed if told is None else tuple(told)
        problems = [
            *final.damage,
            *_difference(expected, final.journal),
            *_doubts(open_once, final),
            *_repeats(crashes, effects),
            *(self._totals_off(crashes, effects) if expected == self._undisturbed else []),
        ]
        return _row(at, lives, effects, problems, in_flight=in_flight), before.ambient.reached

    def _totals_off(self, crashes: list[_Crash], effects: EffectLog) -> list[str]:
        """Effects that are missing, or more than the calls that may be run again account for."""
        again: Counter[str] = Counter()
        for name, key in effects.counts():
            again[name] += max([c.counted[name, key] for c in crashes if key not in c.content.finished], default=0)
        totals = effects.totals()
        return [
            f"{name} had its effect {totals[name]} times, undisturbed {self._totals[name]}"
            for name in {*totals, *self._totals}
            if not self._totals[name] <= totals[name] <= self._totals[name] + again[name]
        ]

    def _live(self, dsn: str, number: int, effects: EffectLog, stop_at: StopAt | None) -> Life:
        ambient = CrashPoints(VirtualAmbient(seed=number, start_at=1_800_000_000.0 + 60 * number), stop_at=stop_at)
        life = Life(dsn, number, ambient, effects)
        try:
            play(life, self._build, lambda loop: self._drive(loop, life))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if number == 1:
                raise
            life.problems.append(f"after the restart: {type(error).__name__}: {error}")
        return life

    async def _drive(self, loop: StatefulAgentLoop, life: Life) -> None:
        if self._recover and life.number > 1:
            failures = [str(r.error) for r in await loop.recover() if r.error is not None]
            life.problems += [f"recover(): {text}" for text in failures]
        await self._scenario.drive(loop)


def play(
    life: Life,
    build: Callable[[Life], StatefulAgentLoop],
    drive: Callable[[StatefulAgentLoop], Awaitable[object]],
) -> None:
    """Plays one process in an event loop of its own, until `drive` is done or the process is stopped.

    Raises what `drive` raised; a process that was stopped unwinds in whatever way, and nothing of it is raised.
    """
    process = asyncio.new_event_loop()
    process.set_exception_handler(_quiet)
    try:
        process.run_until_complete(_process(life, build, drive))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        if life.ambient.stopped is None:
            raise
    finally:
        process.close()


async def _process(
    life: Life,
    build: Callable[[Life], StatefulAgentLoop],
    drive: Callable[[StatefulAgentLoop], Awaitable[object]],
) -> None:
    loop, stopped = build(life), asyncio.Event()

    def stop() -> None:
        loop.store.abandon()
        stopped.set()

    life.ambient.on_stop = stop
    here = asyncio.get_running_loop()
    work, death = here.create_task(_awaited(drive(loop))), here.create_task(stopped.wait())
    try:
        await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _leave()
        await loop.aclose(drain_timeout_s=0.0)
        await loop.store.aclose()
        # What this process kept warm is gone with it.
        ACTORS.bury(loop.store.identity)
    if work.done():
        await work


async def _awaited(work: Awaitable[object]) -> None:
    await work


async def _leave() -> None:
    """Ends all tasks of this event loop but the caller; one that waits for a dead store is left where it is."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        _, stuck = await asyncio.wait(others, timeout=STUCK_S)
        _dead.extend(stuck)


_dead: list[asyncio.Task[object]] = []
"""Tasks of stopped processes that can never go on; kept, because letting go of them would run their clean-up."""


def _quiet(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Tasks of a stopped process end with `ProcessStopped` and nobody waits for them; anything else is shown."""
    if not isinstance(context.get("exception"), ProcessStopped):
        asyncio.get_running_loop().default_exception_handler(context)


async def look_at(dsn: str, opened: Callable[[str], SessionStore] = open_store) -> StoreContent:
    """Reads a whole store as another process would: journals, calls, damage."""
    store = opened(dsn)
    try:
        return await _read(store)
    finally:
        await store.aclose()


async def _read(store: SessionStore) -> StoreContent:
    journal, heads = list[str](), list[Head]()
    started: dict[str, tuple[str, str]] = {}
    statuses, lines, spawned = dict[str, str](), dict[str, list[str]](), dict[str, SessionSpawned]()
    for head in await store.list(SessionQuery(limit=10_000)):
        heads.append(head)
        rows = await store.read(head.session_id)
        lines[head.session_id] = [f"session {head.status}", *canonical(rows)]
        of_call = dict[str, str]()
        for row in rows:
            record = decode_record(row.kind, row.version, row.body)
            if isinstance(record, ToolStarted):
                started[record.key], of_call[record.call_id] = (record.name, record.effect), record.key
            elif isinstance(record, HandlerAsked):
                started.pop(of_call.get(record.interaction.call_id, ""), None)  # it ended in a known place
            elif isinstance(record, ToolFinished):
                statuses[record.key] = record.status
            elif isinstance(record, SessionSpawned):
                spawned[head.session_id] = record
    for session_id in _in_order(heads, spawned, lines):
        journal += lines[session_id]
    return StoreContent(
        journal=tuple(journal),
        finished=frozenset(statuses),
        open_once={key: name for key, (name, effect) in started.items() if effect == "once" and key not in statuses},
        statuses=statuses,
        listed=frozenset([call.idempotency_key for call in await store.uncertain_calls()]),
        damage=tuple([f"the store is damaged: {problem.what}" for problem in await store.check()]),
    )


def _in_order(
    heads: Sequence[Head], spawned: Mapping[str, SessionSpawned], lines: Mapping[str, Sequence[str]]
) -> list[str]:
    """Ids in the order in which sessions are compared: roots by age, each with its family behind it.

    Children stand by the calls and steps that spawned them, from the root's on; their ids follow from places in journals,
    which differ where a process stopped. Forks last: one that the restarted process made may have an earlier time than its
    base, since clocks begin anew.
    """
    own = {head.session_id: (head.base is not None, head.created_at, head.session_id) for head in heads}
    parents = {head.session_id: head.parent_id for head in heads}

    def key(head: Head) -> tuple[Any, ...]:
        calls, at = list[str](), head.session_id
        while (parent := parents[at]) is not None and parent in own:
            calls.insert(0, spawned[at].by if at in spawned else "")
            at = parent
        # Families are whole even where their roots are of one age.
        return (*own[at], calls, list(lines[head.session_id]))

    return [head.session_id for head in sorted(heads, key=key)]


def _doubts(open_once: dict[str, str], final: StoreContent) -> list[str]:
    """A `once` call in flight must be reported as uncertain, to the model and in the ledger, unless it was settled."""
    return [
        f"{name} was in flight and ended {final.statuses.get(key)!r}, but uncertain_calls() does not list it"
        for key, name in open_once.items()
        if final.statuses.get(key) in (None, "uncertain") and key not in final.listed
    ]


def _repeats(crashes: list[_Crash], effects: EffectLog) -> list[str]:
    """Calls that ran although their result was durable, or although nobody knew whether they had happened."""
    found: list[str] = []
    for (name, key), times in effects.counts().items():
        for crash in crashes:
            if key in crash.content.finished and times != crash.counted[name, key]:
                found.append(f"{name} ran again although its result was durable")
            if key in crash.content.open_once and times > max(crash.counted[name, key], 1):
                found.append(f"{name} is a once call of unknown outcome and was repeated")
    return found


def _difference(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    if list(expected) == list(actual):
        return []
    return list(difflib.unified_diff(list(expected), list(actual), "expected", "after the restart", lineterm="", n=2))


def _row(
    at: StopAt,
    lives: Sequence[Life],
    effects: EffectLog,
    problems: Sequence[str],
    *,
    outcome: str = "resumed",
    in_flight: tuple[str, ...] = (),
) -> CrashRow:
    return CrashRow(
        at=at,
        outcome=outcome,
        in_flight=in_flight,
        effects=dict(effects.totals()),
        model_calls=sum(life.model_calls for life in lives),
        problems=(*[problem for life in lives for problem in life.problems], *problems),
    )
