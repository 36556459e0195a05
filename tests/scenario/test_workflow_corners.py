"""Workflow runs where two things meet: attempts, signals in one commit, names around a step, bounds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.test_workflows import crew, fails, flow, look, looks
from tests.waiting import next_turn

from loopwright import tool
from loopwright.engine.actor import ACTORS
from loopwright.engine.journal import Journal
from loopwright.model.records import SendPaused
from loopwright.ports.tool import ToolContext, WaitNeeded
from loopwright.testing.cast import CastLLM


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_tool_step_that_is_tried_again_is_worked_on_until_it_ends(stage: Stage, effect: Any) -> None:
    ran: list[int] = []

    @tool(effect=effect)
    async def flaky() -> str:
        """Fails twice."""
        ran.append(len(ran))
        await next_turn(0.02)
        if len(ran) < 3:
            raise ValueError("not yet")
        return "good"

    loop = crew(stage, flaky)
    result = await loop.workflows.run(flow({"type": "tool", "id": "f", "tool": "flaky", "retries": 4}))
    assert (result.status, result.final_text, len(ran)) == ("completed", "good", 3)
    assert not any(isinstance(record, SendPaused) for record in await stage.records(loop, result.run_id))


async def test_a_run_that_paused_with_a_call_that_nobody_works_on_goes_on_when_it_is_resumed(stage: Stage) -> None:
    mortal = stage.mortal("tool.before:look", llm=CastLLM({}), tools=[look])
    await stage.dies(mortal, mortal.workflows.run(flow(looks("see")), run_id="r"))
    loop = crew(stage)
    await _pause(loop, "r")
    assert (await loop.store.lookup("r")).head.status == "waiting"
    ACTORS.drop(loop.store.identity)
    result = await loop.workflows.resume("r")
    assert (result.status, result.final_text) == ("completed", "seen here")


async def _pause(loop: Any, run_id: str) -> None:
    """Stores the pause that older versions wrote while a call was open."""
    journal = Journal(loop._kernel, ACTORS.pin(loop.store.identity, run_id))
    await journal.load()
    await journal.commit([SendPaused("waiting_for_input")], release=True)
    ACTORS.unpin(journal.actor, 0)


async def test_each_of_several_waits_takes_a_signal_of_its_own(stage: Stage) -> None:
    loop = crew(stage)
    waits = [{"type": "wait", "id": name, "signal": "go"} for name in "abcd"]
    run_id = await loop.workflows.create(flow({"type": "parallel", "id": "all", "branches": waits}))
    for number in range(4):
        await loop.signal(run_id, "go", number)
    result = await loop.workflows.resume(run_id)
    assert result.output == {"items": [0, 1, 2, 3]}


async def test_tool_steps_and_wait_steps_do_not_take_the_same_signal(stage: Stage) -> None:
    @tool(effect="idempotent")
    async def hear(ctx: ToolContext) -> str | WaitNeeded:
        """Hears."""
        return WaitNeeded(signal="go") if ctx.woken is None else str(ctx.woken.payload)

    loop = crew(stage, hear)
    tools = [{"type": "tool", "id": f"t{number}", "tool": "hear"} for number in range(3)]
    waits = [{"type": "wait", "id": "a", "signal": "go"}, {"type": "wait", "id": "b", "signal": "go"}]
    second = {"type": "sequence", "id": "s", "steps": [looks("before"), waits[1]]}
    root = {"type": "parallel", "id": "all", "branches": [waits[0], *tools, second]}
    run_id = await loop.workflows.create(flow(root))
    for number in range(5):
        await loop.signal(run_id, "go", number)
    result = await loop.workflows.resume(run_id)
    assert result.ok
    assert sorted(str(one) for one in result.output["items"]) == ["0", "1", "2", "3", "4"]


async def test_in_a_loop_its_own_name_is_the_iteration_before_and_empty_in_the_first(stage: Stage) -> None:
    loop = crew(stage)
    body = looks("step", "<{{write}}{{write.key}}>")
    spec = flow({"type": "loop", "id": "write", "max_iterations": 3, "body": body, "until": "input"})
    result = await loop.workflows.run(spec, False)
    steps = [step.text async for step in result.results()]
    assert steps[0] == "seen <>"
    assert steps[1].startswith("seen <seen <>")
    assert steps[2].startswith("seen <seen <seen <>")


async def test_an_inner_loop_begins_empty_in_each_iteration_of_the_outer_one(stage: Stage) -> None:
    loop = crew(stage)
    inner = {
        "type": "loop",
        "id": "in",
        "max_iterations": 2,
        "body": looks("step", "[{{in}}|{{out}}]"),
        "until": "input",
    }
    spec = flow({"type": "loop", "id": "out", "max_iterations": 2, "body": inner, "until": "input"})
    result = await loop.workflows.run(spec, False)
    steps = [step.text async for step in result.results()]
    assert steps[0] == "seen [|]"
    assert steps[1] == "seen [seen [|]|]"
    assert steps[2] == f"seen [|{steps[1]}]"


async def test_a_fallback_reads_that_its_step_failed_and_why(stage: Stage) -> None:
    loop = crew(stage)
    spec = flow(fails("t", arguments={"why": "no ink"}, fallback=looks("instead", "{{t}}")), looks("after", "{{t}}"))
    result = await loop.workflows.run(spec)
    steps = {step.path: step.text async for step in result.results()}
    assert "t failed" in steps["instead"]
    assert "no ink" in steps["instead"]
    assert steps["after"] == f"seen {steps['instead']}"


@pytest.mark.parametrize("kind", ["skipped", "decided", "refused"])
async def test_steps_that_never_begin_are_bounded_and_end_the_run(stage: Stage, kind: str) -> None:
    leaf: dict[str, Any] = {
        "skipped": looks("leaf", when="input.never"),
        "decided": {"type": "branch", "on": "input.never", "cases": {"x": looks("leaf")}},
        "refused": looks("leaf", on_error="continue"),
    }[kind]
    inner = {
        "type": "foreach",
        "id": "in",
        "as": "y",
        "items_from": "input.items",
        "body": leaf,
        "on_error": "continue",
    }
    outer = {**inner, "id": "out", "as": "x", "body": inner, "max_concurrency": 64}
    loop = crew(stage)
    result = await loop.workflows.run(flow(outer, max_leaves=100), {"items": list(range(80)), "never": False})
    assert (result.status, result.error_code) == ("failed", "workflow.too_many_leaves")
    assert len(await loop.store.read(result.run_id)) < 2_000
