"""Agents that work together: two side by side, a question from one of them, and a process that dies in between."""

import asyncio

from loopwright import StatefulAgentLoop
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools import spawn_agent_tool
from loopwright.tools.ask import request_user_input_tool
from loopwright.workflow import AgentSpec

COOK = AgentSpec(name="cook", system_prompt="You cook.")
HOST = AgentSpec(name="host", system_prompt="You know the guests.")


def cast() -> CastLLM:  # stands in for a model; llm="openai:gpt-5-mini" would be a real one
    cook, host = ({"name": name, "task": "A dinner for four."} for name in ("cook", "host"))
    return CastLLM(
        {
            "": [calls(("spawn_agent", cook), ("spawn_agent", host)), "Dinner is at eight, and nobody eats fish."],
            "You cook.": ["a soup and a pie"],
            "You know the guests.": [calls(("request_user_input", {"prompt": "Who eats no fish?"})), "no fish"],
        }
    )


def make_loop() -> StatefulAgentLoop:
    return StatefulAgentLoop(
        llm=cast(), dsn="agents.db", tools=[spawn_agent_tool([COOK, HOST]), request_user_input_tool()]
    )


async def main() -> None:
    async with make_loop() as loop:
        waiting = await loop.send("Plan a dinner.")
        [question] = waiting.pending_interactions
        print(waiting.status, "|", question.prompt)
    async with make_loop() as loop:  # another process, days later
        loop.event_bus.subscribe(lambda event: print("/".join(event.agent), event.data.status), "subagent_completed")
        result = await loop.submit_input(waiting.session_id, question.id, "nobody does")
        print(result.final_text, "|", result.usage.calls, "calls in all")


asyncio.run(main())
