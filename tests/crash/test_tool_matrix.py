"""Invariant 5 for what tools declare: found tools, further attempts and background calls, stopped at every named point."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.agents import SESSION, asks_for, one_send, open_session

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall, ToolContext, tool
from loopwright.model.messages import ToolResultMessage, UserMessage
from loopwright.ports.tool_retry import ToolRetry
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix

pytestmark = pytest.mark.crash


def searching(life: Life) -> StatefulAgentLoop:
    """Finds two tools in one round and calls one of them, which fails twice in every process that tries it anew."""
    failures = iter([OSError("reset"), TimeoutError("slow")])

    @tool(effect="idempotent", deferred=True, max_parallel=1, retry=ToolRetry(attempts=3, backoff_s=30.0))
    async def pay_invoice(ctx: ToolContext) -> str:
        """Pay an invoice."""
        life.ambient.alive()
        for error in failures:
            raise error
        life.effect(ctx)
        return "paid"

    @tool(effect="pure", deferred=True)
    async def mail() -> str:
        """Write to a customer."""
        return "sent"

    def answer(request: LLMRequest) -> LLMResponse | str:
        tools = " ".join([spec.name for spec in request.tools])  # type: ignore[union-attr]
        done = [m for m in request.messages if isinstance(m, ToolResultMessage)]
        if not done:
            wanted = [("c0", '{"query": "invoice"}'), ("c1", '{"query": "customer"}')]
            searches = tuple([ToolCall(call, "tool_search", arguments) for call, arguments in wanted])
            return LLMResponse(tool_calls=searches, finish_reason="tool_calls")
        if len(done) == 2:
            return asks_for("pay_invoice", "pay_invoice")
        return f"{sorted(tools.split())}: {done[-1].ok}"

    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=[pay_invoice, mail], ambient=life.ambient)


def beside(life: Life) -> StatefulAgentLoop:
    """Works in the background; the work ends after the send that began it, so that its report has a send of its own."""
    here: list[StatefulAgentLoop] = []

    @tool(effect="idempotent", background=True)
    async def report(pages: int, ctx: ToolContext) -> str:
        """Write a report."""
        while await here[0].get_result(SESSION) is None:
            await turn()
        life.effect(ctx)
        return f"{pages} pages"

    def answer(request: LLMRequest) -> LLMResponse | str:
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            if "started in the background" in last.text:
                return f"heard: {last.text.splitlines()[-2]}"
            call = ToolCall("c0", "report", '{"pages": 42}')
            return LLMResponse(tool_calls=(call,), finish_reason="tool_calls")
        return "meanwhile"

    here.append(
        StatefulAgentLoop(
            llm=life.model(answer),
            dsn=life.dsn,
            tools=[report],
            ambient=life.ambient,
            config=AgentLoopConfig(serve_timers=False),
        )
    )
    return here[0]


async def turn() -> None:
    """Lets everything else that is ready go first, commits in other threads included."""
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.001)


async def until_heard(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    await loop.send("go", session_id=SESSION, send_id="first")
    while (result := await loop.get_result(SESSION)) is None or result.send_index < 2:
        await loop.recover()
        await turn()


FOUND = CrashScenario(name="found-tools", drive=one_send)
BESIDE = CrashScenario(name="background-tool", drive=until_heard)


def test_found_tools_and_attempts_come_out_alike_wherever_the_process_is_stopped(tmp_path: Path) -> None:
    report = crash_matrix(searching, FOUND, dsn=f"{tmp_path}/{{run}}.db")
    assert "['mail', 'pay_invoice', 'tool_search']: True" in "\n".join(report.undisturbed)
    assert len(report.rows) >= 15


def test_found_tools_and_attempts_come_out_alike_in_memory_when_the_next_process_is_stopped_too() -> None:
    crash_matrix(searching, FOUND, dsn="memory:found-{run}", recover=True, twice=True, names_only=True)


def test_a_background_call_is_done_and_told_once_wherever_the_process_is_stopped(tmp_path: Path) -> None:
    report = crash_matrix(beside, BESIDE, dsn=f"{tmp_path}/{{run}}.db", names_only=True)
    assert "heard: 42 pages" in "\n".join(report.undisturbed)
    assert len(report.rows) >= 20


def test_a_background_call_is_recovered_in_memory() -> None:
    crash_matrix(beside, BESIDE, dsn="memory:beside-{run}", recover=True)
