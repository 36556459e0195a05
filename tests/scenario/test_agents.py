"""Agents that spawn agents: results, limits, crashes, people, stops, money."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop, StatefulResult, tool
from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle
from loopwright.model.errors import AgentUnavailableError, SessionGoneError
from loopwright.model.family_records import ChildFinished, ChildStarted
from loopwright.model.records import ToolFinished
from loopwright.ports.store import SessionQuery
from loopwright.ports.tool import ToolContext, WaitNeeded
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools.agents import agents_tool, hand_off_tool, spawn_agent_tool
from loopwright.tools.ask import request_user_input_tool

SCOUT = AgentSpec(name="scout", system_prompt="You scout.", lifecycle=SubagentLifecycle.LINKED)
BRIEF = AgentSpec(name="brief", system_prompt="You are brief.")
ASKER = AgentSpec(name="asker", system_prompt="You ask.", lifecycle=SubagentLifecycle.LINKED)
CHIEF = AgentSpec(name="chief", system_prompt="You lead.", lifecycle=SubagentLifecycle.LINKED)

TOOLS = [spawn_agent_tool([SCOUT, BRIEF, ASKER, CHIEF]), agents_tool(), request_user_input_tool()]


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


def spawn(name: str, task: str = "go", **more: Any) -> tuple[str, dict[str, Any]]:
    """A call of `spawn_agent`."""
    return ("spawn_agent", {"name": name, "task": task, **more})


def crew(stage: Stage, **scripts: list[Any]) -> Any:
    """A loop whose agents follow their scripts; `root` is the one without instructions."""
    prompts = {"root": "", "scout": "You scout.", "brief": "You are brief.", "asker": "You ask.", "chief": "You lead."}
    cast = CastLLM({prompts[name]: steps for name, steps in scripts.items()})
    return stage.loop(llm=cast, tools=[*TOOLS, look])


async def ended(loop: StatefulAgentLoop, session_id: str) -> StatefulResult:
    """The result of a send that goes on beside the test, once it is over."""
    while (result := await loop.get_result(session_id)) is None or result.status == "waiting_for_input":
        await next_turn(0.002)
    return result


async def test_a_child_does_its_task_in_a_session_of_its_own_and_its_answer_is_the_result(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("scout", "find it")), "done"], scout=[calls(("look", {})), "found"])
    result = await loop.send("go")
    assert (result.status, result.final_text) == ("completed", "done")
    records = await stage.records(loop, result.session_id)
    [started] = [r for r in records if isinstance(r, ChildStarted)]
    [ended] = [r for r in records if isinstance(r, ChildFinished)]
    [answer] = [r for r in records if isinstance(r, ToolFinished)]
    assert (answer.content, ended.outcome, ended.child_id) == ("found", "completed", started.child_id)
    assert [getattr(m, "text", "") for m in await loop.get_messages(started.child_id)] == [
        "find it",
        "",
        "saw",
        "found",
    ]
    own = (await loop.get_session_stats(result.session_id)).usage.calls
    assert (own, result.usage.calls) == (2, 4)


async def test_an_ephemeral_child_is_gone_once_its_result_is_copied(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("brief")), "done"], brief=["short"])
    result = await loop.send("go")
    records = await stage.records(loop, result.session_id)
    [started] = [r for r in records if isinstance(r, ChildStarted)]
    assert result.ok
    with pytest.raises(SessionGoneError):
        await loop.get_messages(started.child_id)


async def test_a_question_of_a_grandchild_pauses_the_tree_and_its_answer_goes_on_at_the_right_place(
    stage: Stage,
) -> None:
    scripts = {
        "root": [calls(spawn("chief")), "all done"],
        "chief": [calls(spawn("asker"), ("look", {})), "chief done"],
        "asker": [calls(("request_user_input", {"prompt": "which?"})), "asker heard"],
    }
    loop = crew(stage, **scripts)
    waiting = await loop.send("go")
    assert waiting.status == "waiting_for_input"
    [question] = waiting.pending_interactions
    await stage.bury(loop)
    later = crew(stage, **scripts)
    result = await later.submit_input(waiting.session_id, question.id, "red")
    assert (result.status, result.final_text) == ("completed", "all done")


async def test_a_question_answered_at_the_child_wakes_its_parents_beside(stage: Stage) -> None:
    loop = crew(
        stage,
        root=[calls(spawn("asker")), "all done"],
        asker=[calls(("request_user_input", {"prompt": "which?"})), "asker heard"],
    )
    waiting = await loop.send("go")
    [question] = waiting.pending_interactions
    [child] = [r.child_id for r in await stage.records(loop, waiting.session_id) if isinstance(r, ChildStarted)]
    assert (await loop.submit_input(child, question.id, "red")).final_text == "asker heard"
    result = await ended(loop, waiting.session_id)
    assert (result.status, result.final_text) == ("completed", "all done")


async def test_agents_may_be_nested_so_deep_and_no_deeper(stage: Stage) -> None:
    loop = crew(
        stage,
        root=[calls(spawn("chief", "1")), "0 done"],
        chief=[calls(spawn("chief", "deeper")), "chief done"],
    )
    result = await loop.send("go")
    assert result.final_text == "0 done"
    sessions = await loop.store.list(SessionQuery())
    assert len(sessions) == 4


async def test_a_handed_off_conversation_is_answered_by_the_other_agent(stage: Stage) -> None:
    expert = AgentSpec(name="expert", system_prompt="You know.", tools=("look",))
    cast = CastLLM({"": [calls(("hand_off_to_expert", {"reason": "hard"}))], "You know.": ["unused", "expert says"]})
    loop = stage.loop(llm=cast, tools=[hand_off_tool(expert, when="for hard questions"), look])
    result = await loop.send("go")
    assert (result.status, result.final_text) == ("completed", "expert says")
    assert [spec.name for spec in cast.requests[-1].tools] == ["look"]


@tool(effect="idempotent")
async def wait_for_go(ctx: ToolContext) -> str | WaitNeeded:
    """Wait."""
    return WaitNeeded(signal="go") if ctx.woken is None else f"told {ctx.woken.payload}"


async def test_a_call_waits_for_a_signal_without_a_process(stage: Stage) -> None:
    loop = stage.loop(calls(("wait_for_go", {})), tools=[wait_for_go])
    waiting = await loop.send("go")
    assert (waiting.status, waiting.pending_interactions) == ("waiting_for_input", ())
    await stage.bury(loop)
    later = stage.loop("thanks", tools=[wait_for_go])
    assert await later.signal(waiting.session_id, "go", {"n": 1}, item_id="s1")
    assert not await later.signal(waiting.session_id, "go", {"n": 2}, item_id="s1")
    result = await ended(later, waiting.session_id)
    assert (result.status, result.final_text) == ("completed", "thanks")
    [answer] = [r for r in await stage.records(later, waiting.session_id) if isinstance(r, ToolFinished)]
    assert answer.content == "told {'n': 1}"


async def test_a_signal_that_came_first_is_kept_for_the_call_that_waits_for_it(stage: Stage) -> None:
    loop = stage.loop("hi", calls(("wait_for_go", {})), "thanks", tools=[wait_for_go])
    session_id = (await loop.send("hello")).session_id
    await loop.signal(session_id, "go", 7)
    result = await loop.send("go on", session_id=session_id)
    assert (result.status, result.final_text) == ("completed", "thanks")


async def test_a_process_without_the_tool_of_a_waiting_call_stores_nothing_of_an_answer(stage: Stage) -> None:
    scripts = {
        "root": [calls(spawn("asker")), "all done"],
        "asker": [calls(("request_user_input", {"prompt": "which?"})), "asker heard"],
    }
    loop = crew(stage, **scripts)
    waiting = await loop.send("go")
    [question] = waiting.pending_interactions
    other = stage.loop(llm=CastLLM({"": []}), tools=[request_user_input_tool()])
    with pytest.raises(AgentUnavailableError, match="spawn_agent"):
        await other.submit_input(waiting.session_id, question.id, "red")
    result = await loop.submit_input(waiting.session_id, question.id, "blue")
    assert (result.status, result.final_text) == ("completed", "all done")


async def test_a_process_without_the_tool_of_a_waiting_call_leaves_it_to_others_when_it_is_woken(stage: Stage) -> None:
    loop = stage.loop(calls(("wait_for_go", {})), "thanks", tools=[wait_for_go])
    waiting = await loop.send("go")
    other = stage.loop(llm=CastLLM({"": []}), tools=[look])
    await other.signal(waiting.session_id, "go")
    with pytest.raises(AgentUnavailableError, match="wait_for_go"):
        await other.resume(waiting.session_id)
    assert (await loop.resume(waiting.session_id)).final_text == "thanks"
