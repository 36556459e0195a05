"""Invariant 5 with pictures in messages, inbox and results: stopped at every named point, the run is continued and shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.stores.sealing import sealed
from tests.crash.agents import SESSION, calls_then_sums_up, open_session, told_of_uncertain_calls

from loopwright import (
    ImagePart,
    LLMRequest,
    LLMResponse,
    StatefulAgentLoop,
    ToolContext,
    ToolHandlerResult,
    UserMessage,
    open_store,
    tool,
)
from loopwright.ports.store_admin import SessionStore
from loopwright.testing.crash_matrix import CrashScenario, Life, crash_matrix

pytestmark = pytest.mark.crash

BYTES = bytes(range(256)) * 2000
PICTURE = ImagePart("image/png", BYTES)


def opened(dsn: str) -> SessionStore:
    store = open_store(dsn.removeprefix("sealed:"))
    return sealed(store) if dsn.startswith("sealed:") else store


async def drive(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    await loop.send(UserMessage((PICTURE,)), session_id=SESSION, send_id="first")
    await loop.enqueue(UserMessage((PICTURE,)), session_id=SESSION, item_id="item")
    await loop.send("and again", session_id=SESSION, send_id="second")


def build(life: Life) -> StatefulAgentLoop:
    @tool(effect="pure")
    async def look(ctx: ToolContext) -> ToolHandlerResult:
        life.effect(ctx)
        return ToolHandlerResult((PICTURE,))

    played = calls_then_sums_up("look")

    def answer(request: LLMRequest) -> LLMResponse | str:
        for message in request.messages:
            for part in getattr(message, "content", ()):
                assert isinstance(part, str) or part.data == BYTES
        return played(request)

    return StatefulAgentLoop(llm=life.model(answer), store=opened(life.dsn), tools=[look], ambient=life.ambient)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("place", ["{folder}/{{run}}.db", "memory:{folder}-{{run}}", "sealed:memory:{folder}-{{run}}"])
def test_a_process_stopped_at_any_point_goes_on_with_the_same_pictures(place: str, twice: bool, folder: Path) -> None:
    scenario = CrashScenario(name="pictures", drive=drive, expected=told_of_uncertain_calls)
    report = crash_matrix(build, scenario, dsn=place.format(folder=folder), opened=opened, twice=twice)
    assert {"artifact.before", "artifact.after"} <= {row.at.point for row in report.rows}
