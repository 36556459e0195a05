"""What calls cost: known prices, unknown ones, failing lists, and the budget of a run."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.scenario.conftest import Listener, Stage, asked

from loopwright import AgentLoopConfig, LLMResponse, LLMRetryPolicy, StatefulAgentLoop, Usage, tool
from loopwright.model.call_errors import CompactionFailed
from loopwright.model.errors import ConfigError, LLMTransientError
from loopwright.model.records import AssistantMessageAdded, AttemptFailed, SendStarted
from loopwright.testing import ScriptedLLM
from loopwright.transports.price_table import PriceTable

PRICES = PriceTable({"scripted": {"input": 1, "output": 10, "cached": 0.1}})
CALL = 2_000_000
"""Nanodollars for `reply()`."""


def reply(text: str = "done", model: str = "scripted", **usage: Any) -> LLMResponse:
    used = Usage(**{"input_tokens": 1000, "output_tokens": 100, "calls": 1, **usage})
    return LLMResponse(text=text, finish_reason="stop", usage=used, model=model)


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


def looks() -> LLMResponse:
    return LLMResponse(
        tool_calls=asked(("c", "look", "{}")).tool_calls, usage=Usage(1000, 100, calls=1), model="scripted"
    )


async def test_a_call_is_priced_and_its_cost_is_in_record_result_session_and_event(stage: Stage) -> None:
    listener = Listener()
    loop = stage.loop(reply(cached_tokens=500), reply(), prices=PRICES)
    loop.event_bus.subscribe(listener)
    first = await loop.send("hi")
    second = await loop.send("more", session_id=first.session_id)
    assert first.usage.nanodollars == 500 * 1_000 + 500 * 100 + 100 * 10_000
    assert second.usage.nanodollars == CALL
    assert second.usage.cost_usd == 0.002
    records = await stage.records(loop, first.session_id)
    stored = [r.usage.nanodollars for r in records if isinstance(r, AssistantMessageAdded)]
    assert stored == [first.usage.nanodollars, CALL]
    stats = await loop.get_session_stats(first.session_id)
    assert stats.usage == first.usage + second.usage
    updates = [event.data.call.nanodollars for event in listener.events if event.type == "usage_updated"]
    assert updates == stored


async def test_a_session_read_from_the_store_knows_what_it_cost(stage: Stage) -> None:
    loop = stage.loop(looks(), prices=PRICES, tools=[look], max_rounds=1)
    first = await loop.send("hi", run_token_budget=1)
    await loop.aclose()
    again = stage.loop(reply(), prices=PRICES, tools=[look])
    second = await again.send("more", session_id=first.session_id)
    stats = await again.get_session_stats(first.session_id)
    assert (first.usage.nanodollars, second.usage.nanodollars, stats.usage.nanodollars) == (CALL, CALL, 2 * CALL)


async def test_without_prices_nothing_is_counted(stage: Stage) -> None:
    result = await stage.loop(reply()).send("hi")
    assert (result.usage.nanodollars, result.usage.unpriced_calls) == (0, 0)


async def test_a_model_without_a_price_is_counted_as_unpriced_said_once_and_the_run_goes_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    listener, model = Listener(), f"unheard-of-{stage.dsn[:6]}"
    loop = stage.loop(looks_at(model), reply(model=model), reply(), prices=PRICES, tools=[look])
    loop.event_bus.subscribe(listener)
    loop._kernel.llm.model = model  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, "loopwright.prices"):
        result = await loop.send("hi")
        later = await loop.send("again", session_id=result.session_id)
    assert (result.status, result.usage.unpriced_calls, result.usage.nanodollars) == ("completed", 2, 0)
    assert (later.usage.unpriced_calls, later.usage.nanodollars) == (0, CALL)
    assert [model in message for message in caplog.messages] == [True]
    said = [event.data for event in listener.events if event.type == "status_changed"]
    assert [(one.status, model in one.detail) for one in said] == [("price_unknown", True)]


def looks_at(model: str) -> LLMResponse:
    return LLMResponse(tool_calls=looks().tool_calls, usage=looks().usage, model=model)


async def test_the_name_that_was_asked_for_has_a_price_where_the_answered_one_has_none(stage: Stage) -> None:
    loop = stage.loop(reply(model="deployment-7"), prices=PRICES)
    assert (await loop.send("hi")).usage.nanodollars == CALL


async def test_an_estimate_of_tokens_is_an_estimate_of_cost(stage: Stage) -> None:
    loop = stage.loop(LLMResponse(text="a" * 40, finish_reason="stop", model="scripted"), prices=PRICES)
    usage = (await loop.send("hi")).usage
    assert usage.estimated
    assert usage.nanodollars == usage.input_tokens * 1_000 + usage.output_tokens * 10_000 > 0


async def test_a_failed_attempt_that_used_tokens_costs_and_one_that_was_refused_does_not(stage: Stage) -> None:
    empty = LLMResponse(finish_reason="stop", model="scripted")
    loop = stage.loop(
        LLMTransientError("busy", status=503), empty, reply(), prices=PRICES, ambient=stage.time, retry=LLMRetryPolicy()
    )
    result = await loop.send("hello there")
    failed = [r for r in await stage.records(loop, result.session_id) if isinstance(r, AttemptFailed)]
    assert [bool(one.usage.nanodollars) for one in failed] == [False, True]
    assert result.usage.nanodollars == failed[1].usage.nanodollars + CALL
    assert result.usage.unpriced_calls == 0


async def test_a_service_that_knows_its_own_cost_is_believed(stage: Stage) -> None:
    loop = stage.loop(reply(nanodollars=7), prices=PRICES)
    assert (await loop.send("hi")).usage.nanodollars == 7


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Odd:
    """A price list that a host got wrong."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def cost(self, usage: Usage, *, model: str, provider: str | None, at: float) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


BAD_PRICES: list[Any] = [
    RuntimeError("no"),
    Unspeakable(),
    SystemExit(1),
    GeneratorExit(),
    -1,
    0.5,
    "1",
    True,
    2**63,
    10**5000,
    -(10**5000),
]


@pytest.mark.parametrize("answer", BAD_PRICES, ids=lambda one: type(one).__name__)
async def test_a_price_list_that_fails_or_answers_nonsense_fails_no_run(stage: Stage, answer: Any) -> None:
    result = await stage.loop(reply(), prices=Odd(answer)).send("hi")
    assert (result.status, result.usage.unpriced_calls, result.usage.nanodollars) == ("completed", 1, 0)


@pytest.mark.parametrize("given", [-5, 1.5, "x", True, 2**63], ids=repr)
async def test_a_cost_that_cannot_be_is_said_once_and_the_reply_costs_what_the_list_says(
    stage: Stage, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model, listener = f"says-{given!r}-{stage.dsn[:6]}", Listener()
    prices = PriceTable({"says-*": {"input": 1, "output": 10}})
    answer = reply(model=model, nanodollars=given)
    loop = stage.loop(answer, answer, prices=prices, cost_budgets={"team": 1.0}, max_output_tokens=100)
    loop.event_bus.subscribe(listener)
    with caplog.at_level(logging.WARNING, "loopwright.prices"):
        result = await loop.send("hi")
        again = await loop.send("more", session_id=result.session_id)
    assert [(one.status, one.final_text) for one in (result, again)] == [("completed", "done")] * 2
    assert result.usage == Usage(1000, 100, calls=1, nanodollars=CALL)
    assert (await loop.store.budget("team")).spent == 2 * CALL
    assert ["nanodollars that cannot be" in message for message in caplog.messages] == [True]
    said = [event.data.status for event in listener.events if event.type == "status_changed"]
    assert said == ["usage_odd"]


async def test_a_cost_that_cannot_be_is_counted_as_unpriced_where_nobody_knows_a_price(stage: Stage) -> None:
    used = (await stage.loop(reply(nanodollars=-5)).send("hi")).usage
    assert used == Usage(1000, 100, calls=1, unpriced_calls=1)


@pytest.mark.parametrize(
    "given",
    [
        Usage(2**63, 1, calls=1),
        Usage(-5, 100, calls=1),
        Usage("20", 1),  # type: ignore[arg-type]
        Usage(1, 1, calls=True),
        Usage(1, 1, 0.5),  # type: ignore[arg-type]
        None,
    ],
    ids=repr,
)
async def test_tokens_that_cannot_be_are_estimated_and_the_reply_is_kept(stage: Stage, given: Any) -> None:
    answer = LLMResponse(text="a" * 40, finish_reason="stop", usage=given, model="scripted")
    loop = stage.loop(answer, prices=PRICES)
    result = await loop.send("hi")
    assert (result.status, result.final_text) == ("completed", "a" * 40)
    assert (result.usage.estimated, result.usage.output_tokens, result.usage.calls) == (True, 10, 1)
    assert result.usage.nanodollars == result.usage.input_tokens * 1_000 + 10 * 10_000
    assert (await loop.get_session_stats(result.session_id)).usage == result.usage


async def test_an_empty_reply_costs_what_its_provider_said_and_so_does_one_of_a_fold(stage: Stage) -> None:
    empty = LLMResponse(reasoning="hm", finish_reason="stop", usage=Usage(20, 5000, calls=1), model="scripted")
    retry = LLMRetryPolicy(max_attempts=2)
    loop = stage.loop(empty, empty, *[reply()] * 6, empty, empty, prices=PRICES, ambient=stage.time, retry=retry)
    result = await loop.send("hi")
    assert (result.status, result.usage) == ("degraded", Usage(40, 10_000, calls=2, nanodollars=2 * 50_020_000))
    sid = result.session_id
    for _ in range(6):
        await loop.send("word " * 40, session_id=sid)
    before = (await loop.get_session_stats(sid)).usage
    with pytest.raises(CompactionFailed):
        await loop.fold(sid)
    after = (await loop.get_session_stats(sid)).usage
    assert after == before + Usage(40, 10_000, calls=2, nanodollars=2 * 50_020_000)


async def test_the_list_is_told_model_provider_and_time(stage: Stage) -> None:
    heard: list[tuple[str, str | None, float]] = []

    class Told:
        def cost(self, usage: Usage, *, model: str, provider: str | None, at: float) -> int | None:
            heard.append((model, provider, at))
            return 1

    loop = stage.loop(reply(), prices=Told(), ambient=stage.time)
    loop._kernel.llm.provider = "openai"  # type: ignore[attr-defined]
    await loop.send("hi")
    assert heard == [("scripted", "openai", stage.time.now())]


async def test_the_round_that_crossed_the_cost_budget_finishes_and_nothing_more_is_paid_for(stage: Stage) -> None:
    loop = stage.loop(looks(), prices=PRICES, tools=[look], run_cost_budget_usd=0.002, max_output_tokens=100)
    result = await loop.send("go")
    assert (result.status, result.usage.nanodollars) == ("budget_exceeded", CALL)
    started = next(r for r in await stage.records(loop, result.session_id) if isinstance(r, SendStarted))
    assert started.run_cost_budget == CALL


async def test_a_resume_elsewhere_keeps_the_cost_budget_of_the_send(stage: Stage) -> None:
    loop = stage.mortal(
        "commit.after:cost_settled+assistant_message_added",
        looks(),
        prices=PRICES,
        tools=[look],
        run_cost_budget_usd=0.002,
        max_output_tokens=100,
    )
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("go", session_id=sid))
    result = await stage.loop(prices=PRICES, tools=[look]).resume(sid)
    assert result.status == "budget_exceeded"


@pytest.mark.parametrize(
    "settings",
    [{"run_cost_budget_usd": 1.0}, {"session_cost_budget_usd": 1.0}, {"cost_budgets": {"customer": 1.0}}],
)
def test_a_budget_of_money_without_prices_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="prices"):
        StatefulAgentLoop(llm=ScriptedLLM(), dsn="memory:", config=AgentLoopConfig(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"run_cost_budget_usd": 0},
        {"session_cost_budget_usd": -1.0},
        {"run_cost_budget_usd": float("inf")},
        {"run_cost_budget_usd": "1"},
        {"cost_budgets": {"": 1.0}},
        {"cost_budgets": {"a\n": 1.0}},
        {"cost_budgets": {"a" * 201: 1.0}},
        {"cost_budgets": {"a": 0.0}},
        {"cost_budgets": {"a": float("nan")}},
        {"cost_budgets": {"a": float("inf")}},
        {"cost_budgets": {1: 1.0}},
    ],
)
def test_an_impossible_budget_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        AgentLoopConfig(**settings)


@pytest.mark.parametrize("prices", ["list", object(), {"gpt-5": 1}])
def test_what_is_no_price_list_is_refused_at_once(prices: Any) -> None:
    with pytest.raises(ConfigError, match="prices"):
        StatefulAgentLoop(llm=ScriptedLLM(), dsn="memory:", prices=prices)


async def test_auto_takes_the_published_prices(stage: Stage) -> None:
    model = ScriptedLLM([reply(model="gpt-4o-2024-08-06")])
    result = await stage.loop(llm=model, prices="auto").send("hi")
    assert result.usage.nanodollars == 1000 * 2_500 + 100 * 10_000
