"""What a host shows while a run goes on: text as it comes, tools as they start and end, tokens as they are spent."""

import asyncio

from loopwright import AgentEventType, StatefulAgentLoop, tool
from loopwright.testing import ScriptedLLM, calls


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    llm = ScriptedLLM([calls(("add", {"a": 2, "b": 40}), text="Let me add."), "It is 42."])
    async with StatefulAgentLoop(llm=llm, dsn="streaming.db", tools=[add]) as loop:
        # Anybody may listen, too; a slow or raising listener changes nothing in the run.
        loop.event_bus.subscribe(
            lambda event: print(f"[{event.data.send.total_tokens} tokens]"), AgentEventType.USAGE_UPDATED
        )
        session_id = await loop.new_session()
        async for event in loop.stream("What is 2 + 40?", session_id=session_id):
            match event.type:
                case AgentEventType.STREAM_DELTA:
                    print(event.data.text, end="", flush=True)
                case AgentEventType.TOOL_CALL_STARTED:
                    print(f"\n-> {event.data.name}({event.data.arguments})")
                case AgentEventType.TOOL_CALL_COMPLETED:
                    print(f"<- {event.data.output}")
                case AgentEventType.RUN_ENDED:
                    print(f"\n{event.data.outcome} after {event.data.rounds} rounds")


asyncio.run(main())
