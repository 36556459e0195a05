"""One budget for everything that a customer's sessions do, however many run at once and in whatever process."""

import asyncio

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, PriceTable, StatefulAgentLoop, Usage

PRICES = PriceTable({"writer-1": {"input": 1, "output": 10}})  # US dollars for a million tokens


class Writer:
    """Writes 500 tokens a call, which is half a cent."""

    model = "writer-1"

    async def complete(self, request: LLMRequest) -> LLMResponse:
        usage = Usage(input_tokens=20, output_tokens=500, calls=1)
        return LLMResponse(text="A page.", finish_reason="stop", usage=usage, model=self.model)

    async def aclose(self) -> None:
        pass


async def main() -> None:
    config = AgentLoopConfig(cost_budgets={"customer-7": 0.03}, max_output_tokens=500)
    async with StatefulAgentLoop(llm=Writer(), dsn="memory:", config=config, prices=PRICES) as loop:
        results = await asyncio.gather(*[loop.send(f"Write page {n}.") for n in range(20)])
        pages = sum(result.ok for result in results)
        refused = next(result for result in results if not result.ok)
        print(f"{pages} pages | {len(results) - pages} x {refused.status}: {refused.error_code}")
        account = await loop.store.budget("customer-7")
        print(f"spent ${account.spent / 1e9:.4f}, held ${account.held / 1e9:.4f}")


asyncio.run(main())
