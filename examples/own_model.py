"""A model of your own in ten lines: anything with `complete` is a model, and everything else stays the same."""

import asyncio

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop, Usage


class Shouter:
    async def complete(self, request: LLMRequest) -> LLMResponse:
        said = request.messages[-1].content  # the window: typed messages, oldest first
        usage = Usage(input_tokens=len(said), output_tokens=len(said), calls=1)
        return LLMResponse(text=said.upper(), finish_reason="stop", usage=usage, model="shouter-1")

    async def aclose(self) -> None:
        pass


async def main() -> None:
    async with StatefulAgentLoop(llm=Shouter(), dsn="own_model.db") as loop:
        session_id = await loop.new_session()
        result = await loop.send("good morning", session_id=session_id)
        print(result.final_text, "|", result.usage.total_tokens, "tokens")


asyncio.run(main())
