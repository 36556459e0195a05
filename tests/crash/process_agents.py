"""Agents that only make sense as real processes: they wait for files, or end their own process in the middle of a tool."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash.agents import AGENTS, SESSION, Agent, Drive, calls_then_sums_up, one_send, open_session, tools_of
from tests.crash.family_agents import FAMILIES

from loopwright import (
    AgentLoopConfig,
    LLMRequest,
    LLMResponse,
    StatefulAgentLoop,
    StatefulResult,
    ToolContext,
    WorkerSettings,
    tool,
)
from loopwright.testing.crash_matrix import CrashScenario, Life

APPROVALS = ("four-calls-need-approval", "four-calls-three-agents-deep-need-approval")
PROCESS_AGENTS: dict[str, Agent] = {**AGENTS, **{name: FAMILIES[name] for name in APPROVALS}}

PATIENCE_S = 60.0


def process_agent(name: str, drive: Drive) -> Callable[[Callable[[Life], StatefulAgentLoop]], Agent]:
    def register(build: Callable[[Life], StatefulAgentLoop]) -> Agent:
        made = PROCESS_AGENTS[name] = Agent(build, CrashScenario(name=name, drive=drive))
        return made

    return register


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.005)


async def first(loop: StatefulAgentLoop) -> StatefulResult:
    await open_session(loop)
    return await loop.send("go", session_id=SESSION, send_id="first")


async def own_words(loop: StatefulAgentLoop) -> StatefulResult:
    await open_session(loop)
    return await loop.send(f"from {os.getpid()}", session_id=SESSION)


async def recovered(loop: StatefulAgentLoop) -> StatefulResult | None:
    await loop.recover()
    return await loop.send("go", session_id=SESSION, send_id="first")


def slow_model(life: Life, *, lease_wait_s: float) -> StatefulAgentLoop:
    """The model notes that it was called and answers when the file `go` is there."""
    folder = Path(life.dsn).parent

    class SlowModel:
        async def complete(self, request: LLMRequest) -> LLMResponse:
            life.effects.add("model", str(os.getpid()))
            await until((folder / "go").exists)
            return LLMResponse(text=f"reply to {len(request.messages)} messages", finish_reason="stop")

        async def aclose(self) -> None:
            return

    model = life.model(SlowModel())  # type: ignore[arg-type]  # without `stream`
    config = AgentLoopConfig(lease_wait_s=lease_wait_s)
    return StatefulAgentLoop(llm=model, dsn=life.dsn, config=config, ambient=life.ambient)


@process_agent("slow-model", own_words)
def refused_at_once(life: Life) -> StatefulAgentLoop:
    return slow_model(life, lease_wait_s=0.0)


@process_agent("slow-model-patient-host", own_words)
def waits_for_the_lease(life: Life) -> StatefulAgentLoop:
    return slow_model(life, lease_wait_s=PATIENCE_S)


@process_agent("short-lease", first)
def short_lease(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("pay"))
    config = AgentLoopConfig(lease_ttl_s=1.0, lease_wait_s=PATIENCE_S)
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), config=config, ambient=life.ambient)


@process_agent("pay-and-slow", one_send)
def pay_and_slow(life: Life) -> StatefulAgentLoop:
    """Both have their effect; `slow` ends the process before it returns, once the result of `pay` is durable."""

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "paid"

    @tool(effect="once")
    async def slow(ctx: ToolContext) -> str:
        life.effect(ctx)
        await until(lambda: any(at.point.startswith("commit.after:tool_finished") for at in life.ambient.reached))
        os._exit(9)

    model = life.model(calls_then_sums_up("pay", "slow"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[pay, slow], ambient=life.ambient)


@process_agent("poison", recovered)
def poison(life: Life) -> StatefulAgentLoop:
    """A pure tool, so run again after each restart, that takes its process along."""

    @tool(effect="pure")
    async def swallow(ctx: ToolContext) -> str:
        life.effect(ctx)
        os._exit(9)

    model = life.model(calls_then_sums_up("swallow"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[swallow], ambient=life.ambient)


@process_agent("poison-begins", first)
def poison_begins(life: Life) -> StatefulAgentLoop:
    return poison.build(life)


# --- workers ----------------------------------------------------------------------------------------------------------


async def does_what_there_is(loop: StatefulAgentLoop) -> None:
    await loop.serve(once=True)


async def serves(loop: StatefulAgentLoop) -> None:
    settings = WorkerSettings(poll_min_s=0.01, poll_max_s=0.1, drain_timeout_s=PATIENCE_S)
    await loop.serve(settings=settings, handle_signals=True)


async def serves_and_leaves(loop: StatefulAgentLoop) -> None:
    await loop.serve(settings=WorkerSettings(drain_timeout_s=0.1), handle_signals=True)


def pays_and_waits(life: Life) -> StatefulAgentLoop:
    """`pay` is done and then waits for the file `go`; it blocks a thread, so that nothing can stop it."""
    folder = Path(life.dsn).parent

    @tool(effect="once")
    def pay(ctx: ToolContext) -> str:
        life.effect(ctx)
        deadline = time.monotonic() + PATIENCE_S
        while not (folder / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        return "pay done"

    model = life.model(calls_then_sums_up("pay"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[pay], ambient=life.ambient)


process_agent("worker", serves)(pays_and_waits)
process_agent("worker-that-leaves", serves_and_leaves)(pays_and_waits)
process_agent("worker-once", does_what_there_is)(pays_and_waits)
process_agent("poison-worker", does_what_there_is)(poison.build)
