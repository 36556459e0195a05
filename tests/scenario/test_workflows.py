"""Workflow runs: what starts when, what comes of failures, what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop, tool
from loopwright.engine.actor import ACTORS
from loopwright.engine.workflow_progress import WorkflowResult
from loopwright.model.errors import InvalidMessageError, SessionGoneError
from loopwright.model.family_errors import WorkflowRunError, WorkflowSpecError
from loopwright.model.records import SendPaused, ToolFinished, ToolStarted
from loopwright.model.workflow_records import StepFinished, StepStarted
from loopwright.ports.store import SessionQuery
from loopwright.ports.tool import ToolContext
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools.ask import request_user_input_tool


@tool(effect="pure")
async def look(where: str) -> str:
    """Looks."""
    return f"seen {where}"


@tool(effect="pure")
async def fail(why: str = "broken") -> str:
    """Fails."""
    raise ValueError(why)


@tool(effect="pure")
async def rooms() -> dict[str, Any]:
    """Rooms."""
    return {"items": ["hall", "attic"], "best": {"name": "hall"}}


def agent(name: str, prompt: str, **more: Any) -> dict[str, Any]:
    return {"type": "agent", "id": name, "spec": {"name": name, "system_prompt": prompt}, **more}


def looks(name: str, where: str = "here", **more: Any) -> dict[str, Any]:
    return {"type": "tool", "id": name, "tool": "look", "arguments": {"where": where}, **more}


def fails(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "id": name, "tool": "fail", **more}


def flow(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "flow", "root": {"type": "sequence", "steps": list(steps)}, **more}


def crew(stage: Stage, *tools: Any, **scripts: list[Any]) -> StatefulAgentLoop:
    """A loop whose agents follow scripts; a script is for the agent whose instructions are its name."""
    return stage.loop(llm=CastLLM(scripts), tools=[look, fail, rooms, *tools])


async def texts(result: WorkflowResult) -> dict[str, str]:
    return {step.path: step.text async for step in result.results()}


async def test_steps_run_in_order_and_see_what_came_before(stage: Stage) -> None:
    loop = crew(stage, scout=["a door"], judge=["good"])
    spec = flow(
        agent("scout", "scout", input="look for {{input.what}}"),
        looks("see", "{{scout}}"),
        agent("judge", "judge", input="is {{see}} good?"),
    )
    result = await loop.workflows.run(spec, {"what": "exits"})
    assert (result.status, result.ok, result.final_text) == ("completed", True, "good")
    assert await texts(result) == {"scout": "a door", "see": "seen a door", "judge": "good"}
    llm: Any = loop._kernel.llm
    assert [request.messages[-1].text for request in llm.requests] == ["look for exits", "is seen a door good?"]
    assert result.usage.calls == 2
    assert await result.node("see") == "seen a door"


async def test_iterations_of_a_foreach_have_keys_and_paths_of_their_own(stage: Stage) -> None:
    seen: list[tuple[str, str]] = []

    @tool(effect="idempotent")
    async def mark(what: str, context: ToolContext) -> str:
        """Marks."""
        seen.append((what, context.idempotency_key))
        return what

    loop = crew(stage, mark)
    body = {"type": "tool", "id": "m", "tool": "mark", "arguments": {"what": "{{room}} {{index}}"}}
    spec = flow(
        {"type": "tool", "id": "all", "tool": "rooms"},
        {"type": "foreach", "id": "each", "as": "room", "items_from": "all", "body": body},
    )
    result = await loop.workflows.run(spec)
    assert result.output == {"items": ["hall 0", "attic 1"]}
    assert sorted(what for what, _ in seen) == ["attic 1", "hall 0"]
    assert len({key for _, key in seen}) == 2
    assert set(await texts(result)) == {"all", "each[0]/m", "each[1]/m"}


async def test_a_failed_leaf_under_halt_stops_the_sequence_and_the_run_has_failed(stage: Stage) -> None:
    loop = crew(stage)
    result = await loop.workflows.run(flow(fails("bad"), looks("after")))
    assert (result.status, result.ok, result.error_code) == ("failed", False, "workflow.step_failed")
    assert [error.path for error in result.errors] == ["bad"]
    assert "broken" in (result.error_message or "")
    assert "after" not in await texts(result)


async def test_a_tolerated_failure_is_reported_and_what_follows_is_told_that_it_failed(stage: Stage) -> None:
    loop = crew(stage, scout=["fine"])
    spec = flow(fails("bad", on_error="continue"), agent("scout", "scout", input="given: {{bad}}"))
    result = await loop.workflows.run(spec)
    assert (result.status, result.ok, result.failures) == ("completed", False, 1)
    llm: Any = loop._kernel.llm
    assert "bad failed and gave no output: ValueError: broken" in llm.requests[0].messages[-1].text


async def test_halting_cancels_siblings_and_what_is_beside_the_parallel_goes_on(stage: Stage) -> None:
    async def hangs(_: Any) -> str:
        await next_turn(30.0)
        return "never"

    loop = crew(stage, slow=[hangs])
    inner = {"type": "parallel", "branches": [agent("slow", "slow"), fails("bad")]}
    spec = flow({"type": "parallel", "on_error": "continue", "branches": [inner, looks("beside")]})
    result = await loop.workflows.run(spec)
    assert (result.status, result.failures) == ("completed", 1)
    ends = {step.path: step.outcome async for step in result.results()}
    assert ends == {"bad": "failed", "beside": "completed", "slow": "cancelled"}


async def test_a_step_is_tried_again_and_then_its_fallback_answers_for_it(stage: Stage) -> None:
    tries: list[int] = []

    @tool(effect="idempotent")
    async def flaky(good_at: int) -> str:
        """Fails at first."""
        tries.append(good_at)
        if len(tries) < good_at:
            raise ValueError("not yet")
        return "at last"

    loop = crew(stage, flaky)
    spec = flow({"type": "tool", "id": "f", "tool": "flaky", "arguments": {"good_at": 3}, "retries": 2})
    result = await loop.workflows.run(spec)
    assert (result.ok, result.final_text, len(tries)) == (True, "at last", 3)
    spec = flow(fails("bad", retries=1, fallback=looks("instead", "elsewhere")), looks("last", "{{bad}}"))
    result = await loop.workflows.run(spec)
    assert (result.ok, result.final_text) == (True, "seen seen elsewhere")


async def test_branches_loops_and_conditions_decide_by_values(stage: Stage) -> None:
    loop = crew(stage, writer=["draft", "better", "best"], judge=[])
    never = looks("never", when={"ref": "input.go", "op": "equals", "value": "no"})
    spec = flow(
        never,
        {"type": "tool", "id": "all", "tool": "rooms"},
        {"type": "branch", "on": "all.best.name", "cases": {"hall": looks("hall", "{{never}}"), "x": fails("x")}},
        {
            "type": "loop",
            "id": "write",
            "max_iterations": 5,
            "body": looks("w", "n {{index}}"),
            "until": {"ref": "w", "op": "contains", "value": "1"},
        },
    )
    result = await loop.workflows.run(spec, {"go": "yes"})
    found = await texts(result)
    assert result.ok
    assert "was skipped" in found["hall"]
    assert [path for path in found if path.startswith("write")] == ["write[0]/w", "write[1]/w"]
    assert result.final_text == "seen n 1"


async def test_a_judge_ends_a_loop_and_what_it_says_reaches_the_next_iteration(stage: Stage) -> None:
    verdicts = iter(['{"done": false, "reason": "shorter"}', '{"done": true, "reason": "good"}'])
    loop = crew(
        stage, writer=[lambda request: f"text for {request.messages[-1].text}"], judge=[lambda _: next(verdicts)]
    )
    body = agent("writer", "writer", input="say it [{{feedback}}]")
    judge = {"spec": {"name": "judge", "system_prompt": "judge"}}
    spec = flow({"type": "loop", "id": "write", "max_iterations": 5, "body": body, "judge": judge})
    result = await loop.workflows.run(spec)
    assert (result.ok, result.final_text) == (True, "text for say it [shorter]")


async def test_a_structured_answer_keeps_its_type_in_arguments(stage: Stage) -> None:
    given: list[Any] = []

    @tool(effect="pure")
    async def count(numbers: list[int]) -> str:
        """Counts."""
        given.append(numbers)
        return str(sum(numbers))

    loop = crew(stage, count, scout=['{"found": [1, 2]}'])
    schema = {"type": "object", "properties": {"found": {"type": "array"}}, "required": ["found"]}
    spec = flow(
        agent("scout", "scout", output_schema=schema),
        {"type": "tool", "id": "c", "tool": "count", "arguments": {"numbers": "{{scout.found}}"}},
    )
    result = await loop.workflows.run(spec)
    assert (result.final_text, given) == ("3", [[1, 2]])


async def test_a_question_pauses_the_run_without_a_process_and_the_answer_is_the_output(stage: Stage) -> None:
    loop = crew(stage)
    ask = {"type": "approve", "id": "ok", "prompt": "Ship {{input}}?", "options": ["yes", "no"]}
    spec = flow(ask, {"type": "branch", "on": "ok", "cases": {"yes": looks("ship"), "no": fails("stop")}})
    paused = await loop.workflows.run(spec, "it")
    assert paused.status == "waiting_for_input"
    question = paused.pending_interactions[0]
    assert (question.prompt, question.options) == ("Ship it?", ("yes", "no"))
    assert (await loop.workflows.get(paused.run_id)).steps[0].status == "waiting"
    ACTORS.drop(loop.store.identity)
    other = crew(stage)
    await other.submit_input(paused.run_id, question.id, "yes")
    result = await other.workflows.resume(paused.run_id)
    assert (result.ok, result.final_text) == (True, "seen here")
    assert await result.node("ok") == "yes"


async def test_a_question_of_an_agent_in_a_parallel_pauses_the_tree_and_resumes_at_the_right_place(
    stage: Stage,
) -> None:
    question = calls(("request_user_input", {"prompt": "which?"}))
    loop = crew(stage, request_user_input_tool(), asker=[question, "told"], scout=["found"])
    spec = flow(
        {"type": "parallel", "branches": [agent("asker", "asker"), agent("scout", "scout")]},
        looks("after", "{{asker}} {{scout}}"),
    )
    paused = await loop.workflows.run(spec)
    assert [one.prompt for one in paused.pending_interactions] == ["which?"]
    ACTORS.drop(loop.store.identity)
    other = crew(stage, request_user_input_tool(), asker=[question, "told"], scout=["found"])
    done = await other.submit_input(paused.run_id, paused.pending_interactions[0].id, "the left one")
    assert (done.status, done.final_text) == ("completed", "seen told found")
    llm: Any = other._kernel.llm
    assert len(llm.requests) == 1, "only the agent that asked goes on"


async def test_a_signal_ends_a_wait_and_its_payload_is_the_output(stage: Stage) -> None:
    loop = crew(stage)
    spec = flow({"type": "wait", "id": "w", "signal": "go"}, looks("after", "{{w.place}}"))
    rid = await loop.workflows.start(spec)
    while (await loop.workflows.get(rid)).status != "waiting":
        await next_turn(0.005)
    assert await loop.signal(rid, "go", {"place": "north"})
    result = await loop.workflows.wait(rid)
    assert (result.ok, result.final_text) == (True, "seen north")


async def test_a_wait_for_a_time_holds_no_process_and_ends_when_the_time_has_come(stage: Stage) -> None:
    loop = crew(stage)
    spec = flow({"type": "wait", "id": "w", "seconds": 0.05}, looks("after"))
    result = await loop.workflows.run(spec)
    assert (result.ok, result.final_text) == (True, "seen here")
    assert any(isinstance(record, SendPaused) for record in await stage.records(loop, result.run_id))


async def test_a_sub_workflow_is_a_run_of_its_own(stage: Stage) -> None:
    loop = crew(stage)
    inner = {"name": "inner", "root": looks("see", "{{input.room}}")}
    spec = flow(
        {"type": "workflow", "id": "sub", "workflow": inner, "input": {"room": "{{input}}"}}, looks("z", "{{sub}}")
    )
    result = await loop.workflows.run(spec, "hall")
    assert (result.ok, result.final_text) == (True, "seen seen hall")
    runs = await loop.workflows.list()
    assert sorted(run.name for run in runs) == ["flow", "inner"]


async def test_the_budget_is_looked_at_before_each_step_and_what_runs_finishes(stage: Stage) -> None:
    loop = crew(stage, scout=["many words are said here"])
    body = agent("scout", "scout")
    spec = flow(
        {"type": "foreach", "id": "f", "as": "x", "items": [1, 2, 3], "body": body, "parallel": False},
        budget={"max_tokens": 8},
    )
    result = await loop.workflows.run(spec)
    assert result.status == "budget_exceeded"
    llm: Any = loop._kernel.llm
    assert 1 <= len(llm.requests) < 3


async def test_ephemeral_agents_leave_nothing_behind_and_others_their_session(stage: Stage) -> None:
    loop = crew(stage, brief=["short"], scout=["long"])
    brief = agent("brief", "brief")
    brief["spec"]["lifecycle"] = "ephemeral"
    result = await loop.workflows.run(flow(brief, agent("scout", "scout")))
    children = [step.child_id async for step in result.results()]
    assert result.ok
    with pytest.raises(SessionGoneError):
        await loop.store.lookup(str(children[0]))
    assert (await loop.store.lookup(str(children[1]))).head.parent_id == result.run_id


async def test_more_steps_than_allowed_are_refused_when_they_are_known(stage: Stage) -> None:
    loop = crew(stage)
    each = {"type": "foreach", "id": "f", "as": "x", "items_from": "input", "body": looks("l")}
    result = await loop.workflows.run(flow(each, max_leaves=3), [1, 2, 3, 4])
    assert result.status == "failed"
    assert "may start 3 in all" in (result.error_message or "")
    none = await loop.workflows.run(flow(each), "no list")
    assert "is no list" in (none.error_message or "")


async def test_a_bad_spec_or_input_starts_nothing(stage: Stage) -> None:
    loop = crew(stage)
    with pytest.raises(WorkflowSpecError):
        await loop.workflows.run({"name": "x", "root": {"type": "tool", "id": "1"}})
    with pytest.raises(InvalidMessageError):
        await loop.workflows.run(flow(looks("a"), input_schema={"type": "object"}), "text")
    assert not await loop.store.list(SessionQuery())
    sid = await loop.new_session()
    with pytest.raises(WorkflowRunError):
        await loop.workflows.resume(sid)


async def test_a_run_stopped_from_outside_ends_its_agents_and_then_itself(stage: Stage) -> None:
    reached: list[int] = []

    async def hangs(_: Any) -> str:
        reached.append(1)
        await next_turn(30.0)
        return "never"

    loop = crew(stage, slow=[hangs])
    rid = await loop.workflows.start(flow(agent("slow", "slow"), looks("after")))
    while not reached:
        await next_turn(0.005)
    assert await loop.workflows.cancel(rid, reason="enough")
    result = await loop.workflows.wait(rid)
    assert result.status == "cancelled"
    [head] = [head for head in await loop.store.list(SessionQuery()) if head.parent_id == rid]
    child = await loop.get_result(head.session_id)
    assert child is not None
    assert child.status == "cancelled"
    step = next(r for r in await stage.records(loop, rid) if isinstance(r, StepFinished))
    assert step.outcome == "cancelled"


async def test_a_run_that_waits_is_stopped_with_the_agent_it_waits_for(stage: Stage) -> None:
    question = calls(("request_user_input", {"prompt": "which?"}))
    loop = crew(stage, request_user_input_tool(), asker=[question, "told"])
    paused = await loop.workflows.run(flow(agent("asker", "asker")))
    assert await loop.workflows.cancel(paused.run_id)
    result = await loop.workflows.result(paused.run_id)
    assert result is not None
    assert result.status == "cancelled"
    [head] = [head for head in await loop.store.list(SessionQuery()) if head.parent_id == paused.run_id]
    await loop.recover()
    child = await loop.get_result(head.session_id)
    assert child is not None
    assert child.status == "cancelled"


async def test_a_detached_run_tells_its_parent_exactly_once(stage: Stage) -> None:
    loop = crew(stage, **{"": ["hello", "heard"]})
    parent = (await loop.send("hi")).session_id
    rid = await loop.workflows.start(flow(looks("a")), parent=parent)
    await loop.workflows.wait(rid)
    while (result := await loop.get_result(parent)) is None or result.send_index < 2:
        await next_turn(0.005)
    assert result.final_text == "heard"
    shown = [message.text for message in await loop.get_messages(parent)]
    assert len([text for text in shown if f"run {rid}" in text]) == 1
    await loop.recover()
    assert (await loop.get_session_stats(parent)).sends == 2


async def test_a_run_taken_up_after_a_crash_runs_no_finished_step_again(stage: Stage) -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def work(what: str) -> str:
        """Works."""
        ran.append(what)
        return what

    body = {"type": "tool", "id": "t", "tool": "work", "arguments": {"what": "{{x}}"}}
    each = {"type": "foreach", "id": "f", "as": "x", "items": ["a", "b", "c"], "body": body, "parallel": False}
    spec = flow({"type": "parallel", "branches": [agent("scout", "scout"), each], "max_concurrency": 1})
    mortal = stage.mortal("tool.before:work#2", llm=CastLLM({"scout": ["found"]}), tools=[work])
    await stage.dies(mortal, mortal.workflows.run(spec, run_id="r"))
    before = list(ran)
    loop = crew(stage, work, scout=["found"])
    result = await loop.workflows.resume("r")
    llm: Any = loop._kernel.llm
    assert result.ok
    assert not llm.requests, "the agent had finished"
    records = await stage.records(loop, "r")
    done = [r.call_id for r in records if isinstance(r, ToolFinished)]
    assert done == ["f[0]/t#1", "f[1]/t#1", "f[2]/t#1"]
    assert (before, ran) == (["a"], ["a", "b", "c"])
    keys = {r.key for r in records if isinstance(r, ToolStarted)}
    assert len(keys) == 3
    assert len([r for r in records if isinstance(r, StepStarted)]) == 4
