"""Budgets of money: what is set aside before a call, what it is settled at, and what a refusal leaves behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.scenario.conftest import Listener, Stage, asked
from tests.servers import client

from loopwright import (
    AgentLoopConfig,
    CancellationToken,
    LLMRequest,
    LLMResponse,
    LLMRetryPolicy,
    StatefulAgentLoop,
    Usage,
    tool,
)
from loopwright.cli.usage_report import Wanted, usage_report
from loopwright.model.call_errors import CompactionFailed
from loopwright.model.context_records import CostReserved, CostSettled, FoldFailed, FoldMade
from loopwright.model.errors import BudgetRefusedError, LLMRequestError, LLMTransientError
from loopwright.model.records import AssistantMessageAdded, AttemptFailed, SendFinished
from loopwright.ports.ledger import BudgetAccount
from loopwright.testing import ScriptedLLM, gated
from loopwright.testing.virtual import VirtualAmbient
from loopwright.transports.price_table import PriceTable

PRICES = PriceTable({"scripted": {"input": 1, "output": 10}})
CALL = 1_020_000
"""Nanodollars for `reply()`; what is reserved for it is less than `MOST`."""
MOST = 1_100_000
PLENTY = 1.0


def reply(text: str = "done", **more: Any) -> LLMResponse:
    return LLMResponse(text=text, finish_reason="stop", usage=Usage(20, 100, calls=1), model="scripted", **more)


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


def looks() -> LLMResponse:
    return LLMResponse(tool_calls=asked(("c", "look", "{}")).tool_calls, usage=reply().usage, model="scripted")


def bounded(stage: Stage, *steps: Any, **options: Any) -> StatefulAgentLoop:
    """A loop whose calls are priced, with replies of at most 100 tokens."""
    return stage.loop(*steps, **{"prices": PRICES, "max_output_tokens": 100, **options})


async def money_of(stage: Stage, loop: StatefulAgentLoop, sid: str) -> list[tuple[str, int]]:
    """What became of each reservation of a session: how, and at what."""
    records = await stage.records(loop, sid)
    reserved = [r.hold_id for r in records if isinstance(r, CostReserved)]
    settled = [r for r in records if isinstance(r, CostSettled)]
    assert reserved == [r.hold_id for r in settled]
    assert len(set(reserved)) == len(reserved)
    return [(r.how, r.nanodollars) for r in settled]


async def test_money_is_held_while_the_model_works_and_what_it_cost_is_spent_with_the_reply(stage: Stage) -> None:
    during: list[BudgetAccount] = []

    async def working(_: LLMRequest) -> LLMResponse:
        during.append(await loop.store.budget("team"))
        return reply()

    loop = bounded(stage, working, cost_budgets={"team": PLENTY})
    result = await loop.send("hi")
    assert (during[0].spent, during[0].holds) == (0, 1)
    assert 1_000_000 < during[0].held < MOST
    assert await loop.store.budget("team") == BudgetAccount("team", CALL)
    assert await money_of(stage, loop, result.session_id) == [("paid", CALL)]
    assert result.usage == reply().usage + Usage(nanodollars=CALL)
    kinds = [type(r) for r in await stage.records(loop, result.session_id)]
    assert kinds[-4:] == [CostReserved, CostSettled, AssistantMessageAdded, SendFinished]


async def test_without_a_budget_nothing_is_reserved(stage: Stage) -> None:
    loop = bounded(stage, reply())
    result = await loop.send("hi")
    assert await money_of(stage, loop, result.session_id) == []


BUDGETS: dict[str, dict[str, Any]] = {
    "run": {"run_cost_budget_usd": 0.001},
    "session": {"session_cost_budget_usd": 0.001},
    "team": {"cost_budgets": {"other": PLENTY, "team": 0.001}},
}


@pytest.mark.parametrize("name", sorted(BUDGETS))
async def test_a_call_for_which_too_little_is_left_is_not_made_and_the_session_stays_usable(
    stage: Stage, name: str
) -> None:
    listener = Listener()
    loop = bounded(stage, **BUDGETS[name])
    loop.event_bus.subscribe(listener)
    refused = await loop.send("hi")
    assert (refused.status, refused.error_code, refused.usage.calls) == ("budget_exceeded", "budget.refused", 0)
    error = refused.error
    assert isinstance(error, BudgetRefusedError)
    assert (error.key, error.limit, error.left) == (name, 1_000_000, 1_000_000)
    assert error.asked > 1_000_000
    assert f"budget {name!r}" in str(error)
    assert listener.kinds("agent_error", "run_ended") == ["agent_error", "run_ended"]
    assert [(b.spent, b.held) for b in await loop.store.budgets()] == []
    assert await money_of(stage, loop, refused.session_id) == []
    again = bounded(stage, lambda request: reply(f"{len(request.messages)} messages"), cost_budgets={"team": PLENTY})
    assert (await again.send("and now?", session_id=refused.session_id)).final_text == "2 messages"
    assert list(await loop.store.check()) == []


async def test_a_service_that_names_its_model_with_replies_only_is_bounded_from_its_second_call_on(
    stage: Stage,
) -> None:
    class Nameless:
        calls = 0

        async def complete(self, _: LLMRequest) -> LLMResponse:
            self.calls += 1
            return reply()

        async def aclose(self) -> None:
            return

    service = Nameless()
    loop = bounded(stage, llm=service, session_cost_budget_usd=1.5 * CALL / 1e9)
    first = await loop.send("hi")
    assert (first.status, first.usage.nanodollars) == ("completed", CALL)
    second = await loop.send("more", session_id=first.session_id)
    assert (second.error_code, service.calls) == ("budget.refused", 1)


async def test_a_refusal_in_the_middle_keeps_what_was_said_and_done(stage: Stage) -> None:
    loop = bounded(stage, looks(), tools=[look], cost_budgets={"team": 1.5 * CALL / 1e9})
    result = await loop.send("go")
    assert (result.status, result.rounds, result.usage.nanodollars) == ("budget_exceeded", 1, CALL)
    assert isinstance(result.error, BudgetRefusedError)
    assert (result.error.key, result.error.spent, result.error.held) == ("team", CALL, 0)
    assert [type(m).__name__ for m in await loop.get_messages(result.session_id)][-1] == "ToolResultMessage"
    assert await loop.store.budget("team") == BudgetAccount("team", CALL)


async def test_the_budget_of_a_session_counts_all_of_its_sends_in_every_process(stage: Stage) -> None:
    limit = 2.5 * MOST / 1e9
    first = await bounded(stage, reply(), session_cost_budget_usd=limit).send("1")
    second = await bounded(stage, reply(), session_cost_budget_usd=limit).send("2", session_id=first.session_id)
    third = await bounded(stage, session_cost_budget_usd=limit).send("3", session_id=first.session_id)
    assert [one.status for one in (first, second, third)] == ["completed", "completed", "budget_exceeded"]


async def test_failed_attempts_are_settled_at_what_they_cost(stage: Stage) -> None:
    empty = LLMResponse(finish_reason="stop", model="scripted")
    busy = LLMTransientError("busy", status=503)
    retry = LLMRetryPolicy(max_attempts=2)
    loop = bounded(stage, empty, reply(), busy, busy, ambient=stage.time, retry=retry, cost_budgets={"team": PLENTY})
    result = await loop.send("hi there")
    failed = next(r for r in await stage.records(loop, result.session_id) if isinstance(r, AttemptFailed))
    degraded = await loop.send("again", session_id=result.session_id)
    assert (result.status, degraded.status, failed.usage.nanodollars > 0) == ("completed", "degraded", True)
    paid = failed.usage.nanodollars + CALL
    assert await money_of(stage, loop, result.session_id) == [("paid", paid), ("paid", 0)]
    assert await loop.store.budget("team") == BudgetAccount("team", paid)


async def test_a_stop_during_the_call_settles_what_the_attempt_cost(stage: Stage) -> None:
    started, token = asyncio.Event(), CancellationToken()
    loop = bounded(stage, gated(reply(), asyncio.Event(), reached=started), cost_budgets={"team": PLENTY})
    work = asyncio.create_task(loop.send("hi", stop=token))
    await started.wait()
    token.cancel("enough")
    result = await work
    assert result.status == "cancelled"
    assert await money_of(stage, loop, result.session_id) == [("paid", result.usage.nanodollars)]
    assert await loop.store.budget("team") == BudgetAccount("team", result.usage.nanodollars)


async def test_a_task_cancelled_during_the_call_settles_the_estimate(stage: Stage) -> None:
    started = asyncio.Event()
    loop = bounded(stage, gated(reply(), asyncio.Event(), reached=started), cost_budgets={"team": PLENTY})
    sid = await loop.new_session()
    work = asyncio.create_task(loop.send("hi", session_id=sid))
    await started.wait()
    held = (await loop.store.budget("team")).held
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await money_of(stage, loop, sid) == [("estimated", held)]
    assert await loop.store.budget("team") == BudgetAccount("team", held)
    stats = await loop.get_session_stats(sid)
    assert (stats.usage.nanodollars, stats.usage.estimated) == (held, True)


class Meanwhile(VirtualAmbient):
    """Does something when a named point is reached."""

    quiet = False

    def __init__(self, at: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._at = at
        self._act = act

    def reach(self, point: str) -> None:
        super().reach(point)
        if point == self._at:
            self._act()


async def test_a_stop_before_the_call_begins_releases_what_was_held(stage: Stage) -> None:
    token = CancellationToken()
    ambient = Meanwhile("commit.after:cost_reserved", lambda: token.cancel("enough"))
    loop = bounded(stage, cost_budgets={"team": PLENTY}, ambient=ambient)
    result = await loop.send("hi", stop=token)
    assert (result.status, result.usage.nanodollars) == ("cancelled", 0)
    assert await money_of(stage, loop, result.session_id) == [("released", 0)]
    assert await loop.store.budget("team") == BudgetAccount("team")


async def test_a_task_cancelled_before_the_call_begins_releases_what_was_held(stage: Stage) -> None:
    tasks: list[asyncio.Task[Any]] = []

    def cancel() -> None:
        tasks[0].cancel()

    ambient = Meanwhile("commit.before:cost_reserved", cancel)
    loop = bounded(stage, cost_budgets={"team": PLENTY}, ambient=ambient)
    sid = await loop.new_session()
    tasks.append(asyncio.create_task(loop.send("hi", session_id=sid)))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert await money_of(stage, loop, sid) == [("released", 0)]
    assert await loop.store.budget("team") == BudgetAccount("team")


@pytest.mark.parametrize("at", ["commit.after:cost_reserved", "model.before", "model.after"])
async def test_who_goes_on_settles_what_a_dead_process_held_at_its_estimate_and_marks_it(stage: Stage, at: str) -> None:
    steps = (reply(),) if at == "model.after" else ()
    loop = stage.mortal(at, *steps, prices=PRICES, max_output_tokens=100, cost_budgets={"team": PLENTY})
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("hi", session_id=sid))
    again = stage.loop(reply())  # neither prices nor budgets: what is held is known from the journal
    held = await again.store.budget("team")
    result = await again.resume(sid)
    assert (held.holds, result.status, result.usage.estimated) == (1, "completed", True)
    assert await money_of(stage, again, sid) == [("estimated", held.held)]
    assert await again.store.budget("team") == BudgetAccount("team", held.held)
    assert result.usage.nanodollars == held.held
    assert (await again.get_session_stats(sid)).usage == result.usage
    report = await usage_report(again.store, Wanted(by="model", session_id=sid))
    assert report.total.usage == result.usage
    assert {group.key for group in report.groups} == {"scripted"}


async def test_an_interrupted_send_that_is_aborted_settles_what_it_held(stage: Stage) -> None:
    loop = stage.mortal("model.before", prices=PRICES, max_output_tokens=100, cost_budgets={"team": PLENTY})
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("hi", session_id=sid))
    again = bounded(stage, reply(), cost_budgets={"team": PLENTY}, on_interrupted="abort")
    held = (await again.store.budget("team")).held
    result = await again.send("something else", session_id=sid)
    assert result.usage.nanodollars == CALL
    assert await money_of(stage, again, sid) == [("estimated", held), ("paid", CALL)]


async def test_a_model_without_a_price_is_not_bounded_which_is_said_and_the_run_goes_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"nobody-knows-{stage.dsn[:6]}"
    answer = LLMResponse(text="done", finish_reason="stop", usage=Usage(20, 100, calls=1), model=name)
    loop = bounded(
        stage, llm=ScriptedLLM([answer], model=name), cost_budgets={"team": 0.001}, run_cost_budget_usd=0.001
    )
    with caplog.at_level(logging.WARNING, "loopwright.prices"):
        result = await loop.send("hi")
    assert (result.status, result.usage.unpriced_calls) == ("completed", 1)
    assert [name in text and "budgets do not bound" in text for text in caplog.messages] == [True]
    assert await loop.store.budget("team") == BudgetAccount("team")


async def test_what_a_service_says_its_call_cost_is_spent_of_shared_budgets_too(stage: Stage) -> None:
    answer = LLMResponse(text="done", finish_reason="stop", usage=Usage(20, 100, calls=1, nanodollars=77))
    loop = bounded(stage, llm=ScriptedLLM([answer], model="dear"), cost_budgets={"team": PLENTY})
    assert (await loop.send("hi")).usage.nanodollars == 77
    assert await loop.store.budget("team") == BudgetAccount("team", 77)


# --- folds ------------------------------------------------------------------------------------------------------------


async def talked(loop: StatefulAgentLoop, sends: int = 6) -> str:
    sid = await loop.new_session()
    for n in range(sends):
        await loop.send(f"{n} " + "word " * 40, session_id=sid)
    return sid


async def test_a_fold_that_was_asked_for_reserves_and_settles_as_a_round_does(stage: Stage) -> None:
    loop = bounded(stage, *[reply() for _ in range(6)], reply("the note"), cost_budgets={"team": PLENTY})
    sid = await talked(loop)
    assert await loop.fold(sid)
    fold = next(r for r in await stage.records(loop, sid) if isinstance(r, FoldMade))
    assert fold.usage.nanodollars == CALL
    assert await money_of(stage, loop, sid) == [("paid", CALL)] * 7
    assert await loop.store.budget("team") == BudgetAccount("team", 7 * CALL)
    assert (await loop.get_session_stats(sid)).usage.nanodollars == 7 * CALL


async def test_a_fold_for_which_too_little_is_left_leaves_history_whole(stage: Stage) -> None:
    sid = await talked(bounded(stage, *[reply() for _ in range(6)], prices=PRICES))
    loop = bounded(stage, session_cost_budget_usd=6 * CALL / 1e9)
    with pytest.raises(CompactionFailed, match=r"budget\.refused|budget 'session'"):
        await loop.fold(sid)
    failed = next(r for r in await stage.records(loop, sid) if isinstance(r, FoldFailed))
    assert failed.error_code == "budget.refused"
    assert len(await loop.get_messages(sid)) == 12


def guessed() -> LLMResponse:
    """The same, of which nothing is learned about the size of the window."""
    return structs.replace(reply(), usage=structs.replace(reply().usage, estimated=True))


async def test_a_fold_beside_the_runs_reserves_in_a_turn_of_its_own(stage: Stage) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    loop = bounded(stage, *[reply() for _ in range(6)], cost_budgets={"team": PLENTY})
    sid = await talked(loop)
    folding = bounded(
        stage,
        guessed(),
        gated(reply("the note"), gate, reached=reached),
        guessed(),
        cost_budgets={"team": PLENTY},
        context_budget_tokens=700,
    )
    await folding.send("hi", session_id=sid)
    await reached.wait()
    assert (await loop.store.budget("team")).holds == 1
    await folding.send("and on", session_id=sid)  # takes and gives back the lease: the fold's money stays held
    assert (await loop.store.budget("team")).holds == 1
    gate.set()
    await asyncio.gather(*folding._kernel.background)
    records = await stage.records(loop, sid)
    assert any(isinstance(r, FoldMade) for r in records)
    settled = [r for r in records if isinstance(r, CostSettled)]
    assert [(r.how, r.nanodollars) for r in settled] == [("paid", CALL)] * 9
    assert await loop.store.budget("team") == BudgetAccount("team", 9 * CALL)


async def test_money_of_a_fold_whose_process_died_is_settled_by_the_next_send(stage: Stage) -> None:
    steps = [reply() for _ in range(7)]
    loop = stage.mortal("model.after#7", *steps, prices=PRICES, max_output_tokens=100, cost_budgets={"team": PLENTY})
    sid = await talked(loop)
    await stage.dies(loop, loop.fold(sid))
    again = bounded(stage, reply(), cost_budgets={"team": PLENTY})
    held = (await again.store.budget("team")).held
    result = await again.send("hi", session_id=sid)
    assert result.usage.nanodollars == CALL  # the fold was no part of this send
    assert await money_of(stage, again, sid) == [*[("paid", CALL)] * 6, ("estimated", held), ("paid", CALL)]
    assert (await again.get_session_stats(sid)).usage.nanodollars == 7 * CALL + held
    assert await again.store.budget("team") == BudgetAccount("team", 7 * CALL + held)


async def test_a_fork_does_not_settle_what_its_base_holds(stage: Stage) -> None:
    steps = [reply() for _ in range(7)]
    loop = stage.mortal("model.after#7", *steps, prices=PRICES, max_output_tokens=100, cost_budgets={"team": PLENTY})
    sid = await talked(loop)
    await stage.dies(loop, loop.fold(sid))
    again = bounded(stage, reply(), cost_budgets={"team": PLENTY}, session_cost_budget_usd=1.5 * MOST / 1e9)
    fork = await again.fork(sid)
    assert isinstance((await stage.records(again, fork))[-2], CostReserved)
    result = await again.send("otherwise", session_id=fork)
    assert (result.status, result.usage.nanodollars) == ("completed", CALL)
    assert (await again.store.budget("team")).holds == 1


# --- many at once -----------------------------------------------------------------------------------------------------

AT_ONCE = 64
FOR = 20
"""Calls that the shared budget has room for."""


@pytest.fixture(
    params=[
        "sqlite",
        "memory",
        pytest.param("postgres", marks=pytest.mark.server),
        pytest.param("mariadb", marks=pytest.mark.server),
    ]
)
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A store of each kind."""
    with ExitStack() as stack:
        if request.param in ("postgres", "mariadb"):
            yield stack.enter_context(client.shared(request.param).database())
        else:
            yield str(tmp_path / "app.db") if request.param == "sqlite" else f"memory:{tmp_path}"


async def test_64_runs_at_once_never_exceed_a_shared_budget_by_more_than_one_reservation(anywhere: str) -> None:
    seen: list[BudgetAccount] = []
    limit = FOR * MOST

    async def answer(_: LLMRequest) -> LLMResponse:
        seen.append(await loops[0].store.budget("team"))
        return reply()

    config = AgentLoopConfig(cost_budgets={"team": limit / 1e9}, max_output_tokens=100)
    models = [ScriptedLLM([answer] * AT_ONCE * 3) for _ in range(2)]
    loops = [StatefulAgentLoop(llm=model, dsn=anywhere, prices=PRICES, config=config) for model in models]

    async def three_sends(n: int) -> list[str]:
        loop = loops[n % len(loops)]
        first = await loop.send("hi")
        rest = [await loop.send("more", session_id=first.session_id) for _ in range(2)]
        return [one.status for one in (first, *rest)]

    outcomes = [status for run in await asyncio.gather(*[three_sends(n) for n in range(AT_ONCE)]) for status in run]
    spent = await loops[0].store.budget("team")
    made = sum(len(model.requests) for model in models)
    assert set(outcomes) == {"completed", "budget_exceeded"}
    assert outcomes.count("completed") == made == len(seen)
    assert spent == BudgetAccount("team", made * CALL)
    assert made >= FOR
    assert max(one.spent + one.held for one in seen) <= limit
    assert spent.spent <= limit
    assert list(await loops[0].store.check()) == []
    for loop in loops:
        await loop.aclose()


# --- chains -----------------------------------------------------------------------------------------------------------

CHAINS = {"a cheap first": "cheap", "an unpriced first": "nobody-knows-the-first"}
DEAR = PriceTable({"cheap": {"input": 0.001, "output": 0.001}, "dear": {"input": 100, "output": 1000}})
DEAR_CALL = 102_000_000


class Chained:
    """A model that is refused its key, or answers."""

    def __init__(self, model: str, *, refused: bool) -> None:
        self.model = model
        self.refused = refused

    async def complete(self, request: LLMRequest) -> LLMResponse:
        if self.refused:
            raise LLMRequestError("no such key", status=401)
        return LLMResponse(text="done", finish_reason="stop", usage=Usage(20, 100, calls=1), model=self.model)

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("first", sorted(CHAINS))
@pytest.mark.parametrize("bound", ["run", "session", "team"])
async def test_a_dearer_model_of_the_chain_is_reserved_for_before_it_can_be_asked(
    stage: Stage, first: str, bound: str
) -> None:
    models = Chained(CHAINS[first], refused=True), Chained("dear", refused=False)
    loop = bounded(stage, llm=models[0], fallbacks=[models[1]], prices=DEAR, **BUDGETS[bound])
    refused = await loop.send("hi")
    assert (refused.status, refused.usage.nanodollars) == ("budget_exceeded", 0)


@pytest.mark.parametrize("first", sorted(CHAINS))
async def test_64_runs_at_once_with_a_dearer_fallback_stay_within_a_shared_budget(stage: Stage, first: str) -> None:
    models = Chained(CHAINS[first], refused=True), Chained("dear", refused=False)
    budgets = {"team": 5 * DEAR_CALL * 1.1 / 1e9}
    loop = bounded(stage, llm=models[0], fallbacks=[models[1]], prices=DEAR, cost_budgets=budgets)
    sent = await asyncio.gather(*[loop.send("hi") for _ in range(AT_ONCE)])
    made = [one.status for one in sent].count("completed")
    assert made >= 5
    assert await loop.store.budget("team") == BudgetAccount("team", made * DEAR_CALL)
    assert made * DEAR_CALL <= budgets["team"] * 1e9


async def test_a_model_of_the_chain_that_nobody_opened_yet_is_reserved_for_by_its_provider_and_name(
    stage: Stage,
) -> None:
    prices = PriceTable({"cheap": {"input": 0, "output": 0}, "ollama:dear": {"input": 100, "output": 1000}})
    fallbacks = ["ollama:dear"]
    loop = bounded(stage, llm=Chained("cheap", refused=False), fallbacks=fallbacks, prices=prices, **BUDGETS["run"])
    assert (await loop.send("hi")).status == "budget_exceeded"
