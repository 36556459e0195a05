"""The tools through which a model works with other agents.

Owns: `spawn_agent`, `agents`, `hand_off_to`. Must not know: how children run (`ports/agents.py` says what can be asked).
Read next: `../ports/agents.py`, `../core/spawning.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..model.agent_spec import AgentSpec
from ..model.call_errors import ToolFailure
from ..model.codec import encode
from ..ports.child_agents import ChildResult
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from .decorator import tool
from .descriptions import description_of


def spawn_agent_tool(agents: Sequence[AgentSpec] = ()) -> ToolDefinition:
    """`spawn_agent`: another agent does a task and answers. Effect idempotent: the same call is the same child.

    `agents`: specs that the model may name; without any it writes name and instructions itself.
    """
    known = {spec.name: spec for spec in agents}
    described = description_of("spawn_agent")
    if known:
        lines = [f"- {spec.name}: {_first_line(spec)}" for spec in agents]
        described = "\n".join([described, "", "Agents:", *lines])

    @tool(description=described, effect="idempotent", timeout_s=86_400.0, touches="session")
    async def spawn_agent(
        task: str,
        ctx: ToolContext,
        name: str = "agent",
        system_prompt: str | None = None,
        tools: list[str] | None = None,
        max_rounds: int | None = None,
        background: bool = False,
    ) -> ToolHandlerResult:
        """Give a task to another agent.

        Args:
            task: Everything that it has to know: it does not see this conversation.
            name: A short name, or that of a known agent.
            system_prompt: Its instructions, where it is no known agent.
            tools: Names of the tools it may use; without, all of yours.
            max_rounds: Model calls it may make, 1 to 50.
            background: Go on at once; what it says comes later as a message.
        """
        if known and name not in known:
            raise ToolFailure(f"there is no agent {name!r}; known: {', '.join(known)}")
        spec = known[name] if name in known else _written(name, system_prompt, tools, max_rounds)
        if background:
            child_id = await ctx.agents.start(spec, task)
            return ToolHandlerResult(f"{spec.name} works in the background as {child_id}", data={"agent_id": child_id})
        return _told(spec.name, await ctx.agents.spawn(spec, task))

    return spawn_agent


def agents_tool() -> ToolDefinition:
    """`agents`: list, await, nudge and stop agents in the background. Effect idempotent."""

    @tool(description=description_of("agents"), effect="idempotent", timeout_s=86_400.0, touches="session")
    async def agents(
        action: Literal["list", "await", "nudge", "stop"],
        ctx: ToolContext,
        agent_id: str | None = None,
        message: str | None = None,
    ) -> ToolHandlerResult:
        """Work with agents that were started.

        Args:
            action: What to do.
            agent_id: Which agent; not for list.
            message: What to tell it, for nudge.
        """
        children = ctx.agents
        if action == "list":
            found = await children.list()
            lines = [f"{one.session_id} {one.name}: {one.status}" for one in found]
            return ToolHandlerResult("\n".join(lines) or "no agents")
        if agent_id is None:
            raise ToolFailure(f"{action} needs agent_id; the action list shows the ids")
        if action == "await":
            return _told(agent_id, await children.wait(agent_id))
        if action == "stop":
            stopped = await children.stop(agent_id)
            return ToolHandlerResult(f"{agent_id} was stopped" if stopped else f"{agent_id} was not at work")
        if not message:
            raise ToolFailure("nudge needs message")
        await children.nudge(agent_id, message)
        return ToolHandlerResult(f"{agent_id} hears of it")

    return agents


def hand_off_tool(spec: AgentSpec, *, when: str) -> ToolDefinition:
    """`hand_off_to_NAME`: from the next round on `spec` answers in this very conversation. Effect idempotent.

    `when`: tells the model when that is right. It gets no tools that the send does not have.
    """

    @tool(
        name=f"hand_off_to_{_tool_part(spec.name)}",
        description=f"{description_of('hand_off')} {when}",
        effect="idempotent",
        touches="session",
    )
    async def hand_off(ctx: ToolContext, reason: str = "") -> str:
        """Hand the conversation to another agent.

        Args:
            reason: Why, in a sentence.
        """
        await ctx.agents.hand_off(spec, reason)
        return f"{spec.name} goes on from here"

    return hand_off


def _written(name: str, prompt: str | None, tools: list[str] | None, max_rounds: int | None) -> AgentSpec:
    more: dict[str, Any] = {} if max_rounds is None else {"max_rounds": max_rounds}
    return AgentSpec(name=name, system_prompt=prompt, tools=None if tools is None else tuple(tools), **more)


def _told(name: str, result: ChildResult) -> ToolHandlerResult:
    data = {"agent_id": result.session_id, "status": result.status, "output": result.output}
    said = encode(result.output).decode() if result.output is not None else result.text
    if result.ok:
        return ToolHandlerResult(said, data=data)
    why = result.error_message or said
    return ToolHandlerResult(f"{name} did not finish ({result.status}): {why}", ok=False, data=data)


def _first_line(spec: AgentSpec) -> str:
    said = str(spec.metadata.get("description") or spec.system_prompt or "")
    return said.strip().splitlines()[0][:200] if said.strip() else "no description"


def _tool_part(name: str) -> str:
    return name.replace(".", "_")
