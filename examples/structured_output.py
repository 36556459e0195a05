"""An answer that fits a type: what does not fit is asked for again, and what comes out is checked data."""

import asyncio
from typing import TypedDict

from loopwright import StatefulAgentLoop
from loopwright.testing import ScriptedLLM


class Invoice(TypedDict):
    number: str
    cents: int
    items: list[str]


async def main() -> None:
    llm = ScriptedLLM(
        [
            'The invoice is {"number": "R-1", "cents": "a lot"}',  # not what was asked for
            '{"number": "R-1", "cents": 1250, "items": ["tea", "cups"]}',
        ]
    )
    async with StatefulAgentLoop(llm=llm, dsn="structured.db") as loop:
        session_id = await loop.new_session()
        result = await loop.send("Read this invoice: ...", session_id=session_id, output_schema=Invoice)
        print(result.status, "|", result.output)


asyncio.run(main())
