"""A conversation that outgrows its budget: finished sends are shown as accounts, the oldest become one note.

The journal keeps every word; only what the model is shown gets shorter.
"""

import asyncio

from loopwright import (
    AgentLoopConfig,
    LLMRequest,
    LLMResponse,
    LLMSummaryFold,
    ProjectedRepresentation,
    StatefulAgentLoop,
    ToolCall,
    tool,
)


class Guide:
    def __init__(self) -> None:
        self.shown: list[str] = []

    async def complete(self, request: LLMRequest) -> LLMResponse:
        if not request.tools:
            return LLMResponse(text="They plan a tour of old towns and want no museums.", finish_reason="stop")
        self.shown = [str(getattr(message, "content", "(a reply)")) for message in request.messages]
        if self.shown[-1].startswith("Tell me"):
            town = self.shown[-1].split()[-1]
            return LLMResponse(
                tool_calls=(ToolCall("c1", "look_up", f'{{"town": "{town}"}}'),), finish_reason="tool_calls"
            )
        return LLMResponse(text="It is an old town with a castle.", finish_reason="stop")

    async def aclose(self) -> None:
        pass


@tool(effect="pure", project=lambda args, result: f"read about {args['town']}")
async def look_up(town: str) -> str:
    """Read about a town."""
    return f"{town} is old. " + "It has a castle, a bridge and a market. " * 12


async def main() -> None:
    guide, config = Guide(), AgentLoopConfig(context_budget_tokens=700)
    parts = {"representation": ProjectedRepresentation(), "fold": LLMSummaryFold(keep_last_sends=2)}
    async with StatefulAgentLoop(llm=guide, dsn="memory:", tools=[look_up], config=config, **parts) as loop:
        session_id = await loop.new_session()
        for number in range(12):
            await loop.send(f"Tell me about Town-{number}", session_id=session_id)
        print(guide.shown[0].splitlines()[3])
        print(*guide.shown[1].splitlines()[:1], *guide.shown[1].splitlines()[5:11], sep="\n")
        kept = await loop.get_messages(session_id, include_compacted=True)
        print(len(guide.shown), "messages are shown,", len(kept), "are kept")


asyncio.run(main())
