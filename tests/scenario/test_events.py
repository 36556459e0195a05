"""What a host sees of a run while it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Listener, Stage, texts

from loopwright import AgentEvent, AgentEventBus, LLMResponse, LLMStreamChunk, SessionNotFoundError, tool
from loopwright.model.errors import LLMTransientError
from loopwright.model.events import AgentEventType
from loopwright.testing import calls, gated


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


async def test_a_run_is_told_from_start_to_end_in_order_with_rising_numbers(stage: Stage) -> None:
    listener = Listener()
    loop = stage.loop(calls(("look", {})), "done", tools=[look])
    loop.event_bus.subscribe(listener)
    result = await loop.send("go")
    plain = [k for k in listener.kinds() if "delta" not in k]
    assert plain == [
        "run_started",
        "round_started",
        "llm_call_started",
        "llm_call_completed",
        "prompt_prefix",
        "usage_updated",
        "tool_call_started",
        "tool_call_completed",
        "round_completed",
        "round_started",
        "llm_call_started",
        "llm_call_completed",
        "prompt_prefix",
        "usage_updated",
        "round_completed",
        "run_ended",
    ]
    numbers = [e.seq for e in listener.events]
    assert numbers == sorted(set(numbers))
    assert {e.session_id for e in listener.events} == {result.session_id}
    assert [e.mono for e in listener.events] == sorted(e.mono for e in listener.events)


async def test_exactly_one_end_is_told_for_every_outcome(stage: Stage) -> None:
    for step, status in (
        ("fine", "completed"),
        (RuntimeError("x"), "failed"),
        (LLMResponse(finish_reason="stop"), "degraded"),
    ):
        listener = Listener()
        steps = [step] * 3 if status == "degraded" else [step]
        loop = stage.loop(*steps, ambient=stage.time)
        loop.event_bus.subscribe(listener)
        assert (await loop.send("go")).status == status
        assert listener.kinds("run_ended") == ["run_ended"]
        assert listener.kinds()[-1] == "run_ended"
        assert listener.events[-1].data.outcome == status  # type: ignore[union-attr]


async def test_a_subscriber_hears_only_the_kind_it_asked_for_until_it_leaves(stage: Stage) -> None:
    listener = Listener()
    loop = stage.loop("a", "b")
    leave = loop.event_bus.subscribe(listener, "run_ended")
    first = await loop.send("go")
    leave()
    await loop.send("go", session_id=first.session_id)
    assert listener.kinds() == ["run_ended"]


@pytest.mark.parametrize("kind", ["raises", "raises later", "never returns"])
async def test_a_bad_subscriber_changes_nothing_in_the_run(stage: Stage, kind: str) -> None:
    def raises(event: AgentEvent) -> None:
        raise RuntimeError("observer")

    async def later(event: AgentEvent) -> None:
        raise RuntimeError("observer")

    async def never(event: AgentEvent) -> None:
        await asyncio.Event().wait()

    listener = Listener()
    bus = AgentEventBus(queue_size=3)
    loop = stage.loop(calls(("look", {})), "done", tools=[look], event_bus=bus)
    handler: Any = {"raises": raises, "raises later": later, "never returns": never}[kind]
    bus.subscribe(handler)
    bus.subscribe(listener)
    result = await loop.send("go")
    assert (result.status, result.final_text) == ("completed", "done")
    assert listener.kinds()[-1] == "run_ended"
    if kind == "never returns":
        assert bus.dropped > 0
        await bus.drain(0.01)
        for queue in bus._queues.values():
            queue.task.cancel()


async def test_streamed_pieces_are_the_final_text(stage: Stage) -> None:
    loop = stage.loop("a reply of several words")
    events = [e async for e in loop.stream("go")]
    shown = "".join(e.data.text for e in events if e.type is AgentEventType.STREAM_DELTA)  # type: ignore[union-attr]
    assert shown == "a reply of several words"
    assert (events[0].type, events[-1].type) == ("run_started", "run_ended")
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


async def test_a_stream_raises_what_send_raises(stage: Stage) -> None:
    with pytest.raises(SessionNotFoundError):
        async for _ in stage.loop().stream("go", session_id="nowhere"):
            pass


async def test_closing_a_stream_early_stops_the_run(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("late", world.gate), "alive")
    sid = await loop.new_session()
    stream = loop.stream("go", session_id=sid)
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (await loop.get_session_stats(sid)).status == "idle"
    assert (await loop.send("more", session_id=sid)).final_text == "alive"


async def test_two_streams_at_once_see_their_own_runs_only(stage: Stage) -> None:
    loop = stage.loop("x", "x")

    async def watch() -> set[str]:
        return {e.session_id async for e in loop.stream("go")}

    one, other = await asyncio.gather(watch(), watch())
    assert len(one) == len(other) == 1
    assert one != other


async def test_text_of_a_discarded_attempt_is_called_back(stage: Stage) -> None:
    class Stutter:
        tries = 0

        async def stream(self, request: Any) -> Any:
            self.tries += 1
            yield LLMStreamChunk(text="hal")
            if self.tries == 1:
                raise LLMTransientError("reset")
            yield LLMStreamChunk(text="lo")
            yield LLMStreamChunk(response=LLMResponse(text="hallo", finish_reason="stop"))

    loop = stage.loop(llm=Stutter(), ambient=stage.time)
    events = [e async for e in loop.stream("go")]
    told = [e.type.value for e in events if e.type in ("stream_delta", "attempt_discarded")]
    assert told == ["stream_delta", "attempt_discarded", "stream_delta", "stream_delta"]
    discarded = next(e for e in events if e.type == "attempt_discarded")
    assert (discarded.data.call_id, discarded.data.characters) == ("r1.a1", 3)  # type: ignore[union-attr]


async def test_a_stream_that_ends_without_a_reply_is_a_fault_not_an_answer(stage: Stage) -> None:
    class Cut:
        async def stream(self, request: Any) -> Any:
            yield LLMStreamChunk(text="half")

    result = await stage.loop(llm=Cut(), ambient=stage.time).send("go")
    assert result.status == "degraded"
    assert texts(await stage.loop().get_messages(result.session_id)) == ["user: go"]


async def test_events_of_a_run_reach_an_async_subscriber_in_order(stage: Stage) -> None:
    seen: list[int] = []

    async def slow(event: AgentEvent) -> None:
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.001)
        seen.append(event.seq)

    listener = Listener()
    loop = stage.loop("done")
    loop.event_bus.subscribe(slow)
    loop.event_bus.subscribe(listener)
    await loop.send("go")
    await loop.event_bus.drain()
    assert seen == [e.seq for e in listener.events]
