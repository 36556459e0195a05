"""A process that stops while a timer is armed, claimed, fired or heard: the session is told once, whatever the point."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.agents import SESSION, open_session
from tests.servers import client
from tests.servers.one_database import emptied

from loopwright import AgentHooks, AgentLoopConfig, HookPoint, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall
from loopwright.model.messages import ToolResultMessage
from loopwright.ports.hook import TimerContext
from loopwright.testing.crash_matrix import CrashReport, CrashScenario, Life, crash_matrix
from loopwright.tools.timers import schedule_wakeup_tool

pytestmark = pytest.mark.crash

IS_FULL = bool(os.environ.get("LOOPWRIGHT_FULL"))
"""`./dev crash`: servers see each point each time that it is reached."""

LATER_S = 10_000.0
"""Longer than any claim that a stopped process may have left."""
HOST_DUE_AT = 1_800_001_000.0


def build(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            return "it is set" if last.ok else "it is not set"
        if "<timer" in last.text:
            return f"woken: {last.text.splitlines()[1]}"
        call = ToolCall("c1", "schedule_wakeup", '{"note": "of the model", "delay_seconds": 60}')
        return LLMResponse(tool_calls=(call,), finish_reason="tool_calls")

    hooks = AgentHooks()

    @hooks.on(HookPoint.TIMER_FIRE)
    async def takes_a_while(context: TimerContext) -> None:
        life.ambient.alive()
        await life.ambient.sleep(45.0)

    return StatefulAgentLoop(
        llm=life.model(answer),
        dsn=life.dsn,
        tools=[schedule_wakeup_tool()],
        config=AgentLoopConfig(serve_timers=False),
        hooks=hooks,
        ambient=life.ambient,
    )


async def until_none_is_armed(loop: StatefulAgentLoop) -> None:
    ambient = loop._kernel.ambient
    while await loop.list_timers(SESSION):
        await ambient.sleep(LATER_S)
        await loop.serve(once=True)
    await loop.serve(once=True)  # what was told by a process that stopped right behind it


async def one_wakeup_of_the_model_and_one_timer_of_the_host(loop: StatefulAgentLoop) -> None:
    """A host that starts again arms its timer again, for the same time."""
    await open_session(loop)
    await loop.send("go", session_id=SESSION, send_id="first")
    await until_none_is_armed(loop)
    await loop.schedule_timer(SESSION, note="of the host", due_at=HOST_DUE_AT, timer_id="host")
    await until_none_is_armed(loop)


async def one_timer_of_the_host(loop: StatefulAgentLoop) -> None:
    """The same without the call of the model, for servers, where each stop takes longer."""
    await open_session(loop)
    await loop.schedule_timer(SESSION, note="of the host", due_at=HOST_DUE_AT, timer_id="host")
    await until_none_is_armed(loop)


def stopped_everywhere(dsn: str, *, recover: bool = False, twice: bool = False) -> CrashReport:
    scenario = CrashScenario(name="timers", drive=one_wakeup_of_the_model_and_one_timer_of_the_host)
    return crash_matrix(build, scenario, dsn=dsn, recover=recover, twice=twice)


def test_a_process_stopped_at_any_point_of_a_timer_is_continued_on_sqlite(folder: Path) -> None:
    report = stopped_everywhere(f"{folder}/{{run}}.db")
    points = {row.at.point for row in report.rows}
    assert {"timer.before", "timer.after", "inbox.before", "inbox.after"} < points
    told = [line for line in report.undisturbed if "<timer" in line]
    assert [("of the model" in line, "of the host" in line) for line in told] == [(True, False), (False, True)]


def test_a_process_stopped_while_it_recovers_a_timer_is_continued_by_a_third() -> None:
    assert len(stopped_everywhere("memory:timers-twice-{scenario}-{run}", twice=True, recover=True).rows) >= 20


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_process_stopped_at_any_point_of_a_timer_is_continued_on_a_server(kind: str) -> None:
    scenario = CrashScenario(name="timer", drive=one_timer_of_the_host)
    with client.shared(kind).database() as dsn:
        assert len(crash_matrix(build, scenario, dsn=emptied(dsn), names_only=not IS_FULL).rows) >= 10
