"""One of many processes on one store: serves it as a worker, says things to random sessions and arms timers, or both.

Run as `python -m tests.crash.many_worker DSN FOLDER NAME SESSIONS ROLE SEED`, until the file `FOLDER/stop` is there or SIGTERM
comes. Notes in `FOLDER/accepted-NAME` what was accepted, line by line, after the call that accepted it came back;
`FOLDER/effects` holds what `once` tools did. What armed, changed or dropped a timer is said to its session in the same
commit: `arm.X`, `again.X` or `drop.X`; the timer itself says `tick.X.1`, or `tick.X.2` when it was armed again.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
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
    WorkerSettings,
    tool,
)
from loopwright.model.codec import encode
from loopwright.model.messages import ToolResultMessage
from loopwright.ports.store import DropTimer, InboxItem, Op, PutTimer
from loopwright.ports.store_admin import SessionStore

LEASE_S = 2.0
TALKERS = 12
LONGEST_TIMER_S = 1.5
SERVES, TALKS, BOTH = ROLES = ("serves", "talks", "both")


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


async def say_with(store: SessionStore, session_id: str, said: str, op: Op) -> None:
    """Says something in the commit that changes a timer."""
    item = InboxItem(said, "message", encode(UserMessage(said)), time.time())
    await store.enqueue(session_id, item, (op,))


def ticking(name: str, count: int) -> PutTimer:
    """A timer that fires soon, one in four at once."""
    due_at = time.time() + max(0.0, random.uniform(-0.5, LONGEST_TIMER_S))
    return PutTimer(name, due_at, encode(UserMessage(f"tick.{name}.{count}")))


async def arm(store: SessionStore, session_id: str, name: str) -> float:
    """Answers when it fires."""
    timer = ticking(name, 1)
    await say_with(store, session_id, f"arm.{name}", timer)
    return timer.due_at


async def arm_and_change(loop: StatefulAgentLoop, session_id: str, name: str) -> str:
    """Arms a timer; one in three is armed again, one in three dropped, most of them just when workers find it due."""
    due_at = await arm(loop.store, session_id, name)
    then = random.choice(["keep", "again", "drop"])
    left_s = max(0.0, due_at - time.time())
    await asyncio.sleep(random.choice([random.uniform(0, left_s), left_s + random.uniform(0, 0.05), left_s]))
    if then == "again":
        await say_with(loop.store, session_id, f"again.{name}", ticking(name, 2))
    elif then == "drop":
        await say_with(loop.store, session_id, f"drop.{name}", DropTimer(name))
    return f"{'arm' if then == 'keep' else then}.{name}"


def build(dsn: str, folder: Path) -> StatefulAgentLoop:
    @tool(effect="once")
    async def note(ctx: ToolContext) -> str:
        """Note."""
        line(folder / "effects", f"{ctx.session_id} {ctx.idempotency_key}")
        if random.random() < 0.15:
            await arm(loop.store, ctx.session_id, f"tool-{ctx.idempotency_key}")
        await asyncio.sleep(random.uniform(0, 0.01))
        return "noted"

    config = AgentLoopConfig(lease_ttl_s=LEASE_S, lease_wait_s=30.0, session_cache_size=50)
    # A file keeps what a killed process committed in any case; a killed server only what it had synced.
    durability = "barrier" if "://" in dsn else "relaxed"
    loop = StatefulAgentLoop(llm=Model(), dsn=dsn, tools=[note], config=config, durability=durability)
    return loop


class Talker:
    """Says one thing after the other, to a random session in a random way."""

    def __init__(self, loop: StatefulAgentLoop, folder: Path, name: str, sessions: int) -> None:
        self.going = asyncio.Event()
        self._loop = loop
        self._folder = folder
        self._name = name
        self._sessions = sessions
        self._count = 0

    async def talk(self) -> None:
        while not self.going.is_set() and not (self._folder / "stop").exists():
            self._count += 1
            said, session_id = f"{self._name}.{self._count}", f"s{random.randrange(self._sessions)}"
            try:
                accepted = await self._say(said, session_id)
            except LoopwrightError as error:
                line(self._folder / f"errors-{self._name}", f"{error.code} {session_id} {said}")
                continue
            line(self._folder / f"accepted-{self._name}", f"{session_id} {accepted}")

    async def _say(self, said: str, session_id: str) -> str:
        match random.choice(["send", "send", "follow_up", "enqueue", "timer"]):
            case "send":
                await self._loop.send(said, session_id=session_id, send_id=said)
            case "follow_up":
                await self._loop.follow_up(said, session_id=session_id, item_id=said)
            case "enqueue":
                await self._loop.enqueue(said, session_id=session_id, item_id=said)
            case _:
                return await arm_and_change(self._loop, session_id, said)
        return said


async def main(dsn: str, folder: Path, name: str, sessions: int, role: str) -> None:
    settings = WorkerSettings(max_sessions=8, poll_min_s=0.02, poll_max_s=0.5, set_aside_s=0.5)
    async with build(dsn, folder) as loop:
        talker = Talker(loop, folder, name, sessions)
        talking = [asyncio.create_task(talker.talk()) for _ in range(TALKERS if role != SERVES else 0)]
        if role != TALKS:
            done = await loop.serve(stop=(folder / "stop").exists, settings=settings, handle_signals=True)
            line(folder / f"served-{name}", f"{done.taken} {done.ended} {done.left} {done.timers}")
            talker.going.set()
        await asyncio.gather(*talking)


if __name__ == "__main__":
    _, _dsn, _folder, _name, _sessions, _role, _seed = sys.argv
    random.seed(_seed)
    asyncio.run(main(_dsn, Path(_folder), _name, int(_sessions), _role))
