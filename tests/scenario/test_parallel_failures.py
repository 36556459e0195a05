"""What becomes of calls that run side by side when one of them ends the run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.waiting import until

from loopwright import AgentHooks, HookPoint, ToolContext, tool
from loopwright.model.errors import SessionFencedError, StoreUnavailableError
from loopwright.model.records import ToolAbandoned, ToolFinished
from loopwright.testing import FakeTool, calls, gated


def hooks_that_fail(point: HookPoint) -> AgentHooks:
    hooks = AgentHooks()

    async def fail(context: Any) -> None:
        if context.tool_name == "broken":
            raise RuntimeError("the hook is broken")

    hooks.register(point, fail)
    return hooks


async def statuses(stage: Stage, loop: Any, session_id: str) -> dict[str, str]:
    records = await stage.records(loop, session_id)
    return {record.name: record.status for record in records if isinstance(record, ToolFinished)}


@pytest.mark.parametrize("point", [HookPoint.TOOL_BEFORE, HookPoint.TOOL_AFTER])
@pytest.mark.parametrize("effect, status", [("idempotent", "aborted"), ("once", "uncertain")])
async def test_a_hook_that_fails_for_one_call_stops_the_others_and_answers_them(
    stage: Stage, point: HookPoint, effect: Any, status: str
) -> None:
    never, reached = asyncio.Event(), asyncio.Event()
    slow = FakeTool("slow", [gated("late", never, reached=reached)], effect=effect)

    async def wait(arguments: Any, context: Any) -> str:
        await reached.wait()
        return "quick"

    broken = FakeTool("broken", wait, effect="pure")
    order: list[Any] = [("slow", {}), ("broken", {})]
    loop = stage.loop(calls(*order), tools=[slow.tool, broken.tool], hooks=hooks_that_fail(point))
    result = await loop.send("go")
    assert (result.status, result.error_code) == ("failed", "hook.failed")
    assert slow.running == 0
    found = await statuses(stage, loop, result.session_id)
    if slow.calls:  # a hook before the call may fail before the other one began
        assert slow.calls[0].ended == "stopped"
        assert found["slow"] == status
    assert set(found) == {"slow", "broken"}


async def test_a_thread_that_goes_on_when_another_call_ends_the_run_is_told_to_stop_and_noted(stage: Stage) -> None:
    began, ended = threading.Event(), threading.Event()
    seen: list[str] = []

    @tool(effect="idempotent")
    def slow(ctx: ToolContext) -> str:
        """Work in a thread."""
        token = ctx.cancellation
        began.set()
        ended.wait(10)
        seen.append(token.reason if token.cancelled else "not told")
        return "late"

    async def wait(arguments: Any, context: Any) -> str:
        await until(began.is_set)
        return "quick"

    broken = FakeTool("broken", wait)
    loop = stage.loop(
        calls(("slow", {}), ("broken", {})),
        tools=[slow, broken.tool],
        hooks=hooks_that_fail(HookPoint.TOOL_AFTER),
    )
    result = await loop.send("go")
    ended.set()
    await until(lambda: seen)
    assert seen == ["the run ended"]
    records = await stage.records(loop, result.session_id)
    assert [r.name for r in records if isinstance(r, ToolAbandoned)] == ["slow"]
    assert (await statuses(stage, loop, result.session_id))["slow"] == "aborted"


async def test_a_handler_that_does_not_stop_when_another_call_ends_the_run_is_noted(stage: Stage) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    async def stubborn(arguments: Any, context: Any) -> str:
        reached.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def wait(arguments: Any, context: Any) -> str:
        await reached.wait()
        return "quick"

    slow, broken = FakeTool("slow", stubborn), FakeTool("broken", wait)
    loop = stage.loop(
        calls(("slow", {}), ("broken", {})),
        tools=[slow.tool, broken.tool],
        hooks=hooks_that_fail(HookPoint.TOOL_AFTER),
        stop_grace_s=0.05,
    )
    result = await loop.send("go")
    assert result.status == "failed"
    records = await stage.records(loop, result.session_id)
    assert [r.name for r in records if isinstance(r, ToolAbandoned)] == ["slow"]
    gate.set()
    await until(lambda: not slow.running)


@pytest.mark.parametrize("error", [SessionFencedError("s", epoch=1, current_epoch=2), StoreUnavailableError("away")])
async def test_a_store_that_refuses_one_result_leaves_no_other_call_running(stage: Stage, error: Exception) -> None:
    never, reached = asyncio.Event(), asyncio.Event()
    slow = FakeTool("slow", [gated("late", never, reached=reached)])

    async def wait(arguments: Any, context: Any) -> str:
        await reached.wait()
        return "quick"

    broken = FakeTool("broken", wait)
    loop = stage.loop(calls(("slow", {}), ("broken", {})), tools=[slow.tool, broken.tool])
    commit = loop.store.commit

    def refused(transition: Any) -> Any:
        if any(record.kind == "tool_finished" for record in transition.records):
            raise error
        return commit(transition)

    session = await loop.new_session()
    loop.store.commit = refused  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        await loop.send("go", session_id=session)
    assert slow.running == 0
    assert slow.calls[0].ended == "stopped"
    loop.store.commit = commit  # type: ignore[method-assign]


async def test_a_call_whose_turn_did_not_come_never_runs_after_another_ended_the_run(stage: Stage) -> None:
    never, reached = asyncio.Event(), asyncio.Event()
    slow = FakeTool("slow", [gated("late", never, reached=reached)], max_parallel=1)

    async def wait(arguments: Any, context: Any) -> str:
        await reached.wait()
        return "quick"

    broken = FakeTool("broken", wait)
    order: list[Any] = [("slow", {}), ("slow", {}), ("broken", {}), ("slow", {})]
    loop = stage.loop(
        calls(*order),
        tools=[slow.tool, broken.tool],
        hooks=hooks_that_fail(HookPoint.TOOL_AFTER),
        max_parallel_tools=3,
    )
    result = await loop.send("go")
    assert result.status == "failed"
    assert [call.ended for call in slow.calls] == ["stopped"]
    records = await stage.records(loop, result.session_id)
    assert len([record for record in records if isinstance(record, ToolFinished)]) == 4
