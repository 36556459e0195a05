"""A durable conversation in one file: run it twice, and the second run remembers the first.

Try it with a model of your own: LOOPWRIGHT_MODEL=openai:gpt-5-mini OPENAI_API_KEY=... python examples/quickstart.py
"""

import asyncio
import os

from loopwright import AgentLoopConfig, StatefulAgentLoop, ToolContext, tool


@tool(effect="pure")
async def weather(city: str, ctx: ToolContext) -> str:
    """Today's weather.

    Args:
        city: Name of the city.
    """
    return f"{city}: 21 degrees, no rain"


async def main() -> None:
    model = os.environ.get("LOOPWRIGHT_MODEL", "echo:")  # echo: is offline and repeats what it hears
    config = AgentLoopConfig(system_prompt="Answer in one sentence.")
    async with StatefulAgentLoop(llm=model, dsn="quickstart.db", tools=[weather], config=config) as loop:
        session_id = await loop.new_session(metadata={"user": "ada"})
        result = await loop.send("How is the weather in Porto?", session_id=session_id)
        print(result.status, "|", result.final_text)
        for message in await loop.get_messages(session_id):
            print(type(message).__name__)


asyncio.run(main())
