"""Workflow runs from outside: stops before they begin, questions that others answer, times, what is refused."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.waiting import next_turn, until

from loopwright import StatefulAgentLoop, tool
from loopwright.engine.actor import ACTORS
from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle
from loopwright.model.errors import InvalidMessageError
from loopwright.model.family_errors import WorkflowRunError
from loopwright.ports.store import InboxItem
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.tools.agents import spawn_agent_tool
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


def asks(name: str) -> dict[str, Any]:
    return {"type": "agent", "id": name, "spec": {"name": name, "system_prompt": name}}


QUESTION = calls(("request_user_input", {"prompt": "which?"}))


class Slow:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = False

    async def answer(self, _: Any) -> str:
        self.asked += 1
        await until(lambda: self.go)
        return "took it"


@pytest.mark.parametrize("at", ["root", "child"])
async def test_a_question_that_another_process_answered_is_not_handed_out_again(stage: Stage, at: str) -> None:
    slow = Slow()
    loop, other = crew(stage, asker=[QUESTION]), crew(stage, asker=[QUESTION, slow.answer])
    waiting = await loop.workflows.run(flow(asks("asker")))
    [question] = waiting.pending_interactions
    [step] = (await loop.workflows.get(waiting.run_id)).steps
    where = waiting.run_id if at == "root" else str(step.child_id)
    async with asyncio.TaskGroup() as group:
        group.create_task(other.submit_input(where, question.id, "left"))
        await until(lambda: slow.asked)
        assert (await loop.workflows.get(waiting.run_id)).pending_interactions == ()
        assert await loop.get_pending(waiting.run_id) == ((), ())
        waited = group.create_task(loop.workflows.wait(waiting.run_id))
        resumed = group.create_task(loop.workflows.resume(waiting.run_id))
        await next_turn(0.05)
        assert not waited.done()
        assert not resumed.done()
        slow.go = True
    assert [(one.result().status, one.result().final_text) for one in (waited, resumed)] == [
        ("completed", "took it")
    ] * 2


async def test_a_session_does_not_hand_out_what_was_answered_below(stage: Stage) -> None:
    slow = Slow()
    spec = AgentSpec(name="asker", system_prompt="asker", lifecycle=SubagentLifecycle.LINKED)
    tools = [spawn_agent_tool([spec]), request_user_input_tool()]
    told = [calls(("spawn_agent", {"name": "asker", "task": "go"}))]
    loop = stage.loop(llm=CastLLM({"": told, "asker": [QUESTION]}), tools=tools)
    other = stage.loop(llm=CastLLM({"": [*told, "done"], "asker": [QUESTION, slow.answer]}), tools=tools)
    waiting = await loop.send("go")
    [question] = waiting.pending_interactions
    async with asyncio.TaskGroup() as group:
        answered = group.create_task(other.submit_input(waiting.session_id, question.id, "left"))
        await until(lambda: slow.asked)
        now = await loop.get_result(waiting.session_id)
        assert now is not None
        assert (now.status, now.pending_interactions) == ("waiting_for_input", ())
        assert await loop.get_pending(waiting.session_id) == (now.pending_tool_calls, ())
        slow.go = True
    assert answered.result().final_text == "done"


async def test_what_is_still_open_below_is_handed_out_and_what_was_answered_is_not(stage: Stage) -> None:
    slow = Slow()
    both = {"type": "parallel", "branches": [asks("one"), asks("two")]}
    loop, other = crew(stage, one=[QUESTION], two=[QUESTION, "fine"]), crew(stage, one=[QUESTION, slow.answer])
    waiting = await loop.workflows.run(flow(both))
    steps = {step.path: step.child_id for step in (await loop.workflows.get(waiting.run_id)).steps}
    first = (await loop.get_pending(str(steps["one"])))[1][0]
    async with asyncio.TaskGroup() as group:
        group.create_task(other.submit_input(str(steps["one"]), first.id, "left"))
        await until(lambda: slow.asked)
        [left] = (await loop.workflows.resume(waiting.run_id)).pending_interactions
        assert left.id != first.id
        slow.go = True
    await loop.submit_input(waiting.run_id, left.id, "right")
    assert (await loop.workflows.resume(waiting.run_id)).status == "completed"


async def test_a_wait_of_a_run_ends_when_its_time_has_come(stage: Stage) -> None:
    loop = crew(stage)
    async with loop:
        await until(lambda: loop._kernel.timer_service is not None)
        await next_turn(0.02)  # its first look is over: without news the next one is seconds away
        begun_at = time.monotonic()
        result = await loop.workflows.run(flow({"type": "wait", "id": "nap", "seconds": 0.3}))
        took_s = time.monotonic() - begun_at
    assert result.status == "completed"
    assert 0.29 <= took_s < 1.5


async def test_a_question_with_a_time_limit_is_given_up_in_time_though_nobody_looks(stage: Stage) -> None:
    loop = crew(stage)
    gate = {"type": "approve", "id": "gate", "prompt": "ok?", "timeout_s": 0.3, "fallback": ACTS}
    async with loop:
        await until(lambda: loop._kernel.timer_service is not None)
        await next_turn(0.02)
        begun_at = time.monotonic()
        assert (await loop.workflows.run(flow(gate))).status == "waiting_for_input"
        await until(lambda: BEGUN)
        took_s = time.monotonic() - begun_at
    assert 0.29 <= took_s < 1.5


@pytest.mark.parametrize("payload", [{1, 2}, [frozenset()], {"at": b"x"}, {1: "x"}, math.inf, {"n": [math.nan]}])
async def test_a_payload_or_input_that_would_come_back_as_something_else_is_refused(
    stage: Stage, payload: object
) -> None:
    loop = crew(stage)
    run_id = await loop.workflows.create(flow(ACTS))
    with pytest.raises(InvalidMessageError):
        await loop.signal(run_id, "go", payload)
    with pytest.raises(InvalidMessageError):
        await loop.workflows.create(flow(ACTS), payload)


async def test_a_run_that_ended_hears_no_signal_and_says_so(stage: Stage) -> None:
    loop = crew(stage)
    run_id = await loop.workflows.create(flow({"type": "wait", "id": "w", "signal": "go"}))
    assert await loop.signal(run_id, "go", {"n": 1}, item_id="one")
    assert (await loop.workflows.resume(run_id)).output == {"n": 1}
    assert not await loop.signal(run_id, "go", {"n": 1}, item_id="one")  # it was heard
    with pytest.raises(WorkflowRunError, match="has ended"):
        await loop.signal(run_id, "go")


async def test_an_id_is_asked_for_again_with_the_same_spec_and_input_only(stage: Stage) -> None:
    loop = crew(stage)
    given = {"n": 1.5, "names": ["a"]}
    first = await loop.workflows.run(flow(ACTS), given, run_id="mine")
    again = await loop.workflows.run(flow(ACTS), given, run_id="mine")
    assert (again.status, again.final_text, BEGUN) == ("completed", first.final_text, ["it"])
    with pytest.raises(WorkflowRunError, match="another spec"):
        await loop.workflows.run(flow({**ACTS, "arguments": {"what": "else"}}), given, run_id="mine")
    with pytest.raises(WorkflowRunError, match="another input"):
        await loop.workflows.start(flow(ACTS), {"n": 2}, run_id="mine")


async def test_a_run_cannot_be_forked(stage: Stage) -> None:
    loop = crew(stage)
    result = await loop.workflows.run(flow(ACTS))
    with pytest.raises(WorkflowRunError, match="forked"):
        await loop.fork(result.run_id)


async def test_a_child_whose_answerer_died_goes_on_where_that_process_left_it(stage: Stage) -> None:
    loop = crew(stage, asker=[QUESTION, "took it"])
    waiting = await loop.workflows.run(flow(asks("asker")))
    [step] = (await loop.workflows.get(waiting.run_id)).steps
    child = str(step.child_id)
    actor = ACTORS.find(loop.store.identity, child)
    assert actor is not None
    known = copy.deepcopy(actor.state)
    dies = stage.mortal(
        "model.before", llm=CastLLM({"asker": [QUESTION]}), tools=[request_user_input_tool()], lease_ttl_s=0.2
    )
    await stage.dies(dies, dies.submit_input(child, waiting.pending_interactions[0].id, "left"))
    ACTORS.pin(loop.store.identity, child).state = known  # what this process knew before
    result = await loop.workflows.resume(waiting.run_id)
    assert (result.status, result.final_text) == ("completed", "took it")
