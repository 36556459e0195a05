"""Two agents share a board: what one has taken on, the other leaves alone; nobody overwrites what they have not seen."""

import asyncio
import time

from loopwright import StatefulAgentLoop, open_store
from loopwright.model.family_errors import BoardEntryError
from loopwright.ports import BoardChange, BoardPost, put_if
from loopwright.ports.store_admin import SessionStore
from loopwright.testing import ScriptedLLM, calls
from loopwright.tools import ToolRegistry, board_tools


async def agent(store: SessionStore, name: str, script: list[object]) -> None:
    tools = ToolRegistry.of(*board_tools(store, "docs", author=name))
    async with StatefulAgentLoop(llm=ScriptedLLM(script), store=store, tools=tools) as loop:
        result = await loop.send("Look after the links in the docs.")
        print(name, "|", result.status, "|", result.final_text)


async def main() -> None:
    store = open_store("memory:")  # any DSN: processes on one database share its boards
    task = {"action": "post", "kind": "task", "text": "check the links"}
    await agent(store, "checker", [calls(("board_write", task)), "I take the links."])
    await agent(store, "reader", [calls(("board_read", {})), "Somebody checks the links already."])

    (seen,) = await store.read_board("docs")
    done = {"action": "update", "entry": 1, "version": seen.version, "text": "check the links: done, two are dead"}
    await agent(store, "checker", [calls(("board_write", done)), calls(("board_read", {})), "Two links are dead."])
    for entry in await store.read_board("docs"):
        print(f"#{entry.entry_id} (version {entry.version}, {entry.kind}, by {entry.author})\n  {entry.text}")
    try:
        late = BoardChange(board_id="docs", entry_id=1, version=seen.version, text="links: not begun", at=time.time())
        await store.update_entry(late)
    except BoardEntryError as error:
        print("too late:", error)

    leader = BoardPost(board_id="docs", key="leader", kind="register", text="checker", at=time.time())
    print("leader:", (await put_if(store, leader, version=0)).text)
    await store.aclose()


asyncio.run(main())
