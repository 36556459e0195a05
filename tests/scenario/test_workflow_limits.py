"""Workflow runs at their limits: time, doubt, large outputs, permissions, observers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.test_workflows import agent, crew, fail, fails, flow, look, looks, texts
from tests.waiting import next_turn

from loopwright import AgentEvent, AgentEventType, AgentHooks, HookDirective, HookPoint, tool
from loopwright.engine.actor import ACTORS
from loopwright.model.family_errors import WorkflowRunError
from loopwright.ports.hook import ToolBeforeContext
from loopwright.ports.store import SessionQuery
from loopwright.ports.tool import ToolContext
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools.ask import request_user_input_tool


async def hangs(_: Any) -> str:
    await next_turn(30.0)
    return "never"


async def test_an_agent_that_takes_too_long_is_stopped_and_its_step_has_failed(stage: Stage) -> None:
    loop = crew(stage, slow=[hangs])
    result = await loop.workflows.run(flow(agent("slow", "slow", timeout_s=0.05)))
    assert (result.status, result.error_code) == ("failed", "workflow.step_failed")
    assert "longer than 0.05 s" in (result.error_message or "")
    [head] = await loop.store.list(SessionQuery(parent_id=result.run_id))
    child = await loop.get_result(head.session_id)
    assert child is not None
    assert child.status == "cancelled"


async def test_the_time_that_an_agents_own_spec_allows_bounds_its_step_too(stage: Stage) -> None:
    loop = crew(stage, slow=[hangs])
    step = agent("slow", "slow", timeout_s=30.0)
    step["spec"] = {**step["spec"], "timeout_s": 0.05}
    result = await loop.workflows.run(flow(step))
    assert (result.status, result.error_code) == ("failed", "workflow.step_failed")


async def test_a_message_to_a_run_is_refused_as_nobody_would_hear_it(stage: Stage) -> None:
    loop = crew(stage)
    paused = await loop.workflows.run(flow({"type": "approve", "id": "ok", "prompt": "well?"}))
    for said in (loop.send, loop.follow_up, loop.enqueue):
        with pytest.raises(WorkflowRunError, match="takes no messages"):
            await said("hello", session_id=paused.run_id)
    assert (await loop.store.lookup(paused.run_id)).waiting == ()


async def test_a_tool_that_takes_too_long_has_failed(stage: Stage) -> None:
    @tool(effect="idempotent")
    async def slow() -> str:
        """Slow."""
        return await hangs(None)

    loop = crew(stage, slow)
    result = await loop.workflows.run(flow({"type": "tool", "id": "s", "tool": "slow", "timeout_s": 0.05}))
    assert "timed out after 0.05 s" in (result.error_message or "")


async def test_a_question_that_nobody_answers_in_time_fails_its_step(stage: Stage) -> None:
    loop = crew(stage)
    ask = {"type": "approve", "id": "ok", "prompt": "well?", "timeout_s": 0.1, "on_error": "continue"}
    paused = await loop.workflows.run(flow(ask, looks("after", "{{ok}}")))
    assert paused.pending_interactions
    while (result := await loop.workflows.result(paused.run_id)) is None or result.status == "waiting_for_input":
        await next_turn(0.02)
    assert (result.status, result.failures) == ("completed", 1)
    assert "nobody answered in time" in result.final_text


async def test_a_signal_that_does_not_come_in_time_fails_its_step(stage: Stage) -> None:
    loop = crew(stage)
    wait = {"type": "wait", "id": "w", "signal": "go", "timeout_s": 0.05}
    result = await loop.workflows.run(flow(wait))
    assert "longer than 0.05 s" in (result.error_message or "")


async def test_a_wait_beside_other_work_ends_without_anybody_who_serves_timers(stage: Stage) -> None:
    loop = stage.loop(llm=CastLLM({"slow": [hangs]}), tools=[fail], serve_timers=False)
    wait = {"type": "sequence", "steps": [{"type": "wait", "id": "w", "seconds": 0.02}, fails("bad")]}
    result = await loop.workflows.run(flow({"type": "parallel", "branches": [agent("slow", "slow"), wait]}))
    assert result.status == "failed"
    assert set(await texts(result)) == {"w", "bad", "slow"}


async def test_a_once_tool_that_was_running_when_the_process_died_is_not_run_or_tried_again(stage: Stage) -> None:
    ran: list[int] = []

    @tool(effect="once")
    async def pay() -> str:
        """Pays."""
        ran.append(1)
        return "paid"

    spec = flow(
        {"type": "tool", "id": "p", "tool": "pay", "retries": 3, "on_error": "continue"}, looks("after", "{{p}}")
    )
    mortal = stage.mortal("tool.after:pay", llm=CastLLM({}), tools=[pay, look])
    await stage.dies(mortal, mortal.workflows.run(spec, run_id="r"))
    loop = crew(stage, pay)
    result = await loop.workflows.resume("r")
    assert ran == [1]
    assert (result.status, result.failures) == ("completed", 1)
    assert "may or may not" in result.final_text or "p failed" in result.final_text
    assert [call.name for call in await loop.store.uncertain_calls()] == ["pay"]


async def test_outputs_of_any_size_reach_the_steps_that_ask_for_them_and_not_the_records(stage: Stage) -> None:
    seen: list[int] = []

    @tool(effect="pure", output_limit=100)
    async def big(size: int) -> str:
        """Big."""
        return "x" * size

    @tool(effect="pure")
    async def measure(what: str) -> str:
        """Measures."""
        seen.append(len(what))
        return str(len(what))

    loop = crew(stage, big, measure, scout=["y" * 200_000])
    spec = flow(
        {"type": "tool", "id": "b", "tool": "big", "arguments": {"size": 300_000}},
        agent("scout", "scout"),
        {"type": "tool", "id": "m", "tool": "measure", "arguments": {"what": "{{b}}"}},
        {"type": "tool", "id": "n", "tool": "measure", "arguments": {"what": "{{scout}}"}},
    )
    result = await loop.workflows.run(spec)
    assert result.ok, result.error_message
    assert seen == [300_000, 200_000]
    rows = await loop.store.read(result.run_id)
    assert max(len(row.body) for row in rows if row.kind == "step_finished") < 10_000


async def test_a_template_that_becomes_too_large_fails_its_step_and_starts_nothing(stage: Stage) -> None:
    loop = crew(stage, scout=["y" * 200_000, "never"])
    spec = flow(agent("scout", "scout"), agent("more", "scout", input="{{scout}}" * 10, retries=2))
    result = await loop.workflows.run(spec)
    assert result.status == "failed"
    assert "characters" in (result.error_message or "")
    assert len(await loop.store.list(SessionQuery(parent_id=result.run_id))) == 1


async def test_hooks_judge_tool_steps_and_an_approval_in_a_run_is_asked_for_durably(stage: Stage) -> None:
    hooks = AgentHooks()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def judge(context: ToolBeforeContext) -> None:
        if context.arguments.get("where") == "vault":
            context.directive = HookDirective.SKIP
        if context.arguments.get("where") == "cellar":
            context.question = "may it?"

    loop = crew(stage)
    guarded = stage.loop(llm=CastLLM({}), tools=[look], hooks=hooks)
    refused = await guarded.workflows.run(flow(looks("v", "vault", retries=2)))
    assert "not permitted" in (refused.error_message or "")
    paused = await guarded.workflows.run(flow(looks("c", "cellar")))
    assert [one.prompt for one in paused.pending_interactions] == ["may it?"]
    done = await guarded.submit_input(paused.run_id, paused.pending_interactions[0].id, "approve")
    assert (done.status, done.final_text) == ("completed", "seen cellar")
    assert (await loop.workflows.run(flow(looks("v", "vault")))).ok


async def test_agents_of_a_run_have_no_more_tools_than_the_run(stage: Stage) -> None:
    loop = crew(stage, scout=[calls(("fail", {})), "done"])
    scout = agent("scout", "scout")
    scout["spec"]["tools"] = ["look"]
    result = await loop.workflows.run(flow(scout))
    llm: Any = loop._kernel.llm
    assert [spec.name for spec in llm.requests[0].tools] == ["look"]
    assert result.ok


async def test_events_tell_of_each_step_with_its_path(stage: Stage) -> None:
    loop = crew(stage, scout=["found"])
    heard: list[AgentEvent] = []
    loop.event_bus.subscribe(heard.append, AgentEventType.WORKFLOW_STEP)
    body = agent("scout", "scout")
    await loop.workflows.run(flow({"type": "foreach", "id": "f", "as": "x", "items": [1], "body": body}, fails("bad")))
    told = [(event.data.path, event.data.phase, event.data.outcome) for event in heard]  # type: ignore[union-attr]
    assert told == [
        ("f[0]/scout", "started", None),
        ("f[0]/scout", "finished", "completed"),
        ("bad", "started", None),
        ("bad", "finished", "failed"),
    ]


async def test_progress_has_times_and_usage_of_each_step(stage: Stage) -> None:
    loop = crew(stage, scout=["found"])
    result = await loop.workflows.run(flow(agent("scout", "scout"), looks("see"), fails("bad")))
    info = await loop.workflows.get(result.run_id)
    assert (info.status, info.counts) == ("failed", {"completed": 2, "failed": 1})
    assert [step.path for step in info.steps] == ["scout", "see", "bad"]
    for step in info.steps:
        assert step.started_at is not None
        assert step.finished_at is not None
        assert step.finished_at >= step.started_at
    assert info.steps[0].usage.calls == 1
    assert "broken" in (info.steps[2].error_message or "")


async def test_a_run_with_the_same_id_is_the_same_run(stage: Stage) -> None:
    loop = crew(stage, scout=["found"])
    spec = flow(agent("scout", "scout"))
    first = await loop.workflows.run(spec, run_id="r")
    ACTORS.drop(loop.store.identity)
    again = await crew(stage).workflows.run(spec, run_id="r")
    assert (first.final_text, again.final_text) == ("found", "found")


async def test_questions_of_iterations_are_answered_one_by_one(stage: Stage) -> None:
    question = calls(("request_user_input", {"prompt": "which?"}))
    loop = crew(stage, request_user_input_tool(), asker=[question, "told"])
    spec = flow(
        {
            "type": "foreach",
            "id": "f",
            "as": "x",
            "items": [1, 2],
            "body": agent("asker", "asker", input="{{x}}"),
        }
    )
    paused = await loop.workflows.run(spec)
    ids = [one.id for one in paused.pending_interactions]
    assert len(set(ids)) == 2, "two agents ask, each of them its own question"
    half = await loop.submit_input(paused.run_id, ids[0], "left")
    assert [one.id for one in half.pending_interactions] == ids[1:]
    done = await loop.submit_input(paused.run_id, ids[1], "right")
    assert (done.status, done.output) == ("completed", {"items": ["told", "told"]})


async def test_keys_of_tools_are_the_same_in_every_attempt(stage: Stage) -> None:
    keys: list[str] = []

    @tool(effect="idempotent")
    async def flaky(context: ToolContext) -> str:
        """Fails once."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise ValueError("not yet")
        return "good"

    loop = crew(stage, flaky)
    spec = flow({"type": "tool", "id": "f", "tool": "flaky", "retries": 1, "retry_delay_s": 0.01})
    assert (await loop.workflows.run(spec)).ok
    assert len(keys) == 2
    assert len(set(keys)) == 1
