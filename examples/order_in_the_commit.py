"""An order in the application's own table, stored together with the result of the tool that made it.

The first process is killed between handler and commit, so neither the order nor the result is there. The second one runs
the tool again, and then there is one of each.
"""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile

from loopwright import StatefulAgentLoop, ToolContext, tool
from loopwright.testing import ScriptedLLM, calls

DIE = "--die" in sys.argv


@tool(effect="idempotent")  # it does nothing but what it gives to on_commit, so it may always run again
async def order(product: str, ctx: ToolContext) -> str:
    """Order a product."""

    def write(cursor) -> None:
        if DIE:
            os.kill(os.getpid(), 9)
        cursor.execute("UPDATE stock SET left = left - 1 WHERE product = ? AND left > 0", (product,))
        if cursor.rowcount == 0:
            raise ValueError(f"{product} is sold out")
        cursor.execute("INSERT INTO orders VALUES (?, ?)", (ctx.idempotency_key, product))

    ctx.on_commit(write)
    return f"ordered {product}"


async def main() -> None:
    said = [calls(("order", {"product": "lamp"}))] if DIE else []
    model = ScriptedLLM([*said, calls(("order", {"product": "lamp"})), lambda r: f"The tool: {r.messages[-1].content}"])
    async with StatefulAgentLoop(llm=model, dsn="shop.db", tools=[order]) as loop:
        if DIE:
            await loop.new_session(session_id="shop")
            await loop.send("Two lamps, please.", session_id="shop")
        result = await loop.resume("shop")
        print(result.status, "|", result.final_text)


if DIE:
    asyncio.run(main())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), sqlite3.connect("shop.db") as shop:
        shop.executescript("CREATE TABLE stock (product, left); CREATE TABLE orders (id PRIMARY KEY, product);")
        shop.execute("INSERT INTO stock VALUES ('lamp', 1)")
        shop.commit()
        killed = subprocess.run([sys.executable, __file__, "--die"], check=False)
        print("the first process ended with", killed.returncode)
        asyncio.run(main())
        print("orders:", shop.execute("SELECT product FROM orders").fetchall())
