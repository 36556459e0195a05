"""Invariant 5 over an encrypted store: stopped at every named point and resumed, the journal is that of the undisturbed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.stores.sealing import sealed
from tests.crash import agents
from tests.crash.agents import Drive, calls_then_sums_up, tools_of

from loopwright import StatefulAgentLoop, ToolContext, open_store, tool
from loopwright.ports.store_admin import SessionStore
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix

pytestmark = pytest.mark.crash


def opened(dsn: str) -> SessionStore:
    return sealed(open_store(dsn))


def with_tools(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("pay", "look", "put", "mail"))
    return StatefulAgentLoop(llm=model, store=opened(life.dsn), tools=tools_of(life), ambient=life.ambient)


def with_a_big_output(life: Life) -> StatefulAgentLoop:
    @tool(effect="pure", output_limit=200)
    async def look(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "0123456789" * 60_000

    model = life.model(calls_then_sums_up("look"))
    return StatefulAgentLoop(llm=model, store=opened(life.dsn), tools=[look], ambient=life.ambient)


SCENARIOS: dict[str, tuple[Callable[[Life], StatefulAgentLoop], Drive]] = {
    "once-tools": (with_tools, agents.one_send),
    "follow-up": (with_tools, agents.followed_up),
    "artifact": (with_a_big_output, agents.two_sends),
}


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize("place", ["{folder}/{{run}}.db", "memory:sealed-{{scenario}}-{{run}}"])
def test_a_process_stopped_at_any_point_is_continued_on_an_encrypted_store(name: str, place: str, folder: Path) -> None:
    build, drive = SCENARIOS[name]
    scenario = CrashScenario(name=name, drive=drive, expected=agents.told_of_uncertain_calls)
    recover = place.startswith("memory")
    dsn = place.format(folder=folder)
    assert len(crash_matrix(build, scenario, dsn=dsn, opened=opened, recover=recover).rows) >= 10
