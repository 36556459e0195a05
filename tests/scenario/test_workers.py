"""Workers: whoever is free goes on with what nobody runs, once, and gives it back when it has to go."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.scenario.conftest import Stage, asked, said, texts
from tests.scenario.worker_stage import QUICK, LookedAt, News, interrupted, waiting, with_timer
from tests.waiting import next_turn, until

from loopwright import (
    AgentHooks,
    CancellationToken,
    HookPoint,
    LLMRequest,
    LLMResponse,
    UserMessage,
    WorkerSettings,
    tool,
)
from loopwright.engine.set_aside import SetAside
from loopwright.model.codec import encode
from loopwright.model.errors import ConfigError, StoreUnavailableError
from loopwright.model.records import RunResumed, SendFinished, ToolFinished
from loopwright.ports import WakeSource
from loopwright.ports.store import Claimable, ClaimQuery, Committed, DropTimer, InboxItem, PutTimer, Transition
from loopwright.stores.memory import MemoryStore
from loopwright.testing import calls
from loopwright.testing.virtual import VirtualAmbient

WORKER_LOG = "loopwright.worker"


class Echo:
    """Answers with what it was told, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, request: LLMRequest) -> LLMResponse:
        self.asked.append(request.messages[-1].text)
        await next_turn()
        return said(f"heard {request.messages[-1].text}")


class Stuck:
    """A tool that waits for `gate`; `stubborn` swallows what would stop it."""

    def __init__(self, *, effect: Any = "pure", stubborn: bool = False) -> None:
        self.calls = 0
        self.at_once = 0
        self.gate = asyncio.Event()

        @tool(name="wait", effect=effect)
        async def wait() -> str:
            """Waits."""
            self.calls += 1
            self.at_once += 1
            try:
                while not self.gate.is_set():
                    try:
                        await self.gate.wait()
                    except asyncio.CancelledError:
                        if not stubborn:
                            raise
            finally:
                self.at_once -= 1
            return "waited"

        self.tools = [wait]


class Waits:
    """A model that calls the tool once and then is done."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        return asked(("c1", "wait", "{}")) if isinstance(request.messages[-1], UserMessage) else said("done")


async def test_two_workers_share_fifty_interrupted_sessions_and_each_runs_once(stage: Stage) -> None:
    first, second = Echo(), Echo()
    one, two = stage.loop(llm=first), stage.loop(llm=second)
    sids = [await interrupted(one, f"task {n}") for n in range(50)]
    both = await asyncio.gather(one.serve(once=True, settings=QUICK), two.serve(once=True, settings=QUICK))
    assert sorted(first.asked + second.asked) == sorted(f"task {n}" for n in range(50))
    assert sum(done.ended for done in both) == 50
    assert min(done.ended for done in both) > 0
    for n, sid in enumerate(sids):
        assert texts(await one.get_messages(sid)) == [f"user: task {n}", f"assistant: heard task {n}"]


async def test_waiting_messages_of_an_idle_session_are_answered(stage: Stage) -> None:
    loop, news = stage.loop("good morning"), News()
    sid = await waiting(loop, "hello")
    done = await loop.serve(once=True, settings=QUICK, on_session=news)
    assert texts(await loop.get_messages(sid)) == ["user: hello", "assistant: good morning"]
    assert [n.what for n in news.all] == ["taken", "ended"]
    assert (done.taken, done.ended, done.left) == (1, 1, 0)


async def test_what_arrives_while_a_worker_serves_is_found(stage: Stage) -> None:
    model, stop = Echo(), CancellationToken()
    loop = stage.loop(llm=model)
    serving = asyncio.create_task(loop.serve(stop=stop, settings=QUICK))
    await waiting(loop, "first")
    await until(lambda: model.asked == ["first"])
    await interrupted(loop, "second")
    await until(lambda: model.asked == ["first", "second"])
    stop.cancel()
    assert (await serving).taken == 2


async def test_sessions_of_other_agents_are_left_to_them(stage: Stage) -> None:
    theirs = stage.loop(agent_name="theirs")
    await interrupted(theirs)
    assert (await stage.loop().serve(once=True, settings=QUICK)).taken == 0


async def test_no_more_than_max_sessions_run_at_once(stage: Stage) -> None:
    stuck, stop = Stuck(), CancellationToken()
    loop = stage.loop(llm=Waits(), tools=stuck.tools)
    for _ in range(5):
        await interrupted(loop)
    settings = WorkerSettings(max_sessions=2, poll_min_s=0.005, poll_max_s=0.02)
    serving = asyncio.create_task(loop.serve(stop=stop, settings=settings))
    await until(lambda: stuck.at_once == 2)
    for _ in range(20):
        await next_turn(0.002)
        assert stuck.at_once <= 2
    stuck.gate.set()
    await until(lambda: stuck.calls == 5)
    stop.cancel()
    assert (await serving).ended == 5


async def test_a_due_timer_is_delivered_once_by_two_workers_at_the_same_time(stage: Stage) -> None:
    first, second = Echo(), Echo()
    one, two = stage.loop(llm=first), stage.loop(llm=second)
    sid = await with_timer(one, encode(UserMessage("wake up")))
    both = await asyncio.gather(one.serve(once=True, settings=QUICK), two.serve(once=True, settings=QUICK))
    assert first.asked + second.asked == ["wake up"]
    assert [sum(done.timers for done in both), sum(done.ended for done in both)] == [1, 1]
    assert texts(await one.get_messages(sid)) == ["user: wake up", "assistant: heard wake up"]
    assert (await one.store.claim(ClaimQuery(agent_names=("default",), max_format=1, now=9.0))).timers == ()


async def test_a_timer_that_is_changed_between_a_workers_look_and_its_commit_fires_as_it_is_then(stage: Stage) -> None:
    class Changing(MemoryStore):
        """Right after the first look somebody drops one timer and arms the other for later."""

        changed = False

        async def claim(self, query: ClaimQuery) -> Claimable:  # type: ignore[override]
            found = await super().claim(query)
            if not self.changed:
                self.changed = True
                ops = (DropTimer("dropped"), PutTimer("later", 2.0, encode(UserMessage("second"))))
                await self.enqueue(sid, InboxItem("change", "message", encode(UserMessage("change")), 0.0), ops)
            return found

    store = Changing()
    loop = stage.loop(llm=Echo(), store=store)
    sid = await loop.new_session()
    first = (
        PutTimer("dropped", 1.0, encode(UserMessage("first"))),
        PutTimer("later", 1.0, encode(UserMessage("first"))),
    )
    await store.enqueue(sid, InboxItem("arm", "message", encode(UserMessage("arm")), 0.0), first)
    assert (await loop.serve(once=True)).timers == 1
    said = [message.text for message in await loop.get_messages(sid) if isinstance(message, UserMessage)]
    assert sorted(said) == ["arm", "change", "second"]


async def test_a_timer_that_is_not_due_and_one_that_cannot_be_read_stay(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualAmbient()
    store = LookedAt(clock)
    loop = stage.loop(store=store, ambient=clock)
    await with_timer(loop, encode(UserMessage("later")), due_at=clock.now() + 1000)
    await with_timer(loop, b"\xff")
    with caplog.at_level(logging.INFO, WORKER_LOG):
        done = await loop.serve(stop=lambda: len(store.looks) >= 10)
    assert (done.timers, done.taken) == (0, 0)
    assert [record.levelname for record in caplog.records if "cannot be read" in record.message] == ["WARNING"]
    later = ClaimQuery(agent_names=("default",), max_format=1, now=clock.now() + 2000)
    assert len((await store.claim(later)).timers) == 2


async def test_a_session_that_needs_a_tool_that_is_not_here_is_left_alone_and_run_by_a_worker_that_has_it(
    stage: Stage,
) -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "seen"

    dying = stage.mortal("batch.before", calls(("look", {})), tools=[look])
    sid = await dying.new_session()
    await stage.dies(dying, dying.send("go", session_id=sid))
    without, news = stage.loop(), News()
    before = len(await without.store.read(sid))
    done = await without.serve(once=True, settings=QUICK, on_session=news)
    assert (done.taken, done.left) == (0, 1)
    assert [getattr(n.error, "code", "") for n in news.all] == ["agent.unavailable"]
    assert len(await without.store.read(sid)) == before
    assert (await stage.loop("fine", tools=[look]).serve(once=True, settings=QUICK)).ended == 1


async def test_what_cannot_be_run_here_is_tried_again_after_a_while_and_then_ever_more_rarely(stage: Stage) -> None:
    clock = VirtualAmbient()
    store, refused = LookedAt(clock), list[float]()
    loop = stage.loop(store=store, ambient=clock)
    await interrupted(loop)

    async def never(session_id: str) -> bool:
        refused.append(clock.monotonic())
        return False

    await loop.serve(stop=lambda: clock.monotonic() > 1000, accepts=never, settings=WorkerSettings(set_aside_s=50))
    gaps = [after - before for before, after in itertools.pairwise(refused)]
    assert [at_least <= gap <= at_least + 2 for at_least, gap in zip((50, 100, 200, 400), gaps, strict=True)] == [
        True
    ] * 4
    assert len(store.looks) > 400


def test_the_memory_of_what_is_left_alone_is_bounded() -> None:
    aside = SetAside(remembered=3)
    for n in range(5):
        aside.put(f"s{n}", now=0.0, first_s=10.0)
    assert len(aside) == 3
    assert [aside.holds(f"s{n}", now=1.0) for n in range(5)] == [False, False, True, True, True]


async def test_a_session_that_fails_before_it_takes_its_inbox_is_not_run_in_a_circle(stage: Stage) -> None:
    clock, hooks = VirtualAmbient(), AgentHooks()
    store, news = LookedAt(clock), News()

    @hooks.on(HookPoint.MESSAGE_APPEND)
    async def refuses(context: Any) -> None:
        raise ValueError("not this one")

    loop = stage.loop(store=store, ambient=clock, hooks=hooks)
    await waiting(loop)
    await loop.serve(stop=lambda: len(store.looks) >= 20, on_session=news, settings=WorkerSettings(set_aside_s=900))
    assert [n.what for n in news.all] == ["taken", "ended"]
    assert news.all[-1].result is not None
    assert news.all[-1].result.error_code == "hook.failed"


async def test_a_session_that_somebody_else_took_is_no_news(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    class Late(LookedAt):
        """Shows work that is taken by the time it is seen, as to a worker in another process."""

        identity = "the same data, seen from elsewhere"

        def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
            self.looks.append(0.0)
            return self._shown()

        async def _shown(self) -> Claimable:
            return Claimable((first,), ())

    stuck, place = Stuck(), "taken-by-another"
    owner = stage.loop(llm=Waits(), tools=stuck.tools, store=MemoryStore(place))
    sid = await owner.new_session()
    first = (await owner.store.lookup(sid)).head
    running = asyncio.create_task(owner.send("go", session_id=sid))
    await until(lambda: stuck.calls == 1)

    late, news = Late(VirtualAmbient(), place=place), News()
    worker = stage.loop(store=late, lease_wait_s=30.0)
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(5):
            done = await worker.serve(stop=lambda: len(late.looks) >= 5, settings=QUICK, on_session=news)
    assert (done.taken, done.left, news.all, caplog.records) == (0, 0, [], [])
    stuck.gate.set()
    assert (await running).status == "completed"


async def test_a_store_that_is_away_is_waited_for_and_mentioned_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    clock, model = VirtualAmbient(), Echo()
    store = LookedAt(clock, away=12)
    loop = stage.loop(llm=model, store=store, ambient=clock)
    await interrupted(loop)
    with caplog.at_level(logging.INFO, WORKER_LOG):
        done = await loop.serve(stop=lambda: bool(model.asked))
    assert done.ended == 1
    assert [(record.levelname, record.message[:17]) for record in caplog.records] == [
        ("WARNING", "the store is away"),
        ("INFO", "the store is back"),
    ]


async def test_how_long_a_store_may_be_away_can_be_bounded(stage: Stage) -> None:
    clock = VirtualAmbient()
    loop = stage.loop(store=LookedAt(clock, away=10_000), ambient=clock)
    with pytest.raises(StoreUnavailableError):
        await loop.serve(settings=WorkerSettings(away_limit_s=60.0))
    assert 60.0 <= clock.monotonic() <= 63.0


async def test_pauses_grow_to_a_bound_while_nothing_is_there_and_two_workers_do_not_march_in_step(stage: Stage) -> None:
    looks: list[list[float]] = []
    for seed in (1, 2):
        clock = VirtualAmbient(seed=seed)
        store = LookedAt(clock)
        await stage.loop(store=store, ambient=clock).serve(stop=lambda store=store: len(store.looks) >= 30)
        looks.append(store.looks)
    pauses = [after - before for before, after in itertools.pairwise(looks[0])]
    assert pauses[0] <= 0.2
    assert all(1.0 <= pause <= 2.0 for pause in pauses[6:])
    assert looks[0] != looks[1]


async def test_a_store_that_can_wake_its_workers_is_not_asked_by_the_clock_alone(stage: Stage) -> None:
    class Waking(LookedAt):
        """Wakes whoever waits when something was put into an inbox."""

        def __init__(self) -> None:
            super().__init__(clock)
            self.news = asyncio.Event()

        async def wait_for_work(self, timeout_s: float) -> None:
            self.waited = True
            await self.news.wait()
            self.news.clear()

    clock, model, stop = VirtualAmbient(), Echo(), CancellationToken()
    store = Waking()
    assert isinstance(store, WakeSource)
    assert not isinstance(LookedAt(clock), WakeSource)
    loop = stage.loop(llm=model, store=store, ambient=clock)
    serving = asyncio.create_task(loop.serve(stop=stop))
    await until(lambda: store.looks)
    for _ in range(200):
        await next_turn()
    assert len(store.looks) == 1
    await waiting(loop)
    store.news.set()
    await until(lambda: model.asked)
    stop.cancel()
    store.news.set()
    assert (await serving).ended == 1


async def test_a_stopped_worker_takes_nothing_more_and_lets_what_runs_come_to_its_end(stage: Stage) -> None:
    stuck, stop = Stuck(), CancellationToken()
    loop = stage.loop(llm=Waits(), tools=stuck.tools)
    sid = await interrupted(loop)
    serving = asyncio.create_task(loop.serve(stop=stop, settings=QUICK))
    await until(lambda: stuck.calls == 1)
    stop.cancel()
    late = await interrupted(loop)
    for _ in range(20):
        await next_turn(0.002)
    stuck.gate.set()
    done = await serving
    assert (done.taken, done.ended, done.left) == (1, 1, 0)
    assert texts(await loop.get_messages(sid))[-1] == "assistant: done"
    assert (await loop.store.lookup(late)).head.status == "running"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_what_does_not_end_in_time_is_left_interrupted_and_free_for_the_next_worker_at_once(
    stage: Stage, stubborn: bool
) -> None:
    stuck, stop, news = Stuck(effect="once", stubborn=stubborn), CancellationToken(), News()
    loop = stage.loop(llm=Waits(), tools=stuck.tools, stop_grace_s=0.05)
    sid = await interrupted(loop)
    settings = WorkerSettings(poll_min_s=0.005, poll_max_s=0.02, drain_timeout_s=0.01)
    serving = asyncio.create_task(loop.serve(stop=stop, settings=settings, on_session=news))
    await until(lambda: stuck.calls == 1)
    stop.cancel()
    done = await serving
    head = (await loop.store.lookup(sid)).head
    assert (done.taken, done.ended, done.left) == (1, 0, 1)
    assert (head.status, head.owner, head.takeovers) == ("running", None, 0)
    assert not any(isinstance(record, SendFinished | ToolFinished) for record in await stage.records(loop, sid))

    assert (await stage.loop(llm=Waits(), tools=stuck.tools).serve(once=True, settings=QUICK)).ended == 1
    assert stuck.calls == 1
    [finished] = [r for r in await stage.records(loop, sid) if isinstance(r, ToolFinished)]
    assert finished.status == "uncertain"
    assert (await loop.store.lookup(sid)).head.takeovers == 0
    stuck.gate.set()


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_worker_whose_task_or_loop_ends_stops_no_session(stage: Stage, how: str) -> None:
    stuck = Stuck()
    loop = stage.loop(llm=Waits(), tools=stuck.tools)
    sid = await interrupted(loop)
    settings = WorkerSettings(poll_min_s=0.005, poll_max_s=0.02, drain_timeout_s=0.0)
    serving = asyncio.create_task(loop.serve(settings=settings))
    await until(lambda: stuck.calls == 1)
    if how == "cancelled":
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    else:
        await loop.aclose()
        assert (await serving).left == 1
    stuck.gate.set()
    other = stage.loop(llm=Waits(), tools=stuck.tools)
    assert (await other.serve(once=True, settings=QUICK)).ended == 1
    assert (await other.get_session_stats(sid)).status == "idle"
    outcomes = [r.outcome for r in await stage.records(other, sid) if isinstance(r, SendFinished)]
    resumes = [r for r in await stage.records(other, sid) if isinstance(r, RunResumed)]
    assert (outcomes, len(resumes), stuck.calls) == (["completed"], 2, 2)


async def test_a_session_that_a_send_of_this_process_has_is_not_waited_for(stage: Stage) -> None:
    hooks, gate, came = AgentHooks(), asyncio.Event(), asyncio.Event()

    @hooks.on(HookPoint.MESSAGE_APPEND)
    async def takes_its_time(context: Any) -> None:
        came.set()
        await gate.wait()

    loop = stage.loop(llm=Echo(), hooks=hooks)
    sid = await waiting(loop, "first")
    sending = asyncio.create_task(loop.send("second", session_id=sid))
    await came.wait()
    async with asyncio.timeout(5):
        assert (await loop.serve(once=True, settings=QUICK)).taken == 0
    gate.set()
    assert (await sending).status == "completed"
    assert {"user: first", "user: second"} < set(texts(await loop.get_messages(sid)))


async def test_a_worker_does_not_return_before_the_leases_it_left_are_given_back(stage: Stage) -> None:
    class SlowToRelease(MemoryStore):
        def commit(self, transition: Transition) -> Awaitable[Committed]:
            return super().commit(transition) if transition.records else self._later(transition)

        async def _later(self, transition: Transition) -> Committed:
            await next_turn(0.05)
            return await super().commit(transition)

    stuck, stop = Stuck(), CancellationToken()
    loop = stage.loop(llm=Waits(), tools=stuck.tools, store=SlowToRelease(""))
    sid = await interrupted(loop)
    settings = WorkerSettings(poll_min_s=0.005, poll_max_s=0.02, drain_timeout_s=0.0)
    serving = asyncio.create_task(loop.serve(stop=stop, settings=settings))
    await until(lambda: stuck.calls == 1)
    stop.cancel()
    assert (await serving).left == 1
    assert (await loop.store.lookup(sid)).head.owner is None


async def test_whoever_listens_cannot_stop_a_worker(stage: Stage) -> None:
    def listens_badly(news: object) -> None:
        raise RuntimeError("not today")

    async def decides_badly(session_id: str) -> bool:
        if session_id == first:
            raise RuntimeError("no idea")
        return True

    loop = stage.loop(llm=Echo())
    first, _ = await interrupted(loop), await interrupted(loop)
    done = await loop.serve(once=True, settings=QUICK, on_session=listens_badly, accepts=decides_badly)
    assert done.ended == 1


def test_impossible_settings_are_all_named() -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerSettings(max_sessions=0, poll_min_s=-1, drain_timeout_s=-1)
    assert len(caught.value.problems) == 3
    with pytest.raises(ConfigError, match="poll_max_s"):
        WorkerSettings(poll_min_s=3.0, poll_max_s=2.0)
