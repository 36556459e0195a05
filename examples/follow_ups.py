"""Something comes to mind while the agent works: it takes it in at its next step, once, however often it is delivered."""

import asyncio

from loopwright import StatefulAgentLoop, tool
from loopwright.testing import ScriptedLLM, calls

working = asyncio.Event()
go_on = asyncio.Event()


@tool(effect="pure")
async def search(topic: str) -> str:
    """A search that takes its time."""
    working.set()
    await go_on.wait()
    return f"3 papers on {topic}"


async def main() -> None:
    llm = ScriptedLLM(
        [calls(("search", {"topic": "bees"})), lambda request: f"I heard: {request.messages[-1].content}"]
    )
    async with StatefulAgentLoop(llm=llm, dsn="follow_ups.db", tools=[search]) as loop:
        session_id = await loop.new_session()
        run = asyncio.create_task(loop.send("Look for papers on bees.", session_id=session_id))
        await working.wait()
        queued = await loop.follow_up("Only after 2020!", session_id=session_id, item_id="click-7")
        again = await loop.follow_up("Only after 2020!", session_id=session_id, item_id="click-7")
        print("queued", queued.queue_depth, "| the second click is a duplicate:", again.duplicate)
        go_on.set()
        print((await run).final_text)


asyncio.run(main())
