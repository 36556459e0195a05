"""Tools that the model finds when it needs them, and a slow one that works beside the conversation.

Deferred tools are not in the request until `tool_search` found them. A background tool answers at once; what comes of it is
told to the session as a message, once, also when the process dies in between.
"""

import asyncio

from loopwright import StatefulAgentLoop, tool
from loopwright.ports import ToolRetry
from loopwright.testing import ScriptedLLM, calls

asked_to_wait = asyncio.Event()


@tool(effect="pure", deferred=True, max_parallel=2, retry=ToolRetry(attempts=3, on=(ConnectionError,)))
async def find_customer(name: str) -> dict[str, str]:
    """Look a customer up by name."""
    return {"name": name, "city": "Basel"}


@tool(effect="idempotent", background=True)
async def yearly_report(customer: str) -> str:
    """Write the yearly report of a customer; takes minutes."""
    await asked_to_wait.wait()
    return f"report on {customer}: 42 pages"


async def main() -> None:
    llm = ScriptedLLM(
        [
            calls(("tool_search", {"query": "customers"})),
            calls(("find_customer", {"name": "Ada"}), ("yearly_report", {"customer": "Ada"})),
            "Ada lives in Basel. I will tell you when her report is there.",
            lambda request: request.messages[-1].text.splitlines()[-2],
        ]
    )
    tools = [find_customer, yearly_report]
    async with StatefulAgentLoop(llm=llm, dsn="many_tools.db", tools=tools) as loop:
        first = await loop.send("Where does Ada live? And write her report.")
        print([spec.name for spec in llm.requests[0].tools])
        print([spec.name for spec in llm.requests[1].tools])
        print(first.final_text)
        asked_to_wait.set()
        while (heard := await loop.get_result(first.session_id)) is None or heard.send_index == 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print(heard.final_text)


asyncio.run(main())
