"""One of many processes on one store: says things to random sessions until the file `stop` is there.

Run as `python -m tests.crash.many_worker DSN FOLDER NAME SESSIONS`. Notes in `FOLDER/accepted-NAME` what was accepted, line
by line, after the call that accepted it came back; `FOLDER/effects` holds what `once` tools did.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from loopwright import (
    AgentLoopConfig,
    LLMRequest,
    LLMResponse,
    LoopwrightError,
    StatefulAgentLoop,
    ToolCall,
    ToolContext,
    UserMessage,
    tool,
)
from loopwright.model.messages import ToolResultMessage

LEASE_S = 2.0
TALKERS = 6


def line(path: Path, text: str) -> None:
    """Appends a line in one write, which no other process can cut in two."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)


class Model:
    """Asks for the tool after each new input, and then repeats what it heard."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        await asyncio.sleep(random.uniform(0, 0.01))
        if request.tool_choice != "none" and not isinstance(request.messages[-1], ToolResultMessage):
            return LLMResponse(tool_calls=(ToolCall(f"c{len(request.messages)}", "note", "{}"),))
        heard = [m.text for m in request.messages if isinstance(m, UserMessage)]
        return LLMResponse(text=f"heard {len(heard)}", finish_reason="stop")


def build(dsn: str, folder: Path) -> StatefulAgentLoop:
    @tool(effect="once")
    async def note(ctx: ToolContext) -> str:
        """Note."""
        line(folder / "effects", f"{ctx.session_id} {ctx.idempotency_key}")
        await asyncio.sleep(random.uniform(0, 0.01))
        return "noted"

    config = AgentLoopConfig(lease_ttl_s=LEASE_S, lease_wait_s=30.0, session_cache_size=50)
    return StatefulAgentLoop(llm=Model(), dsn=dsn, tools=[note], config=config, durability="relaxed")


async def talk(loop: StatefulAgentLoop, folder: Path, name: str, sessions: int) -> None:
    count = 0
    while not (folder / "stop").exists():
        count += 1
        said, session_id = f"{name}.{id(asyncio.current_task()) % 9973}.{count}", f"s{random.randrange(sessions)}"
        try:
            if random.random() < 0.5:
                await loop.send(said, session_id=session_id, send_id=said)
            else:
                await loop.follow_up(said, session_id=session_id, item_id=said)
        except LoopwrightError as error:
            line(folder / f"errors-{name}", f"{error.code} {session_id} {said}")
            continue
        line(folder / f"accepted-{name}", f"{session_id} {said}")


async def main(dsn: str, folder: Path, name: str, sessions: int) -> None:
    async with build(dsn, folder) as loop:
        await asyncio.gather(*[talk(loop, folder, name, sessions) for _ in range(TALKERS)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
