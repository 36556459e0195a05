"""One send from its input to each of its outcomes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Listener, Stage, asked, said, texts

from loopwright import LLMResponse, LLMRetryPolicy, ToolRegistry, Usage, tool
from loopwright.model.errors import (
    LLMContextOverflowError,
    LLMRequestError,
    LLMRetryExhausted,
    LLMTimeout,
    LLMTransientError,
    StructuredOutputError,
)
from loopwright.model.messages import ProviderState
from loopwright.model.records import AssistantMessageAdded, AttemptFailed, ToolFinished
from loopwright.testing import calls, gated


@tool(effect="pure")
async def look(x: int = 0) -> str:
    """Look."""
    return f"saw {x}"


@tool(effect="pure")
async def touch() -> str:
    """Touch."""
    return "felt"


LOOK = calls(("look", {"x": 1}))


async def test_a_plain_send_completes_in_two_commits(stage: Stage) -> None:
    loop = stage.loop("hello")
    result = await loop.send("hi")
    assert (result.status, result.final_text, result.rounds, result.ok) == ("completed", "hello", 1, True)
    assert result.usage.calls == 1
    kinds = [row.kind for row in await loop.store.read(result.session_id)]
    assert kinds == [
        "session_created",
        "send_started",
        "user_message_added",
        "assistant_message_added",
        "send_finished",
    ]


async def test_a_send_without_a_session_makes_one_with_its_metadata(stage: Stage) -> None:
    loop = stage.loop("hello")
    result = await loop.send("hi", metadata={"user": "u1"})
    created = (await stage.records(loop, result.session_id))[0]
    assert created.metadata == {"user": "u1"}  # type: ignore[union-attr]
    assert result.session_id.startswith("sess_")


async def test_the_round_limit_ends_with_a_stored_summary(stage: Stage) -> None:
    loop = stage.loop(LOOK, LOOK, "what I did", tools=[look])
    result = await loop.send("go", max_rounds=2)
    assert result.status == "hit_round_limit"
    assert result.final_text == "[hit_round_limit] what I did"
    assert texts(await loop.get_messages(result.session_id))[-1] == "assistant: what I did"
    assert loop._kernel.llm.requests[-1].tool_choice == "none"  # type: ignore[attr-defined]


async def test_a_model_that_calls_tools_at_the_limit_all_the_same_is_not_obeyed(stage: Stage) -> None:
    loop = stage.loop(LOOK, LOOK, "next", tools=[look])
    result = await loop.send("go", max_rounds=1)
    assert result.status == "hit_round_limit"
    assert (await loop.send("more", session_id=result.session_id)).status == "completed"


async def test_the_round_that_crossed_the_token_budget_finishes_and_nothing_more_is_paid_for(stage: Stage) -> None:
    spent = LLMResponse(tool_calls=asked(("c", "look", "{}")).tool_calls, usage=Usage(60, 50, calls=1))
    loop = stage.loop(spent, tools=[look])
    result = await loop.send("go", run_token_budget=100)
    assert result.status == "budget_exceeded"
    assert texts(await loop.get_messages(result.session_id))[-1] == "tool: saw 0"
    assert result.usage.total_tokens == 110


async def test_a_refused_request_is_made_once_and_fails_the_send(stage: Stage) -> None:
    listener = Listener()
    loop = stage.loop(LLMRequestError("bad key", status=401), "fine")
    loop.event_bus.subscribe(listener)
    result = await loop.send("hi")
    assert (result.status, result.error_code) == ("failed", "llm.request")
    assert isinstance(result.error, LLMRequestError)
    assert listener.kinds("llm_call_started", "llm_call_completed", "llm_retry_attempted") == [
        "llm_call_started",
        "llm_call_completed",
    ]
    assert (await loop.send("again", session_id=result.session_id)).status == "completed"


async def test_an_overloaded_provider_is_asked_three_times_with_paired_events(stage: Stage) -> None:
    listener = Listener()
    loop = stage.loop(*[LLMTransientError("overloaded", status=503)] * 3, ambient=stage.time)
    loop.event_bus.subscribe(listener)
    result = await loop.send("hi")
    assert result.status == "degraded"
    assert isinstance(result.error, LLMRetryExhausted)
    pair = ["llm_call_started", "llm_call_completed"]
    assert listener.kinds("llm_call_started", "llm_call_completed", "llm_retry_attempted") == [
        *pair,
        "llm_retry_attempted",
        *pair,
        "llm_retry_attempted",
        *pair,
    ]
    assert [e.data.call_id for e in listener.events if e.type == "llm_call_started"] == ["r1.a1", "r1.a2", "r1.a3"]  # type: ignore[union-attr]
    assert result.usage.calls == 3


async def test_a_passing_fault_costs_an_attempt_and_is_counted(stage: Stage) -> None:
    loop = stage.loop(LLMTransientError("reset"), "hello", ambient=stage.time)
    result = await loop.send("hi")
    assert (result.status, result.usage.calls) == ("completed", 2)
    [failed] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, AttemptFailed)]
    assert (failed.round, failed.attempt, failed.error_code) == (1, 1, "llm.transient")


async def test_retry_after_is_honoured(stage: Stage) -> None:
    loop = stage.loop(LLMTransientError("slow down", status=429, retry_after_s=17.0), "hello", ambient=stage.time)
    result = await loop.send("hi")
    assert result.status == "completed"
    assert stage.time.monotonic() >= 17.0


async def test_the_total_time_bounds_the_call_in_flight(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("late", world.gate), retry=LLMRetryPolicy(total_timeout_s=0.1))
    result = await loop.send("hi")
    assert result.status == "degraded"
    assert isinstance(result.error, LLMTimeout)


async def test_an_empty_reply_is_asked_for_again_and_never_a_completed_answer(stage: Stage) -> None:
    loop = stage.loop("", "  ", "here", ambient=stage.time)
    result = await loop.send("hi")
    assert (result.status, result.final_text) == ("completed", "here")
    assert texts(await loop.get_messages(result.session_id)) == ["user: hi", "assistant: here"]


async def test_an_empty_reply_costs_what_its_provider_said(stage: Stage) -> None:
    empty = LLMResponse(text="", finish_reason="stop", usage=Usage(700, 30, calls=1))
    full = LLMResponse(text="here", finish_reason="stop", usage=Usage(700, 5, calls=1))
    result = await stage.loop(empty, full, ambient=stage.time).send("hi")
    assert result.usage == Usage(1400, 35, calls=2)


async def test_a_model_that_returns_nothing_at_all_degrades_the_send(stage: Stage) -> None:
    loop = stage.loop("", "", "", "back", ambient=stage.time)
    result = await loop.send("hi")
    assert (result.status, result.error_code) == ("degraded", "llm.retry_exhausted")
    assert result.final_text.startswith("[degraded: ")
    assert (await loop.send("again", session_id=result.session_id)).status == "completed"


async def test_a_window_too_long_for_the_model_degrades_the_send(stage: Stage) -> None:
    loop = stage.loop(LLMContextOverflowError("too long"))
    result = await loop.send("hi")
    assert (result.status, result.error_code) == ("degraded", "llm.context_overflow")


async def test_a_text_cut_at_the_output_limit_is_continued_twice_and_joined(stage: Stage) -> None:
    loop = stage.loop(said("one ", finish="length"), said("two ", finish="length"), "three")
    result = await loop.send("count")
    assert (result.final_text, result.rounds) == ("one two three", 1)
    assert texts(await loop.get_messages(result.session_id))[1] == "assistant: one "


async def test_a_text_still_cut_after_two_continuations_is_marked_truncated(stage: Stage) -> None:
    loop = stage.loop(*[said("x", finish="length")] * 3)
    result = await loop.send("count")
    assert result.status == "completed"
    assert result.final_text.startswith("xxx\n[truncated")


async def test_a_reply_of_nothing_but_thought_is_asked_for_in_other_words(stage: Stage) -> None:
    thought = LLMResponse(reasoning="hmm", finish_reason="length", usage=Usage(5, 50, calls=1))
    loop = stage.loop(thought, "answer")
    result = await loop.send("think")
    assert (result.final_text, result.rounds, result.usage.calls) == ("answer", 1, 2)
    assert texts(loop._kernel.llm.requests[1].messages)[-1].startswith("user: Your reply was cut off")  # type: ignore[attr-defined]


async def test_a_model_that_never_stops_thinking_degrades_the_send(stage: Stage) -> None:
    thought = LLMResponse(reasoning="hmm", finish_reason="length", usage=Usage(5, 50, calls=1))
    loop = stage.loop(thought, thought, thought)
    assert (await loop.send("think")).status == "degraded"


async def test_arguments_cut_at_the_output_limit_are_never_executed(stage: Stage) -> None:
    loop = stage.loop(asked(("c", "look", '{"x": 1'), finish="length"), "sorry", tools=[look])
    result = await loop.send("go")
    [finished] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    assert finished.status == "invalid"
    assert "cut off" in str(finished.content)
    assert result.status == "completed"


async def test_calls_with_one_id_are_told_apart(stage: Stage) -> None:
    loop = stage.loop(
        asked(("c", "look", '{"x": 1}'), ("c", "look", '{"x": 2}'), ("", "look", "")), "done", tools=[look]
    )
    result = await loop.send("go")
    finished = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    assert {(f.call_id, f.content) for f in finished} == {("c", "saw 1"), ("c_2", "saw 2"), ("call_2", "saw 0")}


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass
class Count:
    """A count."""

    n: int


@pytest.mark.parametrize("schema", [SCHEMA, Count])
async def test_a_structured_answer_is_validated_and_handed_over(stage: Stage, schema: Any) -> None:
    loop = stage.loop('{"n": "three"}', '```json\n{"n": 3}\n```')
    result = await loop.send("count", output_schema=schema)
    assert (result.status, result.output, result.rounds) == ("completed", {"n": 3}, 1)
    asked_again = texts(loop._kernel.llm.requests[1].messages)[-1]  # type: ignore[attr-defined]
    assert "n" in asked_again
    assert "does not fit" in asked_again


async def test_an_answer_that_never_fits_fails_with_a_typed_reason(stage: Stage) -> None:
    loop = stage.loop("no", "no", "no")
    result = await loop.send("count", output_schema=SCHEMA)
    assert (result.status, result.output) == ("failed", None)
    assert isinstance(result.error, StructuredOutputError)
    assert result.error.reason == "no_json"


async def test_names_narrow_the_tools_of_one_send_and_unknown_ones_are_ignored(stage: Stage) -> None:
    loop = stage.loop(calls(("touch", {})), "done", "free", tools=[look, touch])
    result = await loop.send("go", tools=["look", "nonsense"])
    requests = loop._kernel.llm.requests  # type: ignore[attr-defined]
    assert [t.name for t in requests[0].tools] == ["look"]
    assert "no tool named 'touch'; available: look" in texts(await loop.get_messages(result.session_id))[2]
    await loop.send("more", session_id=result.session_id)
    assert [t.name for t in requests[2].tools] == ["look", "touch"]


async def test_a_registry_replaces_the_tools_of_one_send(stage: Stage) -> None:
    loop = stage.loop(calls(("touch", {})), "done", tools=[look])
    result = await loop.send("go", tools=ToolRegistry.of(touch))
    assert texts(await loop.get_messages(result.session_id))[2] == "tool: felt"


@pytest.mark.parametrize(
    "given, wanted", [((None, None), "config"), ((None, "session"), "session"), (("send", "session"), "send")]
)
async def test_the_prompt_of_the_send_goes_before_the_sessions_before_the_loops(
    stage: Stage, given: tuple[str | None, str | None], wanted: str
) -> None:
    loop = stage.loop("ok", system_prompt="config")
    sid = await loop.new_session(system_prompt=given[1])
    await loop.send("hi", session_id=sid, system_prompt=given[0])
    assert loop._kernel.llm.requests[0].system_prompt == wanted  # type: ignore[attr-defined]


async def test_the_output_limit_of_a_send_reaches_the_model(stage: Stage) -> None:
    loop = stage.loop("ok", max_output_tokens=100)
    await loop.send("hi", max_output_tokens=7)
    assert loop._kernel.llm.requests[0].max_output_tokens == 7  # type: ignore[attr-defined]


async def test_the_same_send_id_returns_the_stored_result(stage: Stage) -> None:
    loop = stage.loop("once", "between")
    sid = await loop.new_session()
    first = await loop.send("pay", session_id=sid, send_id="order-1")
    await loop.send("other", session_id=sid)
    again = await loop.send("pay", session_id=sid, send_id="order-1")
    assert (again.final_text, again.send_index) == (first.final_text, 1)
    assert len(await loop.get_messages(sid)) == 4


async def test_the_same_send_id_joins_the_running_send(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("once", world.gate, reached=world.started))
    sid = await loop.new_session()
    one = asyncio.create_task(loop.send("pay", session_id=sid, send_id="order-1"))
    await world.started.wait()
    other = asyncio.create_task(loop.send("pay", session_id=sid, send_id="order-1"))
    world.gate.set()
    results = await asyncio.gather(one, other)
    assert [r.final_text for r in results] == ["once", "once"]
    assert len(await loop.get_messages(sid)) == 2


async def test_usage_the_provider_did_not_give_is_estimated_and_marked(stage: Stage) -> None:
    loop = stage.loop(LLMResponse(text="x" * 40, finish_reason="stop"))
    result = await loop.send("hi")
    assert result.usage.estimated
    assert result.usage.output_tokens == 10
    [reply] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, AssistantMessageAdded)]
    assert reply.usage == result.usage


async def test_resume_without_open_work_is_one_more_run_without_new_input(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    result = await loop.send("hi")
    assert (await loop.resume(result.session_id)).final_text == "two"
    assert texts(await loop.get_messages(result.session_id)) == ["user: hi", "assistant: one", "assistant: two"]


async def test_what_only_this_provider_understands_goes_back_untouched(stage: Stage) -> None:
    state = ProviderState("anthropic", "m", [{"signature": "s", "thinking": "\u0000 ünï"}])
    loop = stage.loop(LLMResponse(text="a", reasoning="r", finish_reason="stop", provider_state=state), "b")
    result = await loop.send("hi")
    await loop.send("more", session_id=result.session_id)
    assert loop._kernel.llm.requests[1].messages[1].provider_state == state  # type: ignore[attr-defined]


async def test_text_of_any_code_points_survives(stage: Stage) -> None:
    odd = "\x00 NUL, \ud800 half a pair, 日本語, \U0001f600, " + "x" * (1 << 20)
    loop = stage.loop(said(odd), "ok")
    result = await loop.send(odd)
    assert result.final_text == odd
    assert texts(await loop.get_messages(result.session_id)) == [f"user: {odd}", f"assistant: {odd}"]
    await loop.send("next", session_id=result.session_id)
