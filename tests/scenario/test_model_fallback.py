"""A chain of models, behind one loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Listener, Stage

from loopwright import AgentHooks, AgentLoopConfig, CancellationToken, HookPoint, StatefulAgentLoop, tool
from loopwright.model.errors import (
    ConfigError,
    LLMContextOverflowError,
    LLMRequestError,
    LLMRetryExhausted,
    LLMTransientError,
)
from loopwright.model.records import AssistantMessageAdded, AttemptFailed, SendFinished
from loopwright.testing import ScriptedLLM, calls, gated
from loopwright.testing.model_server import ModelServer, RawReply, ServedRequest, refusal, reply
from loopwright.transports import LLMProviderConfig, ModelCapabilities, create_llm_service_from_config

DOWN = [LLMTransientError("overloaded", status=529)] * 3


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


def second(stage: Stage, *steps: Any, name: str = "second") -> ScriptedLLM:
    model = stage.model(*steps)
    model.model = name
    return model


async def test_the_next_model_is_asked_for_the_rest_of_the_send_and_the_first_one_again_in_the_next(
    stage: Stage,
) -> None:
    listener = Listener()
    other = second(stage, calls(("look", {})), "done")
    loop = stage.loop(*DOWN, "back", fallbacks=[other], tools=[look], ambient=stage.time)
    loop.event_bus.subscribe(listener)
    result = await loop.send("go")
    assert (result.status, result.final_text, result.usage.calls) == ("completed", "done", 5)
    [moved] = [event.data for event in listener.events if event.type == "model_fallback"]
    assert (moved.from_model, moved.to_model, moved.error_code) == ("scripted", "second", "llm.transient")  # type: ignore[union-attr]
    started = [event.data for event in listener.events if event.type == "llm_call_started"]
    assert [(e.call_id, e.model) for e in started] == [  # type: ignore[union-attr]
        ("r1.a1", "scripted"),
        ("r1.a2", "scripted"),
        ("r1.a3", "scripted"),
        ("r1.a4", "second"),
        ("r2.a1", "second"),
    ]
    records = await stage.records(loop, result.session_id)
    assert [r.model for r in records if isinstance(r, AssistantMessageAdded)] == ["second", "second"]
    assert [(r.attempt, r.model) for r in records if isinstance(r, AttemptFailed)] == [
        (1, "scripted"),
        (2, "scripted"),
        (3, "scripted"),
    ]
    assert (await loop.send("again", session_id=result.session_id)).final_text == "back"


async def test_each_model_has_all_its_attempts_and_the_last_ones_error_is_the_result(stage: Stage) -> None:
    loop = stage.loop(*DOWN, fallbacks=[second(stage, *DOWN)], ambient=stage.time)
    result = await loop.send("go")
    assert (result.status, result.usage.calls) == ("degraded", 6)
    assert isinstance(result.error, LLMRetryExhausted)
    assert result.error.attempts == 6
    text = str(result.error)
    assert text.index("scripted: 3 attempts failed") < text.index("(llm.retry_exhausted)") < text.index("second: 6 ")


async def test_when_the_last_model_refuses_the_result_names_the_first_ones_error_first(stage: Stage) -> None:
    refusing = second(stage, LLMRequestError("no such field", status=400))
    loop = stage.loop(LLMRequestError("bad key", status=401), fallbacks=[refusing])
    result = await loop.send("go")
    assert (result.status, result.error_code) == ("failed", "llm.request")
    (ended,) = [r for r in await stage.records(loop, result.session_id) if isinstance(r, SendFinished)]
    assert ended.error_message == "scripted: bad key (llm.request); second: no such field"


async def test_a_bad_request_is_not_taken_to_the_next_model(stage: Stage) -> None:
    loop = stage.loop(LLMRequestError("no such field", status=400), fallbacks=[second(stage)])
    result = await loop.send("go")
    assert (result.status, result.error_code) == ("failed", "llm.request")


async def test_a_refused_key_is(stage: Stage) -> None:
    loop = stage.loop(LLMRequestError("bad key", status=401), fallbacks=[second(stage, "fine")])
    assert (await loop.send("go")).final_text == "fine"


async def test_a_stop_ends_the_call_without_another_model(stage: Stage) -> None:
    world, stop = Counting(), CancellationToken()
    reached = asyncio.Event()
    loop = stage.loop(gated("late", world.gate, reached=reached), fallbacks=[second(stage)])
    sending = asyncio.ensure_future(loop.send("go", stop=stop))
    await reached.wait()
    stop.cancel("enough")
    assert (await sending).status == "cancelled"


async def test_a_window_too_long_goes_to_a_model_that_declares_a_larger_context(stage: Stage) -> None:
    unknown, small, large = second(stage), second(stage), second(stage, "read it all", name="large")
    small.capabilities = ModelCapabilities(context_tokens=1)  # type: ignore[attr-defined]
    large.capabilities = ModelCapabilities(context_tokens=1_000_000)  # type: ignore[attr-defined]
    loop = stage.loop(LLMContextOverflowError("too long"), fallbacks=[unknown, small, large])
    result = await loop.send("go")
    assert (result.status, result.final_text) == ("completed", "read it all")


async def test_a_model_that_a_hook_named_is_not_asked_of_the_next_provider(stage: Stage) -> None:
    hooks = AgentHooks()

    @hooks.on(HookPoint.LLM_BEFORE)
    async def choose(context: Any) -> None:
        context.model = "first-large"

    other = second(stage, "fine")
    loop = stage.loop(LLMRequestError("retired", status=404), fallbacks=[other], hooks=hooks)
    assert (await loop.send("go")).final_text == "fine"
    assert [request.model for request in other.requests] == [None]


async def test_model_strings_are_checked_at_once_and_opened_when_needed(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="provider:model"):
        stage.loop(fallbacks=["nonsense"])
    with pytest.raises(ConfigError, match="fallbacks"):
        stage.loop(fallbacks=[object()])
    with pytest.raises(ConfigError, match="not the text"):
        stage.loop(fallbacks="echo:")
    loop = stage.loop(LLMRequestError("retired", status=404), fallbacks=["echo:"])
    assert (await loop.send("hello")).final_text == "hello"


async def test_over_http_a_send_moves_from_one_provider_to_another_without_the_firsts_reasoning() -> None:
    def anthropic(request: ServedRequest) -> RawReply | Any:
        if any(role == "tool" for role, _ in request.turns):
            return refusal(403, "not any more")
        return reply("", ("look", {}), reasoning="secret thought")

    with ModelServer(anthropic) as first, ModelServer(lambda request: reply(request.turns[-1][1])) as other:
        services = [
            create_llm_service_from_config(
                LLMProviderConfig(provider=provider, base_url=server.base_url, model=provider, api_key="k")
            )
            for provider, server in (("anthropic", first), ("openai", other))
        ]
        async with StatefulAgentLoop(
            llm=services[0], fallbacks=[services[1]], dsn="memory:", tools=[look], config=AgentLoopConfig()
        ) as loop:
            result = await loop.send("go")
        for service in services:
            await service.aclose()
    assert (result.status, result.final_text) == ("completed", "seen")
    assert "secret thought" not in str(other.requests[0].body)
