"""Workflow runs from outside: stops before they begin, questions that others answer, times, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage

from loopwright import StatefulAgentLoop, tool
from loopwright.ports.store import InboxItem
from loopwright.testing.cast import CastLLM
from loopwright.tools.ask import request_user_input_tool

BEGUN: list[str] = []


@tool(effect="idempotent")
async def act(what: str = "it") -> str:
    """Acts."""
    BEGUN.append(what)
    return f"did {what}"


@pytest.fixture(autouse=True)
def _none_begun() -> None:
    BEGUN.clear()


def flow(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "flow", "root": {"type": "sequence", "steps": list(steps)}, **more}


ACTS = {"type": "tool", "id": "act", "tool": "act", "arguments": {}}


def crew(stage: Stage, **scripts: list[Any]) -> StatefulAgentLoop:
    return stage.loop(llm=CastLLM(scripts), tools=[act, request_user_input_tool()])


async def test_a_run_that_is_cancelled_right_after_its_start_ends_as_cancelled_before_any_step(stage: Stage) -> None:
    loop = crew(stage)
    run_id = await loop.workflows.start(flow(ACTS))
    assert await loop.workflows.cancel(run_id)
    result = await loop.workflows.wait(run_id)
    assert (result.status, BEGUN) == ("cancelled", [])
    assert not await loop.workflows.cancel(run_id)


@pytest.mark.parametrize("served", [True, False])
async def test_a_run_that_is_cancelled_before_it_began_never_begins(stage: Stage, served: bool) -> None:
    loop = crew(stage)
    run_id = await loop.workflows.create(flow(ACTS), served=served)
    assert await loop.workflows.cancel(run_id)
    assert (await loop.workflows.get(run_id)).status == "cancelled"
    result = await loop.workflows.resume(run_id)
    assert (result.status, result.error_message, BEGUN) == ("cancelled", "stopped before it began", [])
    assert await loop.recover() == []


async def test_a_stop_that_waits_is_taken_by_the_process_that_begins_the_run(stage: Stage) -> None:
    loop = crew(stage)
    run_id = await loop.workflows.create(flow(ACTS), served=True)
    assert await loop.stop(run_id)
    [found] = await crew(stage).recover()
    assert found.result is not None
    assert (found.result.status, BEGUN) == ("cancelled", [])


async def test_a_stop_that_comes_while_a_run_begins_is_heard(stage: Stage) -> None:
    loop = stage.loop(llm=CastLLM({}), tools=[act])
    run_id = await loop.workflows.create(flow(ACTS))
    store, commit = loop.store, loop.store.commit
    stopped: list[bool] = []

    class Between:
        """The store, with a stop of another process right before the first commit."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def commit(self, transition: Any) -> Any:
            if not stopped:
                stopped.append(True)
                await store.enqueue(run_id, InboxItem("stop:other", "stop", b"enough", 0.0))
            return await commit(transition)

    loop._kernel.store = Between()
    result = await loop.workflows.resume(run_id)
    assert (result.status, stopped, BEGUN) == ("cancelled", [True], [])
