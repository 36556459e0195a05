"""Agents for scenarios of families: a cast of specs, their tools, and the loop that they play on."""

from __future__ import annotations

from typing import Any

from tests.scenario.conftest import Stage
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop, StatefulResult, tool
from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle
from loopwright.model.family_records import ChildFinished, ChildStarted
from loopwright.model.records import ToolFinished
from loopwright.testing.cast import CastLLM
from loopwright.tools.agents import agents_tool, spawn_agent_tool
from loopwright.tools.ask import request_user_input_tool

LINKED = SubagentLifecycle.LINKED
SPECS = {
    "scout": AgentSpec(name="scout", system_prompt="You scout.", lifecycle=LINKED),
    "brief": AgentSpec(name="brief", system_prompt="You are brief."),
    "asker": AgentSpec(name="asker", system_prompt="You ask.", lifecycle=LINKED),
    "chief": AgentSpec(name="chief", system_prompt="You lead.", lifecycle=LINKED),
    "loner": AgentSpec(name="loner", system_prompt="You are alone.", lifecycle=SubagentLifecycle.DETACHED),
    "hasty": AgentSpec(name="hasty", system_prompt="You hurry.", lifecycle=LINKED, timeout_s=0.05),
    "reader": AgentSpec(name="reader", system_prompt="You read.", lifecycle=LINKED, tools=("look", "touch")),
    "counter": AgentSpec(
        name="counter",
        system_prompt="You count.",
        output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    ),
}
PROMPTS = {"root": "", **{name: spec.system_prompt or "" for name, spec in SPECS.items()}}


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


@tool(effect="pure")
async def touch() -> str:
    """Touch."""
    return "felt"


def spawn(name: str, task: str = "go", **more: Any) -> tuple[str, dict[str, Any]]:
    """A call of `spawn_agent`."""
    return ("spawn_agent", {"name": name, "task": task, **more})


def cast(**scripts: list[Any]) -> CastLLM:
    """Agents with their scripts; `root` is the one without instructions."""
    return CastLLM({PROMPTS[name]: steps for name, steps in scripts.items()})


def crew(
    stage: Stage, llm: Any = None, tools: Any = (), options: Any = None, **scripts: list[Any]
) -> StatefulAgentLoop:
    """A loop on which they play."""
    given = [spawn_agent_tool(list(SPECS.values())), agents_tool(), request_user_input_tool(), look, touch, *tools]
    return stage.loop(llm=llm or cast(**scripts), tools=given, **(options or {}))


async def ended(loop: StatefulAgentLoop, session_id: str) -> StatefulResult:
    """The result of a send that goes on beside the test, once it is over."""
    for _ in range(2000):
        result = await loop.get_result(session_id)
        if result is not None and result.status != "waiting_for_input":
            return result
        await next_turn(0.002)
    raise AssertionError(f"session {session_id} does not end")


async def children_of(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[str]:
    """Ids of the children that a session started, oldest first."""
    return [r.child_id for r in await stage.records(loop, session_id) if isinstance(r, ChildStarted)]


async def answers_of(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[ToolFinished]:
    """Results of a session's calls, in the order in which they were stored."""
    return [r for r in await stage.records(loop, session_id) if isinstance(r, ToolFinished)]


async def endings_of(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[ChildFinished]:
    """What a session heard of its children's ends."""
    return [r for r in await stage.records(loop, session_id) if isinstance(r, ChildFinished)]
