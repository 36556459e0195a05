"""Tools whose calls are answered at once, and whose work goes on beside the conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Stage, texts
from tests.waiting import until

from loopwright import StatefulAgentLoop, ToolDefinition, ToolFailure
from loopwright.model.errors import ConfigError
from loopwright.model.messages import ToolResultMessage, UserMessage
from loopwright.model.records import ToolFinished, ToolStarted
from loopwright.testing import FakeTool, calls, gated
from loopwright.tools import ToolRegistry

PARAMETERS = {"type": "object", "properties": {"odd name {{input}}": {}, "n": {"type": "integer"}}}
ARGUMENTS = {"odd name {{input}}": "{{input.0}} {{call}} }}", "n": 3}


def report(*results: Any, **settings: Any) -> FakeTool:
    settings.setdefault("parameters", PARAMETERS)
    return FakeTool("report", results, background=True, **settings)


async def told(loop: StatefulAgentLoop, session_id: str) -> list[str]:
    """What background work told the session."""
    messages = await loop.get_messages(session_id)
    return [m.text for m in messages if isinstance(m, UserMessage) and "started in the background" in m.text]


async def heard(loop: StatefulAgentLoop, session_id: str, sends: int = 2) -> None:
    while (result := await loop.get_result(session_id)) is None or result.send_index < sends:
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.005)


async def test_the_call_is_answered_at_once_and_its_result_comes_as_one_message(stage: Stage) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    double = report(gated("42 pages", gate, reached=reached))
    loop = stage.loop(calls(("report", ARGUMENTS)), "meanwhile", "I see", tools=[double.tool])
    first = await loop.send("go")
    assert (first.status, first.final_text) == ("completed", "meanwhile")
    [answer] = [m for m in await loop.get_messages(first.session_id) if isinstance(m, ToolResultMessage)]
    run_id = (await loop.workflows.list(parent=first.session_id))[0].run_id
    assert answer.ok
    assert f"run {run_id}" in str(answer.content)
    await reached.wait()
    assert await told(loop, first.session_id) == []
    gate.set()
    await heard(loop, first.session_id)
    [said] = await told(loop, first.session_id)
    assert "The call call_0_0 of report" in said
    assert "42 pages" in said
    assert "(completed)" in said
    [made] = double.calls
    assert made.arguments == ARGUMENTS
    assert made.session_id == run_id


async def test_a_background_call_that_fails_says_why(stage: Stage) -> None:
    double = report(ToolFailure("the printer is on fire"))
    loop = stage.loop(calls(("report", {})), "meanwhile", "oh", tools=[double.tool])
    first = await loop.send("go")
    await heard(loop, first.session_id)
    [said] = await told(loop, first.session_id)
    assert "(failed)" in said
    assert "the printer is on fire" in said


async def test_arguments_that_do_not_fit_are_refused_at_once_and_nothing_is_started(stage: Stage) -> None:
    double = report()
    loop = stage.loop(calls(("report", {"n": "three"})), "sorry", tools=[double.tool])
    first = await loop.send("go")
    assert "$.n" in texts(await loop.get_messages(first.session_id))[2]
    assert await loop.workflows.list() == []


@pytest.mark.parametrize("effect", ["idempotent", "once"])
@pytest.mark.parametrize("at", ["tool.before:report", "commit.before:child_started", "commit.after:child_started"])
async def test_a_process_that_dies_while_it_starts_the_work_starts_it_once(stage: Stage, effect: Any, at: str) -> None:
    double = report("done", effect=effect)
    mortal = stage.mortal(f"{at}#1", calls(("report", {"n": 1})), tools=[double.tool])
    session = await mortal.new_session()
    await stage.dies(mortal, mortal.send("go", session_id=session))
    loop = stage.loop("meanwhile", "I see", tools=[double.tool])
    await loop.recover()
    await until(lambda: len(double.calls) == 1)
    await heard_at_last(loop, session, double)
    assert len(await loop.workflows.list()) == 1
    assert len(await told(loop, session)) == 1
    double.assert_done()


async def heard_at_last(loop: StatefulAgentLoop, session: str, double: FakeTool) -> None:
    while not await told(loop, session) or double.running:
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.005)
    await until(lambda: loop._kernel.llm.remaining == 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("effect", ["idempotent", "once"])
async def test_work_that_a_process_left_runs_again_or_is_told_as_uncertain(stage: Stage, effect: Any) -> None:
    double = report("first", "second", effect=effect)
    mortal = stage.mortal("tool.after:report#2", calls(("report", {"n": 1})), "meanwhile", tools=[double.tool])
    session = await mortal.new_session()
    await mortal.send("go", session_id=session)
    await until(lambda: mortal in stage._dead)
    await stage.bury(mortal)
    assert len(double.keys) == 1
    double._answered.clear()
    loop = stage.loop("I see", tools=[double.tool])
    await loop.recover()
    await heard_at_last(loop, session, double)
    [said] = await told(loop, session)
    assert len(double.keys) == 1
    if effect == "idempotent":
        assert (len(double.calls), "second" in said) == (2, True)
    else:
        assert (len(double.calls), "may or may not have happened" in said) == (1, True)


async def test_the_work_is_stopped_like_any_run_and_nobody_is_told(stage: Stage) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    double = report(gated("late", gate, reached=reached))
    loop = stage.loop(calls(("report", {})), "meanwhile", tools=[double.tool])
    first = await loop.send("go")
    await reached.wait()
    [run] = await loop.workflows.list(parent=first.session_id)
    assert await loop.workflows.cancel(run.run_id)
    assert (await loop.workflows.wait(run.run_id)).status == "cancelled"
    assert double.calls[0].ended == "stopped"
    assert await told(loop, first.session_id) == []


async def test_a_step_of_a_workflow_waits_for_a_background_tool_as_for_any_other(stage: Stage) -> None:
    double = report("here it is")
    loop = stage.loop(tools=[double.tool])
    result = await loop.workflows.run({"name": "w", "root": {"type": "tool", "id": "r", "tool": "report"}})
    assert (result.status, result.final_text) == ("completed", "here it is")


async def test_a_tool_of_a_sends_own_registry_is_waited_for_since_nobody_else_has_it(stage: Stage) -> None:
    double = report("at once")
    loop = stage.loop(calls(("report", {})), "done")
    result = await loop.send("go", tools=ToolRegistry.of(double.tool))
    records = await stage.records(loop, result.session_id)
    assert [r.content for r in records if isinstance(r, ToolFinished)] == ["at once"]


async def test_the_call_itself_may_be_repeated_whatever_the_effect_of_its_tool(stage: Stage) -> None:
    double = report("done", effect="once")
    loop = stage.loop(calls(("report", {})), "meanwhile", "I see", tools=[double.tool])
    first = await loop.send("go")
    await heard(loop, first.session_id)
    [run] = await loop.workflows.list()
    effects = [
        [r.effect for r in await stage.records(loop, one) if isinstance(r, ToolStarted)]
        for one in (first.session_id, run.run_id)
    ]
    assert effects == [["idempotent"], ["once"]]


def test_a_tool_without_handler_cannot_work_in_the_background() -> None:
    with pytest.raises(ConfigError, match="background needs a handler"):
        ToolRegistry.of(ToolDefinition(name="x", description="x", parameters={}, background=True))
