"""Stopping a run, from wherever somebody wants it to stop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Listener, Stage, asked, said, texts

from loopwright import CancellationToken, LLMStreamChunk, ToolContext, tool
from loopwright.model.errors import ConfigError
from loopwright.model.records import AttemptFailed, ToolAbandoned, ToolFinished
from loopwright.testing import calls, gated


class Hanging(Counting):
    """A model call and tools that never end by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[CancellationToken] = []
        self.release = threading.Event()

        @tool(effect="pure")
        async def hang(ctx: ToolContext) -> str:
            """Hang."""
            self.tokens.append(ctx.cancellation)
            self.started.set()
            await self.gate.wait()
            return ""

        @tool(effect="once")
        async def pay() -> str:
            """Pay."""
            self.started.set()
            await self.gate.wait()
            return ""

        @tool(effect="pure")
        async def stubborn() -> str:
            """Does not want to stop."""
            self.started.set()
            while not self.gate.is_set():
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        @tool(effect="pure")
        def block() -> str:
            """Block."""
            running.call_soon_threadsafe(self.started.set)
            self.release.wait(60)
            return "late"

        running = asyncio.get_running_loop()
        self.tools = [hang, pay, stubborn, block]

    def let_go(self) -> None:
        self.gate.set()
        self.release.set()


async def stopped(stage: Stage, world: Hanging, step: Any, stop: Any, trigger: Any) -> tuple[Any, Any, float]:
    """The result of a run that was stopped while it hung, and how long that took."""
    loop = stage.loop(step, "alive", tools=world.tools)
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid, stop=stop))
    await world.started.wait()
    began = time.monotonic()
    trigger()
    result = await task
    took = time.monotonic() - began
    world.let_go()
    assert (await loop.send("still there?", session_id=sid)).final_text == "alive"
    return loop, result, took


def token() -> tuple[Any, Any]:
    made = CancellationToken()
    return made, lambda: made.cancel("enough")


def asyncio_event() -> tuple[Any, Any]:
    made = asyncio.Event()
    return made, made.set


def threading_event() -> tuple[Any, Any]:
    made = threading.Event()
    return made, made.set


def predicate() -> tuple[Any, Any]:
    made: list[int] = []
    return lambda: bool(made), lambda: made.append(1)


@pytest.mark.parametrize("source", [token, asyncio_event, threading_event, predicate])
@pytest.mark.parametrize("where", ["model", "tool"])
async def test_every_kind_of_stop_wins_against_model_and_tool_within_a_second(
    stage: Stage, source: Any, where: str
) -> None:
    world = Hanging()
    step = gated("late", world.gate, reached=world.started) if where == "model" else calls(("hang", {}))
    stop, trigger = source()
    _, result, took = await stopped(stage, world, step, stop, trigger)
    assert (result.status, result.error_code) == ("cancelled", "cancelled")
    assert took < 1.0


async def test_a_stopped_model_call_leaves_no_partial_text_and_its_usage_is_estimated(stage: Stage) -> None:
    reached = asyncio.Event()

    class Talker:
        async def stream(self, request: Any) -> Any:
            yield LLMStreamChunk(text="half a sen")
            reached.set()
            await asyncio.Event().wait()

    loop, listener = stage.loop(llm=Talker()), Listener()
    loop.event_bus.subscribe(listener)
    stop = CancellationToken()
    task = asyncio.create_task(loop.send("go", stop=stop))
    await reached.wait()
    stop.cancel()
    result = await task
    assert (result.status, result.usage.estimated, result.usage.calls) == ("cancelled", True, 1)
    assert texts(await loop.get_messages(result.session_id)) == ["user: go"]
    [attempt] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, AttemptFailed)]
    assert (attempt.error_code, attempt.usage.output_tokens) == ("cancelled", 3)
    assert listener.kinds("attempt_discarded", "loop_cancelled", "run_ended") == [
        "attempt_discarded",
        "loop_cancelled",
        "run_ended",
    ]


async def test_a_stopped_tool_sees_its_token_and_its_call_is_answered(stage: Stage) -> None:
    world = Hanging()
    stop, trigger = token()
    loop, result, _ = await stopped(stage, world, calls(("hang", {}), ("hang", {})), stop, trigger)
    assert all(t.cancelled for t in world.tokens)
    finished = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    assert [(f.status, f.content) for f in finished] == [("aborted", "<aborted: enough>")] * 2


async def test_a_stopped_once_tool_is_said_to_be_uncertain(stage: Stage) -> None:
    world = Hanging()
    stop, trigger = token()
    loop, result, _ = await stopped(stage, world, calls(("pay", {})), stop, trigger)
    [finished] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    assert finished.status == "uncertain"
    assert "may have had its effect" in str(finished.content)


@pytest.mark.parametrize("name", ["stubborn", "block"])
async def test_a_tool_that_does_not_stop_is_left_behind_within_a_second(stage: Stage, name: str) -> None:
    world = Hanging()
    stop, trigger = token()
    loop, result, took = await stopped(stage, world, calls((name, {})), stop, trigger)
    assert took < 1.0
    records = await stage.records(loop, result.session_id)
    assert [r.name for r in records if isinstance(r, ToolAbandoned)] == [name]
    assert "late" not in " ".join(texts(await loop.get_messages(result.session_id)))


async def test_a_stop_that_is_set_already_costs_nothing(stage: Stage) -> None:
    loop = stage.loop()
    result = await loop.send("go", stop=lambda: True)
    assert (result.status, result.usage.calls) == ("cancelled", 0)
    assert texts(await loop.get_messages(result.session_id)) == ["user: go"]


async def test_a_predicate_that_raises_counts_as_no_stop(stage: Stage) -> None:
    def broken() -> bool:
        raise RuntimeError

    assert (await stage.loop("fine").send("go", stop=broken)).status == "completed"


async def test_stopping_one_session_does_not_stop_another_that_shares_its_event(stage: Stage) -> None:
    world = Counting()
    shared = CancellationToken.from_any(threading.Event())
    loop = stage.loop(gated("a", world.gate, reached=world.started), gated("b", world.gate))
    one, other = await loop.new_session(), await loop.new_session()
    first = asyncio.create_task(loop.send("go", session_id=one, stop=shared))
    await world.started.wait()
    second = asyncio.create_task(loop.send("go", session_id=other, stop=shared))
    assert await loop.stop(one)
    assert (await first).status == "cancelled"
    world.gate.set()
    assert (await second).status == "completed"


@pytest.mark.parametrize("where", ["model", "hang", "pay", "two tools"])
async def test_a_cancelled_task_leaves_store_and_session_usable_and_a_terminal_event(stage: Stage, where: str) -> None:
    world, listener = Hanging(), Listener()
    step: Any = {
        "model": gated("late", world.gate, reached=world.started),
        "two tools": calls(("hang", {}), ("pay", {})),
    }.get(where) or calls((where, {}))
    loop = stage.loop(step, "alive", tools=world.tools)
    loop.event_bus.subscribe(listener)
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert listener.kinds("run_ended", "loop_cancelled") == ["loop_cancelled", "run_ended"]
    assert (await loop.get_session_stats(sid)).status == "idle"
    world.let_go()
    assert (await loop.send("more", session_id=sid)).final_text == "alive"


async def test_a_task_cancelled_at_any_turn_of_the_event_loop_leaves_the_session_sendable(stage: Stage) -> None:
    world = Hanging()
    for turns in range(0, 60, 3):

        @tool(name="hang", effect="once")
        async def quick() -> str:
            """Quick."""
            return "ok"

        loop = stage.loop(llm=_Obliging(), tools=[quick])
        sid = await loop.new_session()
        task = asyncio.create_task(loop.send("go", session_id=sid))
        _cancel_after(task, turns)
        await asyncio.wait([task])
        loop._kernel.llm.obliging = False  # type: ignore[attr-defined]
        result = await loop.send("more", session_id=sid)
        assert result.status == "completed"
    world.let_go()


class _Obliging:
    """Asks for one tool call, then answers."""

    def __init__(self) -> None:
        self.obliging = True

    async def complete(self, request: Any) -> Any:
        if self.obliging and len(request.messages) == 1:
            return asked(("c", "hang", "{}"))
        return said("done")


def _cancel_after(task: asyncio.Task[Any], turns: int) -> None:
    if turns == 0:
        task.cancel()
    else:
        asyncio.get_running_loop().call_soon(_cancel_after, task, turns - 1)


async def test_another_loop_object_stops_a_run(stage: Stage) -> None:
    world = Hanging()
    loop = stage.loop(gated("late", world.gate, reached=world.started))
    other = stage.loop()
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    assert await other.stop(sid, reason="by the other")
    result = await task
    assert (result.status, result.error_message) == ("cancelled", "by the other")
    assert not await other.stop(sid)
    world.let_go()


SCRIPT = """
import asyncio, sys
from loopwright import StatefulAgentLoop
from loopwright.testing import ScriptedLLM

async def main():
    async with StatefulAgentLoop(llm=ScriptedLLM(), dsn=sys.argv[1]) as loop:
        print(await loop.stop(sys.argv[2], reason="from far away"), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
async def test_another_process_stops_a_run_within_two_and_a_half_seconds(stage: Stage, python: Any) -> None:
    world = Hanging()
    loop = stage.loop(calls(("hang", {})), "alive", tools=world.tools)
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    other = await python(SCRIPT, stage.dsn, sid)
    assert await other.stdout.readline() == b"True\n"
    began = time.monotonic()
    result = await task
    assert time.monotonic() - began < 2.5
    assert (result.status, result.error_message) == ("cancelled", "from far away")
    assert (await loop.send("more", session_id=sid)).final_text == "alive"
    world.let_go()


@pytest.mark.parametrize("stop", [True, 3, "now"])
async def test_what_cannot_stop_a_run_is_refused_before_anything_is_stored(stage: Stage, stop: Any) -> None:
    loop = stage.loop()
    sid = await loop.new_session()
    for work in (loop.send("x", session_id=sid, stop=stop), loop.follow_up("x", session_id=sid, stop=stop)):
        with pytest.raises(ConfigError, match="stop must be"):
            await work
    with pytest.raises(ConfigError, match="stop must be"):
        await loop.resume(sid, stop=stop)
    assert await loop.get_messages(sid) == ()
