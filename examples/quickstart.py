"""A durable conversation in one file: run it twice, and the second run remembers the first.

Try it with a model of your own: LOOPWRIGHT_MODEL=openai:gpt-5-mini OPENAI_API_KEY=... python examples/quickstart.py
"""

import asyncio
import os

from loopwright import StatefulAgentLoop, tool
from loopwright.model.errors import SessionExistsError


@tool(effect="pure")
async def weather(city: str) -> str:
    """Today's weather.

    Args:
        city: Name of the city.
    """
    return f"{city}: 21 degrees, no rain"


async def main() -> None:
    model = os.environ.get("LOOPWRIGHT_MODEL", "echo:")  # echo: is offline and repeats what it hears
    async with StatefulAgentLoop(llm=model, dsn="quickstart.db", tools=[weather]) as loop:
        try:
            await loop.new_session(session_id="ada", system_prompt="Answer in one sentence.")
        except SessionExistsError:
            print("remembered:", [message.text for message in await loop.get_messages("ada")])
        result = await loop.send("How is the weather in Porto?", session_id="ada")
        print(result.status, "|", result.final_text)


asyncio.run(main())
