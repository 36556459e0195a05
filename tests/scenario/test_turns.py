"""Many loops, many sessions, many threads: who runs when."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Stage, asked, said, texts
from tests.waiting import until

from loopwright import SessionBusyError, StatefulAgentLoop, tool
from loopwright.engine.actor import ACTORS
from loopwright.model.errors import (
    AgentUnavailableError,
    LoopClosedError,
    SessionGoneError,
    SessionNotFoundError,
    SessionReentrantError,
)
from loopwright.testing import calls, gated


async def test_sends_of_two_loop_objects_on_one_session_run_one_after_the_other(stage: Stage) -> None:
    world = Counting()
    one = stage.loop(gated("first", world.gate, reached=world.started))
    other = stage.loop("second")
    sid = await one.new_session()
    first = asyncio.create_task(one.send("a", session_id=sid))
    await world.started.wait()
    second = asyncio.create_task(other.send("b", session_id=sid))
    await until(lambda: ACTORS.find(one.store.identity, sid)._waiting)  # type: ignore[union-attr]
    world.gate.set()
    await asyncio.gather(first, second)
    assert texts(await one.get_messages(sid)) == ["user: a", "assistant: first", "user: b", "assistant: second"]


def test_two_event_loops_in_two_threads_take_turns_on_one_session(dsn: str) -> None:
    class Echo:
        async def complete(self, request: Any) -> Any:
            return said(f"reply to {texts(request.messages)[-1]}")

    sid = "shared"

    async def opened() -> None:
        async with StatefulAgentLoop(llm=Echo(), dsn=dsn) as loop:
            await loop.new_session(session_id=sid)

    async def sends(name: str) -> None:
        async with StatefulAgentLoop(llm=Echo(), dsn=dsn) as loop:
            for number in range(10):
                assert (await loop.send(f"{name}{number}", session_id=sid)).status == "completed"

    asyncio.run(opened())
    failures: list[BaseException] = []

    def run(name: str) -> None:
        try:
            asyncio.run(sends(name))
        except Exception as error:  # noqa: BLE001 - carried to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []

    async def read() -> list[str]:
        async with StatefulAgentLoop(llm=Echo(), dsn=dsn) as loop:
            return texts(await loop.get_messages(sid))

    said_here = asyncio.run(read())
    assert len(said_here) == 40
    for question, answer in zip(said_here[::2], said_here[1::2], strict=True):
        assert answer == f"assistant: reply to {question}"


async def test_fifty_sessions_are_not_delayed_by_one_with_a_slow_tool(stage: Stage) -> None:
    world = Counting()

    @tool(effect="pure")
    def slow() -> str:
        """Slow."""
        blocked.wait(60)
        return "slow"

    @tool(effect="pure")
    async def fast() -> str:
        """Fast."""
        return "fast"

    class Model:
        async def complete(self, request: Any) -> Any:
            if len(request.messages) == 1:
                return asked(("c", request.messages[0].content, "{}"))
            return said("done")

    blocked = threading.Event()
    loop = stage.loop(llm=Model(), tools=[slow, fast])
    slow_one = asyncio.create_task(loop.send("slow"))
    results = await asyncio.gather(*[loop.send("fast") for _ in range(50)])
    assert {r.status for r in results} == {"completed"}
    assert not slow_one.done()
    blocked.set()
    assert (await slow_one).status == "completed"
    assert world.calls == []


@pytest.mark.parametrize("how", ["send", "resume", "abort_pending", "close_session"])
async def test_a_tool_that_calls_back_into_its_own_session_is_told_at_once(stage: Stage, how: str) -> None:
    errors: list[BaseException] = []

    @tool(effect="pure")
    async def nested() -> str:
        """Nested."""
        try:
            await (loop.send("x", session_id=sid) if how == "send" else getattr(loop, how)(sid))
        except SessionReentrantError as error:
            errors.append(error)
            raise
        return "no error"

    loop = stage.loop(calls(("nested", {})), "done", tools=[nested])
    sid = await loop.new_session()
    assert (await loop.send("go", session_id=sid)).status == "completed"
    assert len(errors) == 1
    assert "follow_up()" in texts(await loop.get_messages(sid))[2]


async def test_a_tool_may_use_another_session(stage: Stage) -> None:
    @tool(effect="pure")
    async def delegate() -> str:
        """Delegate."""
        return (await loop.send("help")).final_text

    loop = stage.loop(calls(("delegate", {})), "from the other", "done", tools=[delegate])
    result = await loop.send("go")
    assert texts(await loop.get_messages(result.session_id))[2] == "tool: from the other"


async def test_an_abort_during_a_live_run_waits_for_its_end(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("done", world.gate, reached=world.started))
    sid = await loop.new_session()
    run = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    abort = asyncio.create_task(loop.abort_pending(sid))
    await until(lambda: ACTORS.find(loop.store.identity, sid)._waiting)  # type: ignore[union-attr]
    world.gate.set()
    assert (await run).status == "completed"
    assert await abort == 0


async def test_closing_a_session_waits_for_its_run_and_its_id_never_comes_back(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("done", world.gate, reached=world.started))
    sid = await loop.new_session()
    run = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    closing = asyncio.create_task(loop.close_session(sid))
    world.gate.set()
    assert (await run).status == "completed"
    assert await closing == 1
    with pytest.raises(SessionGoneError):
        await loop.send("hello?", session_id=sid)
    with pytest.raises(SessionGoneError):
        await loop.follow_up("hello?", session_id=sid)


async def test_prewarm_loads_a_session_once(stage: Stage) -> None:
    first = stage.loop("one")
    sid = (await first.send("hi")).session_id
    ACTORS.drop(first.store.identity)
    loop = stage.loop("two")
    assert await loop.prewarm(sid) is True
    assert await loop.prewarm(sid) is False
    assert (await loop.send("more", session_id=sid)).final_text == "two"


@pytest.mark.parametrize("warm", [True, False])
async def test_a_session_is_run_only_by_loops_of_its_agent_name(stage: Stage, warm: bool) -> None:
    mine = stage.loop("one", agent_name="writer")
    sid = (await mine.send("hi")).session_id
    if not warm:
        ACTORS.drop(mine.store.identity)
    other = stage.loop(agent_name="reader")
    for attempt in (other.send("x", session_id=sid), other.resume(sid), other.abort_pending(sid), other.prewarm(sid)):
        with pytest.raises(AgentUnavailableError, match="writer"):
            await attempt
    assert (await mine.get_session_stats(sid)).sends == 1


async def test_a_closed_loop_refuses_work_and_says_so(stage: Stage) -> None:
    loop = stage.loop()
    await loop.aclose()
    await loop.aclose()
    for attempt in (loop.send("x"), loop.new_session(), loop.resume("s"), loop.follow_up("x", session_id="s")):
        with pytest.raises(LoopClosedError):
            await attempt


async def test_closing_a_loop_waits_for_what_it_runs(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("done", world.gate, reached=world.started))
    run = asyncio.create_task(loop.send("go"))
    await world.started.wait()
    closing = asyncio.create_task(loop.aclose())
    await until(lambda: loop._closed)
    world.gate.set()
    assert (await run).status == "completed"
    await closing
    again = stage.loop("hello")
    assert (await again.send("more", session_id=run.result().session_id)).status == "completed"


async def test_a_store_that_was_handed_in_stays_open(stage: Stage) -> None:
    owner = stage.loop("two")
    async with StatefulAgentLoop(llm=stage.model("one"), store=owner.store) as guest:
        sid = (await guest.send("hi")).session_id
    assert (await owner.send("more", session_id=sid)).final_text == "two"


async def test_an_unknown_session_is_named(stage: Stage) -> None:
    loop = stage.loop()
    attempts = (
        loop.send("x", session_id="nowhere"),
        loop.resume("nowhere"),
        loop.follow_up("x", session_id="nowhere"),
        loop.submit_input("nowhere", "q", 1),
        loop.submit_tool_results("nowhere", {"a": 1}),
        loop.abort_pending("nowhere"),
        loop.close_session("nowhere"),
        loop.get_messages("nowhere"),
        loop.get_pending("nowhere"),
        loop.get_session_stats("nowhere"),
        loop.prewarm("nowhere"),
        loop.stop("nowhere"),
    )
    for attempt in attempts:
        with pytest.raises(SessionNotFoundError, match="nowhere"):
            await attempt


HOLDER = """
import asyncio, sys
from loopwright import StatefulAgentLoop
from loopwright.testing import ScriptedLLM, gated

async def main():
    gate, reached = asyncio.Event(), asyncio.Event()
    async with StatefulAgentLoop(llm=ScriptedLLM([gated("theirs", gate, reached=reached)]), dsn=sys.argv[1]) as loop:
        run = asyncio.create_task(loop.send("from there", session_id=sys.argv[2]))
        await reached.wait()
        print("holding", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        gate.set()
        await run

asyncio.run(main())
"""


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
@pytest.mark.parametrize("waits", [True, False])
async def test_a_session_run_by_another_process_is_busy_before_anything_is_spent_or_waited_for(
    stage: Stage, python: Any, waits: bool
) -> None:
    loop = stage.loop("ours", lease_wait_s=20.0 if waits else 0.0)
    sid = await loop.new_session()
    other = await python(HOLDER, stage.dsn, sid)
    assert await other.stdout.readline() == b"holding\n"
    if waits:
        task = asyncio.create_task(loop.send("from here", session_id=sid))
        other.stdin.write(b"go\n")
        result = await task
    else:
        with pytest.raises(SessionBusyError) as caught:
            await loop.send("from here", session_id=sid)
        assert caught.value.holder.startswith(str(other.pid))
        assert caught.value.expires_in_s > 0
        other.stdin.write(b"go\n")
        await other.wait()
        result = await loop.send("from here", session_id=sid)
    assert result.final_text == "ours"
    assert texts(await loop.get_messages(sid)) == [
        "user: from there",
        "assistant: theirs",
        "user: from here",
        "assistant: ours",
    ]
