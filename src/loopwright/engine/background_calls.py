"""Calls of tools that are declared `background`: answered at once, done as a workflow run of one step.

Owns: how such a call begins, and what the model reads then. Must not know: how runs go on, who is told of their end
(`wakes.py`). The run is a session of its own: it is durable before the call is answered, goes on wherever its agent is
served, and tells its parent once, in the commit of its end. Read next: `call_workflows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.workflow_state import BACKGROUND_TOOL
from ..model.errors import InvalidMessageError
from ..model.event_types import AgentEventType
from ..model.family_errors import SpawnRefusedError, WorkflowSpecError
from ..model.records import ToolStarted
from ..ports.tool import ToolHandlerResult
from ..prompts import prompt
from .handler_context import HandlerContext

if TYPE_CHECKING:
    from .tool_call import ToolRun


def goes_beside(one: ToolRun) -> bool:
    """False inside of a workflow run, which is beside everything already, and for a tool of a send's own registry, which
    whoever goes on with the run would not have: the call is waited for like any other."""
    run = one.run_context
    return run.state.workflow is None and run.kernel.tools.get(one.name) is not None


async def begin(one: ToolRun) -> None:
    """Starts the run and answers the call. Beginning it again, after a crash, is the same run: its id is made of the key.

    So the call itself may be repeated, whatever the tool's effect; that one holds in the run.
    """
    run, name = one.run_context, one.name
    one.intent = ToolStarted(one.call.call.id, name, one.arguments, "idempotent", one.key)
    await run.assure_lease()
    run.emit(AgentEventType.TOOL_CALL_STARTED, one.call.call.id, name, one.arguments)
    context = HandlerContext(run, one.call, name, one.key, "idempotent")
    if one.granted is not None:
        context.agents.granted.append(one.granted)
    try:
        run.kernel.ambient.reach(f"tool.before:{name}")
        run_id = await context.agents.workflows.start(_spec(one), list(one.arguments.values()))
        run.kernel.ambient.reach(f"tool.after:{name}")
    except (WorkflowSpecError, SpawnRefusedError, InvalidMessageError) as error:
        await one.failed(error, last=True)
        return
    one.spawned = context.spawned
    said = prompt("background").replace("{tool}", name).replace("{run}", run_id)
    await one.returned(ToolHandlerResult(said, data={"run_id": run_id}))


def _spec(one: ToolRun) -> dict[str, Any]:
    """One step with the call's arguments. They are given as the run's input, in order: there no text is a template."""
    arguments = {name: f"{{{{input.{place}}}}}" for place, name in enumerate(one.arguments)}
    step = {"type": "tool", "id": "call", "tool": one.name, "arguments": arguments}
    return {"name": one.name.lstrip("-") or "call", "root": step, "metadata": {BACKGROUND_TOOL: one.name}}
