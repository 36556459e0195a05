"""A tool that only the host can run, such as one in the user's browser: the send pauses and takes the result later.

The host may be another process, hours later; each call takes one result.
"""

import asyncio

from loopwright import StatefulAgentLoop, ToolDefinition
from loopwright.testing import ScriptedLLM, calls

pick_color = ToolDefinition(
    name="pick_color",
    description="Let the user pick a colour in the browser.",
    parameters={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    handler=None,  # nobody here can run it
)


async def main() -> None:
    steps = [
        calls(("pick_color", {"title": "Background"})),
        lambda request: f"It will be {request.messages[-1].content}.",
    ]
    async with StatefulAgentLoop(llm=ScriptedLLM(steps), dsn="host_tools.db", tools=[pick_color]) as loop:
        session_id = await loop.new_session()
        result = await loop.send("Change the background.", session_id=session_id)
        call = result.pending_tool_calls[0]
        print(result.status, "|", call.name, call.parsed())
        result = await loop.submit_tool_results(session_id, {call.id: "dark green"})
        print(result.status, "|", result.final_text)


asyncio.run(main())
