"""Models that write workflows, and workflows in the hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.test_workflows import agent, crew, fails, flow, look, looks
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop
from loopwright.core.spawning import depth_of
from loopwright.engine.inspection import read_state
from loopwright.model.family_errors import WorkflowSpecError
from loopwright.model.family_records import ChildFinished, ChildStarted
from loopwright.model.records import ToolFinished
from loopwright.testing import calls
from loopwright.tools.ask import request_user_input_tool
from loopwright.tools.workflow_authoring import create_workflow_tool, validate_workflow_tool, workflow_status_tool
from loopwright.workflow import builder, create_workflow, resume_run

TOOLS = [create_workflow_tool(with_manual=False), validate_workflow_tool(), workflow_status_tool()]


def author(stage: Stage, *steps: Any, **scripts: list[Any]) -> StatefulAgentLoop:
    """A loop whose root model follows `steps` and has the workflow tools."""
    return crew(stage, *TOOLS, request_user_input_tool(), **{"": list(steps)}, **scripts)


async def answers(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[ToolFinished]:
    return [r for r in await stage.records(loop, session_id) if isinstance(r, ToolFinished)]


def test_the_manual_is_the_description() -> None:
    assert "foreach" in create_workflow_tool().description
    assert len(create_workflow_tool().description) < 8_000


async def test_a_model_runs_a_workflow_that_it_writes_and_gets_its_output(stage: Stage) -> None:
    spec = flow(agent("scout", "scout"), looks("see", "{{scout}}"))
    loop = author(stage, calls(("create_workflow", {"spec": spec, "input": "x"})), "done", scout=["a door"])
    result = await loop.send("go")
    assert result.status == "completed"
    [answer] = await answers(stage, loop, result.session_id)
    assert (answer.status, answer.content) == ("finished", "seen a door")
    records = await stage.records(loop, result.session_id)
    [child] = [r for r in records if isinstance(r, ChildStarted)]
    assert any(isinstance(r, ChildFinished) and r.child_id == child.child_id for r in records)
    assert result.usage.calls == 3, "two of its own and one of the agent in the run"


async def test_runs_that_one_reply_asks_for_are_counted_together(stage: Stage) -> None:
    batch = [("create_workflow", {"spec": flow(looks("see", str(n)))}) for n in range(4)]
    loop = stage.loop(calls(*batch), "done", tools=[*TOOLS, look], max_children_per_send=2)
    result = await loop.send("go")
    found = await answers(stage, loop, result.session_id)
    assert sorted(answer.status for answer in found) == ["failed", "failed", "finished", "finished"]
    assert all("one send may start 2 agents" in str(one.content) for one in found if one.status == "failed")


async def test_a_bad_spec_is_answered_with_all_its_problems_and_starts_nothing(stage: Stage) -> None:
    bad = {"name": "x", "root": {"type": "sequence", "steps": [{"type": "tool", "id": "1", "tol": "look"}]}}
    loop = author(stage, calls(("validate_workflow", {"spec": bad}), ("create_workflow", {"spec": bad})), "oh")
    result = await loop.send("go")
    found = await answers(stage, loop, result.session_id)
    assert [answer.status for answer in found] == ["failed", "failed"]
    assert str(found[0].content) == str(found[1].content)
    assert "root.steps[0]" in str(found[0].content)
    assert not await loop.workflows.list()


async def test_a_run_in_the_background_is_told_of_once_and_can_be_looked_at(stage: Stage) -> None:
    spec = flow(looks("see"))
    loop = author(stage, calls(("create_workflow", {"spec": spec, "background": True})), "started", "heard")
    first = await loop.send("go")
    [answer] = await answers(stage, loop, first.session_id)
    assert answer.status == "finished", answer.content
    rid = answer.data["run_id"]
    while (result := await loop.get_result(first.session_id)) is None or result.send_index < 2:
        await next_turn(0.005)
    assert result.final_text == "heard"
    shown = [message.text for message in await loop.get_messages(first.session_id)]
    assert len([text for text in shown if f"run {rid}" in text and "seen here" in text]) == 1


async def test_a_model_looks_at_its_run_and_stops_it(stage: Stage) -> None:
    spec = flow({"type": "wait", "id": "w", "signal": "never"})
    loop = author(stage, calls(("create_workflow", {"spec": spec, "background": True})), "started")
    first = await loop.send("go")
    [answer] = await answers(stage, loop, first.session_id)
    assert answer.status == "finished", answer.content
    rid = answer.data["run_id"]
    while (await loop.workflows.get(rid)).status != "waiting":
        await next_turn(0.005)
    llm: Any = loop._kernel.llm
    llm._scripts[""] += [calls(("workflow_status", {"run_id": rid}), ("workflow_status", {"run_id": "r"})), "x"]
    llm._scripts[""] += [calls(("workflow_status", {"run_id": rid, "action": "cancel"})), "y"]
    await loop.send("look", session_id=first.session_id)
    await loop.send("stop", session_id=first.session_id)
    found = sorted((await answers(stage, loop, first.session_id))[1:], key=lambda one: one.call_id)
    assert found[0].data["counts"] == {"waiting": 1}
    assert found[1].status == "failed", "it is no run of this session"
    assert "was stopped" in str(found[2].content)
    assert (await loop.workflows.wait(rid)).status == "cancelled"


async def test_a_question_in_a_run_of_a_call_pauses_the_whole_tree(stage: Stage) -> None:
    spec = flow({"type": "approve", "id": "ok", "prompt": "well?"}, looks("see", "{{ok}}"))
    loop = author(stage, calls(("create_workflow", {"spec": spec})), "done")
    paused = await loop.send("go")
    assert [one.prompt for one in paused.pending_interactions] == ["well?"]
    done = await loop.submit_input(paused.session_id, paused.pending_interactions[0].id, "yes")
    assert (done.status, done.final_text) == ("completed", "done")
    [answer] = await answers(stage, loop, paused.session_id)
    assert answer.content == "seen yes"


async def test_depth_counts_through_workflows(stage: Stage) -> None:
    inner = flow(agent("deep", "deep"))
    nested = flow({"type": "workflow", "id": "w", "workflow": inner})
    spec = flow({"type": "workflow", "id": "v", "workflow": nested})
    loop = author(stage, calls(("create_workflow", {"spec": spec})), "done", deep=["never"])
    result = await loop.send("go")
    [answer] = await answers(stage, loop, result.session_id)
    assert answer.status == "failed"
    assert "nested 3 deep" in str(answer.content)
    runs = await loop.workflows.list()
    assert max([depth_of(await read_state(loop.store, run.run_id)) for run in runs]) == 3


async def test_a_workflow_in_the_hand_runs_on_any_loop(stage: Stage) -> None:
    loop = crew(stage)
    made = create_workflow(builder.workflow("mine", builder.tool("see", "look", {"where": "{{input}}"})))
    result = await made.run(loop, "hall", run_id="r")
    assert result.final_text == "seen hall"
    assert (await resume_run(loop, "r")).final_text == "seen hall"
    rid = await made.start(loop, "attic")
    assert (await loop.workflows.wait(rid)).final_text == "seen attic"
    with pytest.raises(WorkflowSpecError):
        create_workflow({"name": "x"})
    failed = await create_workflow(flow(fails("bad"))).run(loop)
    assert failed.status == "failed"
