"""Nothing dangerous without a yes: a hook asks a person before a tool runs.

"deny" is final in every process, whatever hooks it has; "approve" lets the call run. Hooks see every path that runs a
tool, also the one after a crash.
"""

import asyncio

from loopwright import AgentHooks, HookPoint, StatefulAgentLoop, tool
from loopwright.ports.hook import ToolBeforeContext
from loopwright.testing import ScriptedLLM, calls

hooks = AgentHooks()


@tool(effect="once")
async def delete_branch(name: str) -> str:
    """Delete a branch."""
    return f"{name} is gone"


@hooks.on(HookPoint.TOOL_BEFORE, name="approval")
async def approve(context: ToolBeforeContext) -> None:
    if not context.answered:
        context.ask(f"May the agent call {context.tool_name}({context.arguments})?")


async def main() -> None:
    llm = ScriptedLLM(
        [calls(("delete_branch", {"name": "main"})), lambda request: f"Well: {request.messages[-1].content}."]
    )
    async with StatefulAgentLoop(llm=llm, dsn="approval.db", tools=[delete_branch], hooks=hooks) as loop:
        session_id = await loop.new_session()
        result = await loop.send("Clean up.", session_id=session_id)
        question = result.pending_interactions[0]
        print(result.status, "|", question.prompt, question.options)
        result = await loop.submit_input(session_id, question.id, "deny", by="ada")
        print(result.status, "|", result.final_text)


asyncio.run(main())
