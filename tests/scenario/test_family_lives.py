"""How families end and go on: stops, processes that die or share the work, poison, deletion, forks, closing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.crew import answers_of, cast, children_of, crew, ended, endings_of, spawn
from tests.waiting import next_turn, until

from loopwright import StatefulAgentLoop, tool
from loopwright.model.errors import SessionGoneError, SessionPendingError
from loopwright.model.records import RunResumed, SendFinished, UserMessageAdded
from loopwright.ports.store import SessionQuery
from loopwright.ports.tool import ToolContext
from loopwright.stores.dsn import open_store
from loopwright.testing import calls, gated

ASKING: dict[str, list[Any]] = {
    "root": [calls(spawn("chief")), "all done", "and again"],
    "chief": [calls(spawn("asker")), "chief done"],
    "asker": [calls(("request_user_input", {"prompt": "which?"})), "asker heard"],
}


async def outcome(loop: StatefulAgentLoop, session_id: str) -> str:
    result = await loop.get_result(session_id)
    return "" if result is None else result.status


class At:
    """A model step that says when it is reached, and goes on when it is let."""

    def __init__(self, step: Any) -> None:
        self.reached, self.gate = asyncio.Event(), asyncio.Event()
        self.step = gated(step, self.gate, reached=self.reached)


async def test_a_stop_of_the_parent_stops_children_that_it_waits_for_within_a_second(stage: Stage) -> None:
    at = At("never")
    loop = crew(stage, root=[calls(spawn("chief")), "x"], chief=[calls(spawn("scout")), "x"], scout=[at.step])
    await loop.new_session(session_id="s")
    running = asyncio.ensure_future(loop.send("go", session_id="s"))
    await at.reached.wait()
    began = time.monotonic()
    assert await loop.stop("s", reason="enough")
    result = await running
    assert time.monotonic() - began < 1.0
    assert result.status == "cancelled"
    for head in await loop.store.list(SessionQuery()):
        assert await outcome(loop, head.session_id) == "cancelled"
    again = crew(stage, root=["", "fine"])
    assert (await again.send("hello?", session_id="s")).ok


async def test_a_stop_from_another_process_reaches_children_through_their_parent(stage: Stage) -> None:
    at = At("never")
    loop = crew(stage, root=[calls(spawn("scout")), "x"], scout=[at.step])
    await loop.new_session(session_id="s")
    running = asyncio.ensure_future(loop.send("go", session_id="s"))
    await at.reached.wait()
    other = stage.loop(llm=cast())
    began = time.monotonic()
    assert await other.stop("s")
    assert (await running).status == "cancelled"
    assert time.monotonic() - began < 2.5
    [child] = await children_of(stage, loop, "s")
    assert await outcome(loop, child) == "cancelled"


async def test_aborting_a_tree_that_waits_ends_all_of_it(stage: Stage) -> None:
    loop = crew(stage, **ASKING)
    waiting = await loop.send("go")
    await stage.bury(loop)
    later = crew(stage, **ASKING)
    assert await later.abort_pending(waiting.session_id, reason="no longer wanted") == 1
    for head in await later.store.list(SessionQuery()):
        assert (head.status, await outcome(later, head.session_id)) == ("idle", "cancelled")
    assert await later.abort_pending(waiting.session_id) == 0


async def test_a_tree_that_waits_is_healed_whole_by_a_new_input(stage: Stage) -> None:
    loop = crew(stage, **{**ASKING, "root": [calls(spawn("chief")), "and again"]})
    waiting = await loop.send("go")
    result = await loop.send("never mind", session_id=waiting.session_id, heal_pending=True)
    assert result.final_text == "and again"
    below = [head.session_id for head in await loop.store.list(SessionQuery()) if head.parent_id is not None]
    assert len(below) == 2
    for child in below:
        assert (await ended(loop, child)).status == "cancelled"


async def test_a_send_to_a_session_that_waits_for_a_child_says_for_whom_and_what_it_asks(stage: Stage) -> None:
    loop = crew(stage, **ASKING)
    waiting = await loop.send("go")
    [child] = await children_of(stage, loop, waiting.session_id)
    with pytest.raises(SessionPendingError) as found:
        await loop.send("well?", session_id=waiting.session_id)
    assert f"waits for session {child!r}" in str(found.value)
    assert "which?" in str(found.value)
    assert [question.id for question in found.value.pending_interactions] == [waiting.pending_interactions[0].id]


async def test_an_interrupted_tree_is_aborted_whole_where_the_loop_is_set_to(stage: Stage) -> None:
    scripts: dict[str, list[Any]] = {"root": [calls(spawn("scout")), "fresh"], "scout": ["found"]}
    mortal = stage.mortal("model.before#2", llm=cast(**scripts), tools=crew(stage, **scripts)._kernel.tools)
    await stage.dies(mortal, mortal.send("go", session_id=await mortal.new_session(session_id="s")))
    later = crew(stage, options={"on_interrupted": "abort"}, **scripts)
    assert (await later.send("instead", session_id="s")).final_text == "fresh"
    [child] = await children_of(stage, later, "s")
    assert (await ended(later, child)).status == "cancelled"


async def test_a_background_child_is_stopped_with_its_parent_and_does_not_report_but_a_detached_one_goes_on(
    stage: Stage,
) -> None:
    scout, loner, root = At("never"), At("on my own"), At("never")
    loop = crew(
        stage,
        root=[calls(spawn("scout", background=True), spawn("loner", background=True)), root.step, "heard of it"],
        scout=[scout.step],
        loner=[loner.step],
    )
    await loop.new_session(session_id="s")
    running = asyncio.ensure_future(loop.send("go", session_id="s"))
    for at in (scout, loner, root):
        await at.reached.wait()
    ids = dict(zip(["scout", "loner"], await children_of(stage, loop, "s"), strict=True))
    began = time.monotonic()
    await loop.stop("s")
    assert (await running).status == "cancelled"
    assert (await ended(loop, ids["scout"])).status == "cancelled"
    assert time.monotonic() - began < 1.0
    loner.gate.set()
    assert (await ended(loop, ids["loner"])).status == "completed"
    await until_told(stage, loop, "s", 1)
    said = [r.message.text for r in await stage.records(loop, "s") if isinstance(r, UserMessageAdded)]
    assert len(said) == 2
    assert "loner" in said[1]


async def until_told(stage: Stage, loop: StatefulAgentLoop, session_id: str, times: int) -> None:
    """Waits until this many reports of children were taken."""
    for _ in range(2000):
        told = [r for r in await stage.records(loop, session_id) if isinstance(r, UserMessageAdded)]
        if len([r for r in told if r.source == "inbox"]) >= times:
            return
        await next_turn(0.002)
    raise AssertionError("nothing was said")


async def test_a_background_child_that_was_stopped_before_it_began_never_runs(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("scout", background=True)), "x"], scout=["never asked"])
    mortal = stage.mortal("commit.after:child_started#1", llm=cast(root=[calls(spawn("scout", background=True))]),
                          tools=loop._kernel.tools)  # fmt: skip
    await mortal.new_session(session_id="s")
    await stage.dies(mortal, mortal.send("go", session_id="s"))
    assert await loop.abort_pending("s") == 1
    [child] = await children_of(stage, loop, "s")
    assert (await ended(loop, child)).status == "cancelled"
    assert await loop.recover() == []
    assert await outcome(loop, "s") == "cancelled"


async def test_another_process_goes_on_with_the_very_child_that_was_running(stage: Stage) -> None:
    scripts: dict[str, list[Any]] = {
        "root": [calls(spawn("scout")), "done"], "scout": [calls(("look", {})), "found"],
    }  # fmt: skip
    tools = crew(stage, **scripts)._kernel.tools
    mortal = stage.mortal("model.after#3", llm=cast(**scripts), tools=tools)
    await mortal.new_session(session_id="s")
    await stage.dies(mortal, mortal.send("go", session_id="s"))
    later = crew(stage, **scripts)
    assert (await later.resume("s")).final_text == "done"
    [child] = await children_of(stage, later, "s")
    assert [type(r) for r in await stage.records(later, child)].count(RunResumed) == 1
    assert len(await later.store.list(SessionQuery())) == 2


async def test_a_parent_whose_child_another_process_runs_waits_for_it_and_is_woken_with_its_end(stage: Stage) -> None:
    at = At("found")
    first: dict[str, list[Any]] = {"root": [calls(spawn("scout")), "done"], "scout": ["never said"]}
    tools = crew(stage, **first)._kernel.tools
    mortal = stage.mortal("model.before#2", llm=cast(**first), tools=tools)
    await mortal.new_session(session_id="s")
    await stage.dies(mortal, mortal.send("go", session_id="s"))
    child = await only_child(stage)
    elsewhere = crew(stage, cast(**{**first, "scout": [at.step]}), options={"store": another_process(stage)})
    working = asyncio.ensure_future(elsewhere.resume(child))
    await at.reached.wait()
    here = crew(stage, **first)
    assert (await here.resume("s")).status == "waiting_for_input"
    at.gate.set()
    assert (await working).final_text == "found"
    result = await ended(here, "s")
    assert (result.final_text, len(await endings_of(stage, here, "s"))) == ("done", 1)
    await until(lambda: not elsewhere._kernel.background)
    await elsewhere.aclose()
    await elsewhere.store.aclose()


async def test_a_child_that_another_process_runs_is_stopped_there_when_its_parent_is_aborted_here(stage: Stage) -> None:
    at = At("never")
    first: dict[str, list[Any]] = {"root": [calls(spawn("scout")), "done"], "scout": ["never said"]}
    mortal = stage.mortal("model.before#2", llm=cast(**first), tools=crew(stage, **first)._kernel.tools)
    await mortal.new_session(session_id="s")
    await stage.dies(mortal, mortal.send("go", session_id="s"))
    child = await only_child(stage)
    elsewhere = crew(stage, cast(**{**first, "scout": [at.step]}), options={"store": another_process(stage)})
    working = asyncio.ensure_future(elsewhere.resume(child))
    await at.reached.wait()
    here = crew(stage, **first)
    await here.resume("s")
    began = time.monotonic()
    assert await here.abort_pending("s") == 1
    assert (await working).status == "cancelled"
    assert time.monotonic() - began < 2.5
    await elsewhere.aclose()
    await elsewhere.store.aclose()


def another_process(stage: Stage) -> Any:
    """The stage's store as another process has it: it shares neither turns nor warm sessions with this one."""
    store: Any = open_store(stage.dsn)
    store._identity += "/elsewhere"
    return store


async def only_child(stage: Stage) -> str:
    """The child of the session `s`."""
    [child] = await children_of(stage, crew(stage), "s")
    return child


async def test_a_child_that_kills_its_process_again_and_again_is_a_failed_result_for_its_parent(stage: Stage) -> None:
    scripts: dict[str, list[Any]] = {"root": [calls(spawn("scout")), "done"], "scout": ["never said"]}
    tools = crew(stage, **scripts)._kernel.tools
    mortal = stage.mortal("model.before#2", llm=cast(**scripts), tools=tools)
    await mortal.new_session(session_id="s")
    await stage.dies(mortal, mortal.send("go", session_id="s"))
    [child] = await children_of(stage, crew(stage), "s")
    for _ in range(4):
        again = stage.mortal("model.before#1", llm=cast(**scripts), tools=tools)
        await stage.dies(again, again.resume(child))
    later = crew(stage, **scripts)
    result = await later.resume("s")
    [answer] = await answers_of(stage, later, "s")
    assert (result.final_text, answer.status, answer.data["status"]) == ("done", "failed", "failed")
    assert "stopped its process" in str(answer.content)


async def test_a_poisoned_child_in_the_background_is_said_to_its_parent(stage: Stage) -> None:
    scripts: dict[str, list[Any]] = {
        "root": [calls(spawn("scout", background=True)), "started", "heard"],
        "scout": ["never said"],
    }
    gate = asyncio.Event()
    loop = crew(stage, **{**scripts, "scout": [gated("never", gate)]})
    await loop.new_session(session_id="s")
    assert (await loop.send("go", session_id="s")).final_text == "started"
    [child] = await children_of(stage, loop, "s")
    tools = loop._kernel.tools
    await stage.bury(loop)
    for _ in range(4):
        again = stage.mortal("model.before#1", llm=cast(**scripts), tools=tools)
        await stage.dies(again, again.resume(child))
    later = crew(stage, **scripts)
    await later.resume(child)
    assert await outcome(later, child) == "failed"
    await until_told(stage, later, "s", 1)


async def test_deleting_a_parent_deletes_its_linked_children_and_leaves_detached_ones(stage: Stage) -> None:
    scout = At("never")
    loop = crew(
        stage,
        root=[calls(spawn("scout", background=True), spawn("loner")), "done"],
        scout=[scout.step],
        loner=["alone"],
    )
    result = await loop.send("go")
    await scout.reached.wait()
    ids = await children_of(stage, loop, result.session_id)
    names = {head.session_id: head.title for head in await loop.store.list(SessionQuery())}
    assert await loop.close_session(result.session_id) == 2
    scout.gate.set()
    await until(lambda: not loop._kernel.background)
    for child in ids:
        if names[child] == "loner":
            assert await outcome(loop, child) == "completed"
        else:
            with pytest.raises(SessionGoneError):
                await loop.get_messages(child)


async def test_a_fork_of_a_parent_that_waits_leaves_the_children_to_the_original(stage: Stage) -> None:
    loop = crew(stage, **{**ASKING, "root": [calls(spawn("chief")), "all done"]})
    waiting = await loop.send("go")
    fork = await loop.fork(waiting.session_id)
    other = crew(stage, root=["", "my own way"])
    assert (await other.send("never mind", session_id=fork)).final_text == "my own way"
    assert await outcome(loop, fork) == "completed"
    answered = await loop.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "red")
    assert answered.final_text == "all done"


async def test_stopping_a_fork_does_not_stop_the_children_of_the_original(stage: Stage) -> None:
    scout, fork_at = At("found"), At("never")
    loop = crew(stage, root=[calls(spawn("scout", background=True)), "started", fork_at.step], scout=[scout.step])
    result = await loop.send("go")
    await scout.reached.wait()
    fork = await loop.fork(result.session_id)
    running = asyncio.ensure_future(loop.send("and now?", session_id=fork))
    await fork_at.reached.wait()
    await loop.stop(fork)
    assert (await running).status == "cancelled"
    [child] = await children_of(stage, loop, result.session_id)
    await next_turn(0.01)
    scout.gate.set()
    assert (await ended(loop, child)).status == "completed"
    fork_at.gate.set()


async def test_a_fork_of_a_child_is_nobodys_child_and_has_no_more_tools(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("reader")), "done"], reader=["read"])
    result = await loop.send("go")
    [child] = await children_of(stage, loop, result.session_id)
    before = len(await stage.records(loop, result.session_id))
    model = cast(reader=["", "mine"])
    other = crew(stage, model)
    fork = await other.fork(child)
    assert (await other.send("and now?", session_id=fork)).final_text == "mine"
    assert [spec.name for spec in model.requests[-1].tools] == ["look", "touch"]
    await until(lambda: not other._kernel.background)
    assert len(await stage.records(loop, result.session_id)) == before
    assert (await loop.store.lookup(result.session_id)).head.inbox_seq == 0


async def test_a_loop_that_is_closed_leaves_its_background_children_to_the_next_process(stage: Stage) -> None:
    at = At("never")
    loop = crew(stage, root=[calls(spawn("scout", background=True)), "started"], scout=[at.step])
    result = await loop.send("go")
    await at.reached.wait()
    await loop.aclose()
    later = crew(stage, root=["", "", "heard"], scout=["found"])
    [child] = await children_of(stage, later, result.session_id)
    assert (await later.store.lookup(child)).head.status == "running"
    await later.serve(once=True)
    assert await outcome(later, child) == "completed"
    heard = await ended(later, result.session_id)
    await until(lambda: not later._kernel.background)
    assert (await ended(later, result.session_id)).final_text == "heard", heard


async def test_what_a_call_waited_for_is_not_said_again(stage: Stage) -> None:
    at = At("found")

    @tool(effect="idempotent")
    async def both(ctx: ToolContext) -> str:
        """Both."""
        at.gate.set()
        [child] = [one.session_id for one in await ctx.agents.list()]
        return (await ctx.agents.wait(child)).text

    loop = crew(
        stage,
        root=[calls(spawn("scout", background=True)), calls(("both", {}), ("both", {})), "done"],
        scout=[at.step],
        tools=[both],
    )
    result = await loop.send("go")
    await until(lambda: not loop._kernel.background)
    assert result.final_text == "done"
    records = await stage.records(loop, result.session_id)
    assert len([r for r in records if isinstance(r, SendFinished)]) == 1
    assert [r.message.text for r in records if isinstance(r, UserMessageAdded)] == ["go"]
    assert len(await endings_of(stage, loop, result.session_id)) == 1
    assert result.usage.calls == 4


@pytest.mark.parametrize("nudged", [True, False])
async def test_a_child_that_had_ended_and_was_spoken_to_says_what_it_did_next(stage: Stage, nudged: bool) -> None:
    @tool(effect="idempotent")
    async def twice(ctx: ToolContext) -> str:
        """Twice."""
        [child] = [one.session_id for one in await ctx.agents.list()]
        await (ctx.agents.nudge(child, "more") if nudged else loop.enqueue("more", session_id=child))
        return (await ctx.agents.wait(child)).text

    loop = crew(
        stage, root=[calls(spawn("scout")), calls(("twice", {})), "done"], scout=["found", "found more"], tools=[twice]
    )
    result = await loop.send("go")
    assert [one.content for one in await answers_of(stage, loop, result.session_id)] == ["found", "found more"]
