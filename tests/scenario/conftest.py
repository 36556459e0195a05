"""The stage of every scenario: loops over both shipped stores, models that follow a script, processes that die."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright import AgentEvent, AgentLoopConfig, LLMResponse, Message, StatefulAgentLoop, ToolCall
from loopwright.core.pairing import problem
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import decode_record
from loopwright.model.records import Record
from loopwright.testing import ScriptedLLM
from loopwright.testing.crash_points import CrashPoints, ProcessStopped, StopAt
from loopwright.testing.virtual import VirtualAmbient


class Stage:
    """Opens loops on one store and closes them; checks at the end that every script was played and every session is sendable."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._loops: list[StatefulAgentLoop] = []
        self._dead: list[StatefulAgentLoop] = []
        self._models: list[ScriptedLLM] = []
        self.time = VirtualAmbient()

    def model(self, *steps: Any) -> ScriptedLLM:
        """A model whose steps must all be taken."""
        model = ScriptedLLM(steps)
        self._models.append(model)
        return model

    def loop(self, *steps: Any, llm: Any = None, **options: Any) -> StatefulAgentLoop:
        """A loop over the stage's store with a scripted model (or `llm`); settings of `AgentLoopConfig` are taken by name."""
        settings = {name: options.pop(name) for name in AgentLoopConfig.__struct_fields__ if name in options}
        service = llm if llm is not None else self.model(*steps)
        if "store" not in options:
            options.setdefault("dsn", self.dsn)
        loop = StatefulAgentLoop(llm=service, config=AgentLoopConfig(**settings), **options)
        self._loops.append(loop)
        return loop

    def mortal(self, at: str, *steps: Any, **options: Any) -> StatefulAgentLoop:
        """A loop whose process dies at a named point."""
        points = CrashPoints(stop_at=StopAt.parse(at))
        loop = self.loop(*steps, ambient=points, **options)
        points.on_stop = lambda: self._abandon(loop)
        return loop

    async def dies(self, loop: StatefulAgentLoop, work: Awaitable[Any]) -> None:
        """Runs `work` to the death of the loop's process and forgets what that process knew."""
        with pytest.raises(ProcessStopped):
            await work
        await self.bury(loop)

    async def bury(self, loop: StatefulAgentLoop) -> None:
        """Whatever the process of this loop kept in memory is gone."""
        self._abandon(loop)
        self._loops.remove(loop)
        await loop.aclose(drain_timeout_s=0.0)
        ACTORS.drop(loop.store.identity)

    def _abandon(self, loop: StatefulAgentLoop) -> None:
        if loop not in self._dead:
            self._dead.append(loop)
            loop.store.abandon()

    async def records(self, loop: StatefulAgentLoop, session_id: str) -> list[Record]:
        """The journal of a session."""
        return [decode_record(row.kind, row.version, row.body) for row in await loop.store.read(session_id)]

    async def close(self) -> None:
        for loop in self._loops:
            await loop.aclose(drain_timeout_s=0.0)
        ACTORS.drop(self.dsn)
        for model in self._models:
            for request in model.requests:
                assert problem(request.messages) is None  # type: ignore[arg-type]
            model.assert_done()


@pytest.fixture(params=["sqlite", "memory"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that outlives the loops on it."""
    return str(tmp_path / "app.db") if request.param == "sqlite" else f"memory:{tmp_path}"


@pytest.fixture
async def stage(dsn: str) -> AsyncIterator[Stage]:
    stage = Stage(dsn)
    yield stage
    await stage.close()


Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def python() -> AsyncIterator[Start]:
    """Starts a Python program in a process of its own; it is killed at the end if it still runs."""
    started: list[asyncio.subprocess.Process] = []

    async def start(program: str, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, *arguments, stdin=pipe, stdout=pipe
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def said(*texts: str, finish: Any = "stop") -> LLMResponse:
    """A reply of text."""
    return LLMResponse(text="".join(texts), finish_reason=finish)


def asked(*calls: tuple[str, str, str], finish: Any = "tool_calls", text: str = "") -> LLMResponse:
    """A reply with calls: (id, tool, argument text) each."""
    return LLMResponse(text=text, tool_calls=tuple([ToolCall(*call) for call in calls]), finish_reason=finish)


def texts(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    """`role: text` of each message."""
    return [f"{message.__struct_config__.tag}: {getattr(message, 'text', '')}" for message in messages]


class Listener:
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def __call__(self, event: AgentEvent) -> None:
        self.events.append(event)

    def kinds(self, *only: str) -> list[str]:
        return [e.type.value for e in self.events if not only or e.type.value in only]


class Counting:
    """Notes which calls reached the outside world."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.started = asyncio.Event()

    def note(self, what: str) -> str:
        self.calls.append(what)
        return f"{what} done"
