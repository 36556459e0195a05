"""What a send cost, by prices of your own, and a budget that ends a run before it costs too much."""

import asyncio

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, PriceTable, StatefulAgentLoop, ToolCall, Usage, tool

PRICES = PriceTable({"thinker-1*": {"input": 3, "cached": 0.3, "output": 15}})  # US dollars for a million tokens


class Thinker:
    """Never content: it looks again in every round."""

    model = "thinker-1"  # by this name a call is priced ahead, which budgets need

    async def complete(self, request: LLMRequest) -> LLMResponse:
        looks = ToolCall(f"c{len(request.messages)}", "look", "{}")
        usage = Usage(input_tokens=20_000, cached_tokens=15_000, output_tokens=1_000, calls=1)
        return LLMResponse(tool_calls=(looks,), finish_reason="tool_calls", usage=usage, model="thinker-1-2026-11-01")

    async def aclose(self) -> None:
        pass


@tool(effect="pure")
async def look() -> str:
    """Look again."""
    return "the same as before"


async def main() -> None:
    config = AgentLoopConfig(run_cost_budget_usd=0.10, max_output_tokens=1_000)
    async with StatefulAgentLoop(llm=Thinker(), dsn="memory:", tools=[look], config=config, prices=PRICES) as loop:
        result = await loop.send("Is it done?")  # each call reserves its input and at most 1,000 tokens of output
        print(f"{result.status} after {result.rounds} rounds | ${result.usage.cost_usd:.4f}")
        stats = await loop.get_session_stats(result.session_id)
        print(f"session: {stats.usage.calls} calls, {stats.usage.nanodollars:,} nanodollars")


asyncio.run(main())
