"""A payment that happens once although the process dies in the middle of it.

The first process is killed after the bank took the money. The second one finds a call of unknown outcome and asks the
bank, by the idempotency key that both processes compute alike.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from loopwright import StatefulAgentLoop, ToolContext, tool
from loopwright.testing import ScriptedLLM, calls

BANK = Path("bank.txt")
DIE = "--die" in sys.argv


def ask_the_bank(call) -> str | None:
    """What the bank knows of the key; None would mean: nobody knows, tell the model so."""
    known = BANK.exists() and call.idempotency_key in BANK.read_text()
    return "paid (the bank confirms it)" if known else "not paid; safe to try again"


@tool(effect="once", reconcile=ask_the_bank)
def pay(order: str, cents: int, ctx: ToolContext) -> str:
    """Pay an order."""
    with BANK.open("a") as file:
        file.write(f"{order} {cents} {ctx.idempotency_key}\n")
    if DIE:
        os.kill(os.getpid(), 9)
    return "paid"


async def main() -> None:
    step = (
        calls(("pay", {"order": "A-1", "cents": 500})) if DIE else lambda r: f"The tool said: {r.messages[-1].content}"
    )
    async with StatefulAgentLoop(llm=ScriptedLLM([step]), dsn="once.db", tools=[pay]) as loop:
        if DIE:
            await loop.new_session(session_id="order-A-1")
            await loop.send("Pay order A-1.", session_id="order-A-1")
        result = await loop.resume("order-A-1")
        print(result.status, "|", result.final_text)


if DIE:
    asyncio.run(main())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        killed = subprocess.run([sys.executable, __file__, "--die"], check=False)
        print("the first process ended with", killed.returncode)
        asyncio.run(main())
        payments = BANK.read_text().splitlines()
        print("payments:", len(payments))
        sys.exit(len(payments) != 1)
