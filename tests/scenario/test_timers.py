"""Durable timers: set by a host, fired once by whoever is there, whatever happened meanwhile (scenario 39)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest
from tests.scenario.conftest import Listener, Stage, asked, said, texts
from tests.scenario.worker_stage import QUICK, LookedAt, with_timer
from tests.waiting import next_turn, until

from loopwright import (
    AgentHooks,
    AgentLoopConfig,
    HookDirective,
    HookPoint,
    LLMRequest,
    LLMResponse,
    StatefulAgentLoop,
    UserMessage,
    tool,
)
from loopwright.core.timer_rules import stamp
from loopwright.engine.timer_service import LOOK_S, WHOLE_LOOK_S
from loopwright.engine.timers import fire
from loopwright.model.call_errors import SpecValidationError
from loopwright.model.codec import decode, encode
from loopwright.model.errors import AgentUnavailableError, LoopClosedError, SessionNotFoundError
from loopwright.model.events import TimerFired
from loopwright.model.timer_spec import Timer, TimerBody
from loopwright.ports.hook import TimerContext
from loopwright.ports.store import Claimable, ClaimQuery, InboxItem, PutTimer
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite_statements import DUE, NEXT_DUE
from loopwright.testing.crash_points import CrashPoints
from loopwright.testing.virtual import VirtualAmbient

HOUR = 3600.0
TOLD = '<timer id="{}" due="{}"{}>\n{}\n</timer>'


class Hears:
    """Answers with what it was told last."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def complete(self, request: LLMRequest) -> LLMResponse:
        self.heard.append(request.messages[-1].text)
        return said("ok")


def firings(loop: StatefulAgentLoop) -> list[TimerFired]:
    """What becomes of the timers that this loop object fires, as it happens."""
    found: list[TimerFired] = []
    loop.event_bus.subscribe(lambda event: found.append(event.data), "timer_fired")  # type: ignore[arg-type]
    return found


async def fired_once(loop: StatefulAgentLoop) -> int:
    return (await loop.serve(once=True, settings=QUICK)).timers


# --- setting them -----------------------------------------------------------------------------------------------------


async def test_a_timer_says_its_note_to_the_session_when_it_is_due_and_is_gone(stage: Stage) -> None:
    model = Hears()
    loop = stage.loop(llm=model, ambient=stage.time)
    sid = await loop.new_session()
    timer = await loop.schedule_timer(sid, note="look at the oven", delay_s=HOUR)
    assert (timer.due_at, timer.session_id, timer.recurring) == (stage.time.now() + HOUR, sid, False)
    assert await loop.list_timers(sid) == [timer]
    await until(lambda: model.heard)
    assert stage.time.monotonic() > HOUR - 1  # float seconds
    assert model.heard == [TOLD.format(timer.id, stamp(timer.due_at), "", "look at the oven")]
    assert await loop.list_timers(sid) == []


async def test_what_cannot_be_armed_is_refused_with_everything_that_is_wrong_and_nothing_is_stored(
    stage: Stage,
) -> None:
    loop = stage.loop(llm=Hears())
    sid = await loop.new_session()
    with pytest.raises(SpecValidationError) as caught:
        await loop.schedule_timer(sid, note="", delay_s=-1, every_s=0, cron="* * * * *")
    assert len(caught.value.problems) == 5
    with pytest.raises(SessionNotFoundError):
        await loop.schedule_timer("unknown", note="n", delay_s=1)
    with pytest.raises(AgentUnavailableError):
        await stage.loop(llm=Hears(), agent_name="other").schedule_timer(sid, note="n", delay_s=1)
    assert await loop.list_timers(sid) == []
    await loop.aclose()
    with pytest.raises(LoopClosedError):
        await loop.schedule_timer(sid, note="n", delay_s=1)


async def test_timers_are_listed_by_time_moved_by_their_id_and_taken_away_once(stage: Stage) -> None:
    loop = stage.loop(llm=Hears(), serve_timers=False)
    sid = await loop.new_session()
    for name, delay in (("b", 20), ("a", 10), ("c", 30)):
        await loop.schedule_timer(sid, note=name, delay_s=delay, timer_id=name)
    await loop.schedule_timer(sid, note="moved", delay_s=40, timer_id="a")
    assert [(timer.id, timer.note) for timer in await loop.list_timers(sid)] == [("b", "b"), ("c", "c"), ("a", "moved")]
    assert [await loop.cancel_timer(sid, "c"), await loop.cancel_timer(sid, "c")] == [True, False]
    assert [timer.id for timer in await loop.list_timers(sid)] == ["b", "a"]


async def test_a_cron_timer_is_armed_for_the_next_time_in_its_zone_and_again_after_it_fired(stage: Stage) -> None:
    loop = stage.loop(llm=Hears(), ambient=stage.time, serve_timers=False)
    sid = await loop.new_session()
    await loop.schedule_timer(sid, note="report", cron="0 9 * * *", tz="Asia/Tokyo", timer_id="daily")
    stage.time.advance(10 * 24 * HOUR)
    assert await fired_once(loop) == 1
    [timer] = await loop.list_timers(sid)
    assert (stamp(timer.due_at), timer.fire_count) == ("2027-01-26T00:00:00Z", 1)


# --- scenario 39 ------------------------------------------------------------------------------------------------------


async def test_a_timer_that_was_due_while_no_process_was_there_fires_once_after_the_start(stage: Stage) -> None:
    before = stage.loop(llm=Hears(), ambient=stage.time, serve_timers=False)
    sid = await before.new_session()
    timer = await before.schedule_timer(sid, note="late", delay_s=60)
    await stage.bury(before)
    stage.time.advance(HOUR)
    model = Hears()
    loop = stage.loop(llm=model, ambient=stage.time)
    seen = firings(loop)
    loop._begin_timers()
    await until(lambda: model.heard)
    for _ in range(500):  # some looks later nothing more has come
        await next_turn()
    assert model.heard == [TOLD.format(timer.id, stamp(timer.due_at), f' fired="{stamp(timer.due_at + 3540)}"', "late")]
    assert [event.outcome for event in seen] == ["delivered"]
    assert await loop.list_timers(sid) == []


async def test_an_open_loop_begins_by_itself_and_runs_what_another_process_fired_and_left(stage: Stage) -> None:
    model = Hears()
    loop = stage.loop(llm=model)
    sid, left, plain = [await loop.new_session() for _ in range(3)]
    due = PutTimer("t1", 1.0, encode(TimerBody(kind="message", note="due")))
    await loop.store.enqueue(sid, None, (due,))
    # As a process leaves it that is killed right behind its firing; beside it a message, which is for workers.
    await loop.store.enqueue(left, InboxItem("timer:gone:1.0", "timer", encode(UserMessage("left")), 0.0))
    await loop.store.enqueue(plain, InboxItem("m1", "message", encode(UserMessage("plain")), 0.0))
    assert loop._kernel.timer_service is None
    await loop.list_timers(sid)  # its first use
    await until(lambda: len(model.heard) == 2)
    assert "left" in model.heard
    assert (await loop.store.lookup(plain)).head.position == 1


async def test_missed_periods_are_one_firing_and_the_next_is_a_period_from_now(stage: Stage) -> None:
    loop = stage.loop(llm=Hears(), ambient=stage.time, serve_timers=False)
    seen = firings(loop)
    sid = await loop.new_session()
    await loop.schedule_timer(sid, note="tick", every_s=60, timer_id="t")
    stage.time.advance(100 * 60)
    fired_at = stage.time.now()
    assert await fired_once(loop) == 1
    [timer] = await loop.list_timers(sid)
    assert timer.fire_count == 1
    assert timer.last_fired_at is not None
    assert fired_at <= timer.last_fired_at <= fired_at + 1
    assert timer.due_at == timer.last_fired_at + 60
    assert [(event.outcome, event.next_due_at) for event in seen] == [("delivered", timer.due_at)]


async def test_a_slow_delivery_is_not_fired_twice_by_another_process(stage: Stage) -> None:
    asked_hooks: list[str] = []
    gate = asyncio.Event()

    def slow(name: str) -> AgentHooks:
        hooks = AgentHooks()

        @hooks.on(HookPoint.TIMER_FIRE)
        async def waits(context: TimerContext) -> None:
            asked_hooks.append(name)
            await gate.wait()

        return hooks

    models = [Hears(), Hears()]
    loops = [
        stage.loop(llm=model, hooks=slow(name), ambient=stage.time, serve_timers=False)
        for name, model in zip("ab", models, strict=True)
    ]
    sid = await loops[0].new_session()
    await loops[0].schedule_timer(sid, note="once", delay_s=1, timer_id="t")
    stage.time.advance(2)
    serving = [asyncio.create_task(loop.serve(once=name == 0)) for name, loop in enumerate(loops)]
    began = stage.time.monotonic()
    await until(lambda: stage.time.monotonic() > began + 900)  # many times as long as one claim
    [timer] = await loops[0].list_timers(sid)
    assert timer.status == "firing"
    gate.set()
    await until(lambda: models[0].heard + models[1].heard)
    await loops[0].aclose()
    await loops[1].aclose()
    done = await asyncio.gather(*serving)
    assert len(asked_hooks) == 1
    assert len(models[0].heard + models[1].heard) == 1
    assert sum(each.timers for each in done) == 1


async def test_a_slow_session_and_a_slow_hook_delay_no_other(stage: Stage) -> None:
    gate, model = asyncio.Event(), Hears()
    hooks = AgentHooks()

    @hooks.on(HookPoint.TIMER_FIRE)
    async def waits(context: TimerContext) -> None:
        if context.note == "slow hook":
            await gate.wait()

    class SlowForOne(Hears):
        async def complete(self, request: LLMRequest) -> LLMResponse:
            if "slow session" in request.messages[-1].text:
                await gate.wait()
            return await model.complete(request)

    loop = stage.loop(llm=SlowForOne(), hooks=hooks, ambient=stage.time)
    sids = [await loop.new_session() for _ in range(3)]
    for sid, note in zip(sids, ["slow session", "slow hook", "quick"], strict=True):
        await loop.schedule_timer(sid, note=note, delay_s=60, timer_id="t")
    await loop.schedule_timer(sids[0], note="while it runs", delay_s=120, timer_id="second")
    await until(lambda: len(model.heard) == 1)
    assert "quick" in model.heard[0]
    await until(lambda: stage.time.monotonic() > 200)
    gate.set()
    await until(lambda: len(model.heard) == 4)
    assert [text for text in model.heard[1:] if "while it runs" in text] != []


# --- what else may happen ---------------------------------------------------------------------------------------------

Hook = Callable[[TimerContext], Awaitable[HookDirective | None]]


async def skips(context: TimerContext) -> HookDirective:
    return HookDirective.SKIP


async def breaks(context: TimerContext) -> HookDirective:
    return HookDirective.BREAK


async def postpones(context: TimerContext) -> None:
    context.postpone_s = 600.0


async def raises(context: TimerContext) -> None:
    raise ValueError("not now")


async def says_nothing(context: TimerContext) -> None:
    context.message = " "


async def says_too_much(context: TimerContext) -> None:
    context.message = "\u00e9" * 32_769


async def postpones_nonsense(context: TimerContext) -> None:
    context.postpone_s = float("nan")


@pytest.mark.parametrize(
    "hook, outcome, once_again_s, recurring_again_s",
    [
        (skips, "skipped", None, 60.0),
        (breaks, "cancelled", None, None),
        (postpones, "postponed", 600.0, 600.0),
        (raises, "error", 30.0, 30.0),
        (says_nothing, "error", 30.0, 30.0),
        (says_too_much, "error", 30.0, 30.0),
        (postpones_nonsense, "error", 30.0, 30.0),
    ],
)
async def test_a_hook_decides_what_becomes_of_a_firing(
    stage: Stage, hook: Hook, outcome: str, once_again_s: float | None, recurring_again_s: float | None
) -> None:
    hooks = AgentHooks()
    hooks.register(HookPoint.TIMER_FIRE, hook)
    loop = stage.loop(llm=Hears(), hooks=hooks, ambient=stage.time, serve_timers=False)
    seen = firings(loop)
    sid = await loop.new_session()
    await loop.schedule_timer(sid, note="once", delay_s=60, timer_id="once")
    await loop.schedule_timer(sid, note="again", every_s=60, timer_id="recurring")
    stage.time.advance(60)
    now = stage.time.now()
    assert await fired_once(loop) == 0
    assert [event.outcome for event in seen] == [outcome, outcome]
    due = {timer.id: timer.due_at - now for timer in await loop.list_timers(sid)}
    expected = {"once": once_again_s, "recurring": recurring_again_s}
    assert due == {name: pytest.approx(wait_s, abs=1.0) for name, wait_s in expected.items() if wait_s is not None}
    assert all(timer.status == "armed" for timer in await loop.list_timers(sid))
    assert await loop.get_messages(sid) == ()


async def test_a_hook_may_change_what_is_said(stage: Stage) -> None:
    hooks = AgentHooks()

    @hooks.on(HookPoint.TIMER_FIRE)
    def rewords(context: TimerContext) -> None:
        context.message = f"{context.note}, for the {context.fire_count + 1}. time: {context.recurring}"

    model = Hears()
    loop = stage.loop(llm=model, hooks=hooks, ambient=stage.time, serve_timers=False)
    sid = await loop.new_session()
    await loop.schedule_timer(sid, note="tick", every_s=60)
    bare = await with_timer(loop, encode(UserMessage("bare")))
    for _ in range(2):
        stage.time.advance(60)
        await fired_once(loop)
    assert model.heard.count("bare, for the 1. time: False") == 1
    assert [text for text in model.heard if "tick" in text] == [
        "tick, for the 1. time: True",
        "tick, for the 2. time: True",
    ]
    assert texts(await loop.get_messages(bare))[0] == "user: bare, for the 1. time: False"


async def test_a_timer_that_is_cancelled_while_a_hook_is_asked_does_not_reach_the_session(stage: Stage) -> None:
    gate, came, hooks = asyncio.Event(), asyncio.Event(), AgentHooks()

    @hooks.on(HookPoint.TIMER_FIRE)
    async def waits(context: TimerContext) -> None:
        came.set()
        await gate.wait()

    loop = stage.loop(llm=Hears(), hooks=hooks)
    seen = firings(loop)
    sid = await loop.new_session()
    await loop.schedule_timer(sid, note="no", delay_s=0, timer_id="t")
    await came.wait()
    assert await loop.cancel_timer(sid, "t")
    gate.set()
    await until(lambda: not loop._kernel.timer_service._firings.tasks)  # type: ignore[union-attr]
    assert (seen, await loop.list_timers(sid), await loop.get_messages(sid)) == ([], [], ())


async def test_a_closing_loop_gives_back_what_it_asks_hooks_about_and_ends_without_a_trace(stage: Stage) -> None:
    came, hooks = asyncio.Event(), AgentHooks()

    @hooks.on(HookPoint.TIMER_FIRE)
    async def never(context: TimerContext) -> None:
        came.set()
        await asyncio.get_running_loop().create_future()

    store = MemoryStore("")
    loop = stage.loop(llm=Hears(), hooks=hooks, store=store)
    sid = await loop.new_session()
    timer = await loop.schedule_timer(sid, note="later", delay_s=0)
    await came.wait()
    others = asyncio.all_tasks()
    await loop.aclose()
    assert [task for task in asyncio.all_tasks() if task in others and task is not asyncio.current_task()] == []
    model = Hears()
    next_one = stage.loop(llm=model, store=store)
    [kept] = await next_one.list_timers(sid)
    assert (kept.due_at, kept.status) == (timer.due_at, "armed")
    assert await fired_once(next_one) == 1
    assert len(model.heard) == 1


async def test_a_running_session_takes_what_a_timer_says_at_its_next_round(stage: Stage) -> None:
    gate, came = asyncio.Event(), asyncio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        came.set()
        await gate.wait()
        return "waited"

    loop = stage.loop(asked(("c1", "wait", "{}")), lambda request: f"heard {request.messages[-1].text}", tools=[wait])
    seen = firings(loop)
    sid = await loop.new_session()
    running = asyncio.create_task(loop.send("go", session_id=sid))
    await came.wait()
    await loop.schedule_timer(sid, note="in between", delay_s=0, timer_id="t")
    await until(lambda: seen)
    gate.set()
    result = await running
    assert seen[0].outcome == "queued"
    assert "in between" in result.final_text


async def test_a_wake_reaches_the_session_as_it_was_stored_and_asks_no_hook(stage: Stage) -> None:
    hooks = AgentHooks()
    hooks.register(HookPoint.TIMER_FIRE, raises)
    loop = stage.loop(llm=Hears(), hooks=hooks, serve_timers=False)
    sid = await loop.new_session()
    wake = TimerBody(kind="wake", call_id="c1")
    await loop.store.enqueue(sid, None, (PutTimer("wake:c1", 1.0, encode(wake)),))
    assert not await loop.cancel_timer(sid, "wake:c1")
    [timer] = (await loop.store.claim(ClaimQuery(agent_names=("default",), max_format=9, now=2.0))).timers
    firing = await fire(loop._kernel, timer)
    assert firing is not None
    assert (firing.kind, firing.outcome) == ("wake", "delivered")
    [item] = (await loop.store.lookup(sid)).waiting
    assert (item.kind, item.item_id, decode(item.body, TimerBody)) == ("wake", "timer:wake:c1:1.0", wake)
    assert await fire(loop._kernel, timer) is None
    assert len((await loop.store.lookup(sid)).waiting) == 1


async def test_one_that_is_armed_again_for_a_time_at_which_it_fired_says_nothing_and_does_not_stay(
    stage: Stage,
) -> None:
    model = Hears()
    loop = stage.loop(llm=model, serve_timers=False)
    sid = await loop.new_session()
    for _ in range(2):
        await loop.schedule_timer(sid, note="start", due_at=1_000.0, timer_id="at-start")
        await fired_once(loop)
    assert len(model.heard) == 1
    assert await loop.list_timers(sid) == []


async def test_arming_one_that_nobody_here_fires_is_an_event(stage: Stage) -> None:
    loop, listener = stage.loop(llm=Hears(), serve_timers=False), Listener()
    loop.event_bus.subscribe(listener, "timer_unserved")
    sid = await loop.new_session()
    timer = await loop.schedule_timer(sid, note="n", delay_s=HOUR)
    [event] = listener.events
    assert (event.session_id, event.data.timer_id, event.data.due_at) == (sid, timer.id, timer.due_at)  # type: ignore[union-attr]
    serving = asyncio.create_task(stage.loop(llm=Hears()).serve(settings=QUICK))
    await next_turn(0.01)
    await loop.schedule_timer(sid, note="n", delay_s=HOUR)
    assert len(listener.events) == 1
    serving.cancel()
    await asyncio.wait([serving])
    await loop.schedule_timer(sid, note="n", delay_s=HOUR)
    assert len(listener.events) == 2


async def test_a_store_that_is_away_is_waited_for(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    model, store = Hears(), LookedAt(stage.time)
    loop = stage.loop(llm=model, store=store, ambient=stage.time)
    sid = await loop.new_session()
    store.away = 7
    await loop.schedule_timer(sid, note="n", delay_s=1)
    await until(lambda: model.heard)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_while_nothing_is_due_a_loop_looks_now_and_then_and_rarely_at_sessions(stage: Stage) -> None:
    queries: list[ClaimQuery] = []

    class Watched(MemoryStore):
        async def claim(self, query: ClaimQuery) -> Claimable:  # type: ignore[override]
            queries.append(query)
            return await super().claim(query)

    loop = stage.loop(llm=Hears(), store=Watched(""), ambient=stage.time)
    sid = await loop.new_session()
    await loop.send("hello", session_id=sid)
    assert queries == []
    timers: list[Timer] = [await loop.schedule_timer(sid, note="n", delay_s=2 * HOUR + n) for n in range(100)]
    await until(lambda: stage.time.now() > timers[0].due_at - HOUR)
    assert len(queries) <= HOUR / (LOOK_S / 2) + 5
    assert sum(not query.timers_only for query in queries) <= HOUR / WHOLE_LOOK_S + 5


@pytest.mark.parametrize("statement, more", [(DUE, (50,)), (NEXT_DUE, ())])
async def test_what_a_look_costs_does_not_depend_on_how_many_timers_are_armed(
    tmp_path: Path, statement: str, more: tuple[int, ...]
) -> None:
    """Both questions go through the index of times from where it counts, and stop at what they answer."""
    async with StatefulAgentLoop(
        llm=Hears(), dsn=tmp_path / "app.db", config=AgentLoopConfig(serve_timers=False)
    ) as loop:
        sid = await loop.new_session()
        armed = [PutTimer(f"t{n}", 1e9 + n, encode(TimerBody(kind="message", note="n"))) for n in range(1000)]
        await loop.store.enqueue(sid, None, tuple(armed))
    file = apsw.Connection(str(tmp_path / "app.db"))
    plan = [
        row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement}", ("default", 5e8, 99, '["default"]', *more))
    ]
    file.close()
    assert any("SEARCH t USING" in line and "lw_timers_agent" in line for line in plan), plan
    assert not any(line.startswith("SCAN t") or "TEMP B-TREE FOR ORDER BY" in line for line in plan), plan


async def test_a_loop_where_points_have_names_fires_nothing_before_a_timer_is_armed(stage: Stage) -> None:
    for ambient in (VirtualAmbient(), CrashPoints()):
        loop = stage.loop("ok", ambient=ambient)
        await loop.send("hello")
        assert loop._kernel.timer_service is None
        assert loop._timed
