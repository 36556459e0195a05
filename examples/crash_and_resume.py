"""kill -9 between two steps: the next process reads the journal and goes on, and what was done stays done."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from loopwright import StatefulAgentLoop, tool
from loopwright.testing import ScriptedLLM, calls

DONE = Path("done.txt")
DIE = "--die" in sys.argv


@tool(effect="once")
def bake(what: str) -> str:
    """Bake something."""
    with DONE.open("a") as file:
        file.write(what + "\n")
    return f"one {what}"


def baked() -> list[str]:
    return DONE.read_text().split()


@tool(effect="idempotent")
async def set_table(plates: int) -> str:
    """Set the table; doing it twice changes nothing."""
    if DIE:
        os.kill(os.getpid(), 9)
    return f"{plates} plates"


async def main() -> bool:
    steps = [calls(("bake", {"what": "cake"})), calls(("set_table", {"plates": 4}))] if DIE else ["Coffee is ready."]
    async with StatefulAgentLoop(llm=ScriptedLLM(steps), dsn="crash.db", tools=[bake, set_table]) as loop:
        if DIE:
            await loop.new_session(session_id="party")
            await loop.send("Prepare the party.", session_id="party")
        found = await loop.recover()  # every interrupted session that this program knows how to run
        for recovered in found:
            print(recovered.session_id, "|", recovered.result.status, "|", recovered.result.final_text)
        print("baked:", baked())
        return len(found) == 1 and baked() == ["cake"]


if DIE:
    asyncio.run(main())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        killed = subprocess.run([sys.executable, __file__, "--die"], check=False)
        print("the first process ended with", killed.returncode)
        sys.exit(not asyncio.run(main()))
