"""A run that waits for a person, across processes: the question is stored, the answer comes days later from anywhere."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile

from loopwright import InputNeeded, StatefulAgentLoop, tool
from loopwright.testing import ScriptedLLM, calls


@tool(effect="pure")
async def ask_boss(question: str) -> InputNeeded:
    """Ask the boss, who may take a while."""
    return InputNeeded(question, kind="choice", options=("yes", "no"))


async def ask() -> None:
    llm = ScriptedLLM([calls(("ask_boss", {"question": "Ship it on a Friday?"}))])
    async with StatefulAgentLoop(llm=llm, dsn="boss.db", tools=[ask_boss]) as loop:
        await loop.new_session(session_id="release")
        result = await loop.send("Get the release out.", session_id="release")
        print(result.status, "|", result.pending_interactions[0].prompt, flush=True)


async def answer() -> bool:
    llm = ScriptedLLM([lambda request: f"The boss says {request.messages[-1].content}."])
    async with StatefulAgentLoop(llm=llm, dsn="boss.db", tools=[ask_boss]) as loop:
        _, questions = await loop.get_pending("release")
        result = await loop.submit_input("release", questions[0].id, "no", by="boss")
        print(result.status, "|", result.final_text)
        return result.ok


if "--ask" in sys.argv:
    asyncio.run(ask())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        subprocess.run([sys.executable, __file__, "--ask"], check=True)  # the process that asked is gone
        sys.exit(not asyncio.run(answer()))
