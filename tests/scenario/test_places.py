"""A leaf that an executor runs: whose journal is where, and what its executor's word makes of its step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.test_workflows import agent, flow, look, looks
from tests.waiting import next_turn

from loopwright import StatefulAgentLoop
from loopwright.engine.inspection import newest_result
from loopwright.executors import SubprocessExecutor, WorkerBootstrap
from loopwright.model.errors import SessionLeftError
from loopwright.model.family_errors import LeafElsewhereError
from loopwright.model.workflow_records import StepFinished, StepStarted, StepWoken
from loopwright.ports.cancellation import CancellationToken
from loopwright.ports.executor import LeafEnd, LeafRef, gave_up
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools.ask import request_user_input_tool

Work = Callable[[LeafRef], Awaitable[LeafEnd]]

LEFT = gave_up("leaf.left", "its host is going down")


class Placed:
    """An executor of a place with a name; what becomes of a leaf there is told by `work`."""

    def __init__(self, place: str, work: Work) -> None:
        self.place = place
        self.work = work
        self.asked: list[LeafRef] = []

    async def submit(self, ref: LeafRef) -> None:
        self.asked.append(ref)

    async def nudge(self, ref: LeafRef) -> None:
        self.asked.append(ref)

    async def cancel(self, ref: LeafRef, reason: str) -> None:
        del ref, reason

    async def observe(self, ref: LeafRef) -> LeafEnd:
        return await self.work(ref)

    async def aclose(self) -> None:
        """Holds nothing."""


def crew(stage: Stage, place: str | None, work: Work | None = None, **scripts: list[Any]) -> StatefulAgentLoop:
    """A loop whose leaves are in a place; None: it has no executor."""

    async def runs(ref: LeafRef) -> LeafEnd:
        result = await loop.resume(ref.session_id)
        return LeafEnd(status=result.status, in_journal=True)

    executor = None if place is None else Placed(place, work or runs)
    tools = [look, request_user_input_tool()]
    loop = stage.loop(llm=CastLLM(scripts), tools=tools, executor=executor)
    return loop


async def leaves(ref: LeafRef) -> LeafEnd:
    del ref
    return LEFT


async def interrupted_at(stage: Stage, place: str | None, spec: dict[str, Any]) -> None:
    """A run "r" whose leaf is under way in a place when its host goes."""
    loop = crew(stage, place, leaves, scout=["never"])
    with pytest.raises(SessionLeftError):
        await loop.workflows.run(spec, run_id="r")
    await stage.bury(loop)


SCOUT = flow(agent("scout", "scout", input="go"))


@pytest.mark.parametrize("began, here", [("files:/a", None), ("files:/a", "files:/b"), ("", "files:/a")])
async def test_a_run_is_not_taken_over_where_its_leafs_journal_is_not_looked_for(
    stage: Stage, began: str, here: str | None
) -> None:
    await interrupted_at(stage, began, SCOUT)
    other = crew(stage, here, scout=["again"])
    before = await stage.records(other, "r")
    with pytest.raises(LeafElsewhereError) as refused:
        await other.workflows.resume("r")
    assert (refused.value.run_id, refused.value.path, refused.value.place) == ("r", "scout", began)
    assert refused.value.here == (here or "")
    assert await other.recover() == []
    assert (await other.serve(once=True)).ended == 0
    assert await stage.records(other, "r") == before
    await stage.bury(other)
    same = crew(stage, began, scout=["found"])
    assert (await same.workflows.resume("r")).final_text == "found"


async def test_leaves_of_the_runs_own_store_are_gone_on_with_by_a_loop_without_an_executor(stage: Stage) -> None:
    await interrupted_at(stage, "", SCOUT)
    plain = crew(stage, None, scout=["found"])
    assert [found.result.final_text for found in await plain.recover() if found.result is not None] == ["found"]


async def test_steps_that_no_executor_runs_are_in_the_runs_own_store(stage: Stage) -> None:
    loop = crew(stage, "files:/a", scout=["found"])
    await loop.workflows.run(flow(looks("see"), agent("scout", "scout", input="go")), run_id="r")
    begun = {one.path: one.place for one in await stage.records(loop, "r") if isinstance(one, StepStarted)}
    assert begun == {"see": "", "scout": "files:/a"}


async def test_a_run_within_a_run_is_left_to_who_has_its_leaf_and_the_outer_one_waits_for_it(stage: Stage) -> None:
    inner = {"type": "workflow", "id": "in", "workflow": SCOUT}
    await interrupted_at(stage, "files:/a", flow(inner))
    other = crew(stage, None, scout=["again"])
    for _ in range(7):  # more often than a session may be taken over in vain
        await other.recover()
    assert (await other.workflows.get("r")).status == "waiting"
    await stage.bury(other)
    same = crew(stage, "files:/a", scout=["found"])
    assert (await same.workflows.resume("r")).final_text == "found"


async def test_a_leaf_that_was_woken_is_where_it_goes_on_and_not_where_it_began(stage: Stage) -> None:
    asks = [calls(("request_user_input", {"prompt": "Which way?"})), "thanks"]
    first = crew(stage, "files:/a", scout=asks)
    paused = await first.workflows.run(SCOUT, run_id="r")
    (question,) = paused.pending_interactions
    await stage.bury(first)
    second = crew(stage, "files:/b", leaves, scout=asks)
    assert (await second.submit_input("r", question.id, "left")).final_text == "thanks"
    places = [one.place for one in await stage.records(second, "r") if isinstance(one, StepStarted | StepWoken)]
    assert places == ["files:/a", "files:/b"]


def test_files_of_leaves_are_a_place_of_their_own() -> None:
    bootstrap = WorkerBootstrap(llm="echo:")
    assert SubprocessExecutor(bootstrap).place == ""
    assert SubprocessExecutor(bootstrap, runs_dir="/srv/runs").place == "files:/srv/runs"


# --- what an executor ended ---------------------------------------------------------------------------------------------


async def test_a_leaf_that_stopped_in_order_because_its_time_was_over_is_a_failed_step(stage: Stage) -> None:
    async def too_slow(ref: LeafRef) -> LeafEnd:
        if len(executor.asked) > 1:
            await loop.resume(ref.session_id)
            return LeafEnd(status="completed", in_journal=True)
        await ended_as_cancelled(loop, ref)
        return LeafEnd(status="cancelled", in_journal=True, fault="leaf.timed_out", reason="it took over 1 s")

    loop = crew(stage, "", too_slow, scout=["found"])
    executor: Any = loop._kernel.executor
    spec = flow(agent("scout", "scout", input="go", retries=1))
    result = await loop.workflows.run(spec, run_id="r")
    assert (result.status, result.final_text) == ("completed", "found")
    ends = [one for one in await stage.records(loop, "r") if isinstance(one, StepFinished)]
    assert [(one.outcome, one.error_code) for one in ends] == [("failed", "leaf.timed_out"), ("completed", None)]
    assert "over 1 s" in (ends[0].error_message or "")


@pytest.mark.parametrize("place", [None, ""])
async def test_an_agent_that_somebody_stopped_beside_the_run_is_a_failed_step(stage: Stage, place: str | None) -> None:
    async def stopped(request: Any) -> str:
        del request
        (child,) = [one.child_id for one in await stage.records(loop, "r") if isinstance(one, StepStarted)]
        await loop.stop(str(child), reason="enough")
        return "found"

    loop = crew(stage, place, scout=[stopped])
    result = await loop.workflows.run(SCOUT, run_id="r")
    assert (result.status, result.ok) == ("failed", False)
    (end,) = [one for one in await stage.records(loop, "r") if isinstance(one, StepFinished)]
    assert (end.outcome, end.error_code) == ("failed", "cancelled")


async def test_an_agent_that_stops_with_its_run_is_cancelled_and_not_failed(stage: Stage) -> None:
    async def stopped(request: Any) -> str:
        del request
        await loop.workflows.cancel("r")
        await next_turn(30.0)
        return "found"

    loop = crew(stage, None, scout=[stopped])
    result = await loop.workflows.run(SCOUT, run_id="r")
    assert result.status == "cancelled"
    (end,) = [one for one in await stage.records(loop, "r") if isinstance(one, StepFinished)]
    assert end.outcome == "cancelled"


async def ended_as_cancelled(loop: StatefulAgentLoop, ref: LeafRef) -> None:
    """What a leaf's process does when its executor asks it to stop."""
    await loop.enqueue("one more", session_id=ref.session_id)
    kernel = loop._kernel
    token = CancellationToken()
    token.cancel("its time was over")
    await loop.resume(ref.session_id, stop=token)
    found = await newest_result(kernel.store, ref.session_id)
    assert found is not None
    assert found.status == "cancelled"
