"""Things said to a busy session: never lost, never twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Listener, Stage, said, texts

from loopwright import FollowUpQueued, HookDirective, ImagePart, StatefulResult, TextPart, UserMessage, tool
from loopwright.model.errors import AgentUnavailableError
from loopwright.model.records import UserMessageAdded
from loopwright.testing import calls, gated


class Slow(Counting):
    """A tool that waits for its gate."""

    def __init__(self) -> None:
        super().__init__()

        @tool(effect="pure")
        async def wait() -> str:
            """Wait."""
            self.started.set()
            await self.gate.wait()
            return "waited"

        self.wait = wait


async def test_a_follow_up_during_a_tool_is_one_user_message_at_the_next_boundary(stage: Stage) -> None:
    world, listener = Slow(), Listener()
    loop = stage.loop(calls(("wait", {})), "done", tools=[world.wait])
    loop.event_bus.subscribe(listener)
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    queued = await loop.follow_up("and this", session_id=sid, item_id="f1")
    assert queued == FollowUpQueued(session_id=sid, item_id="f1", queue_depth=1)
    world.gate.set()
    await task
    assert texts(await loop.get_messages(sid)) == [
        "user: go",
        "assistant: ",
        "tool: waited",
        "user: and this",
        "assistant: done",
    ]
    assert listener.kinds("inbox_queued", "inbox_delivered") == ["inbox_queued", "inbox_delivered"]


async def test_a_follow_up_during_the_last_round_extends_the_send(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("done", world.gate, reached=world.started), "really done")
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    assert isinstance(await loop.follow_up("one more", session_id=sid), FollowUpQueued)
    world.gate.set()
    result = await task
    assert (result.status, result.final_text, result.rounds) == ("completed", "really done", 2)
    assert texts(await loop.get_messages(sid))[1:3] == ["assistant: done", "user: one more"]


async def test_a_follow_up_to_an_idle_session_is_run_like_a_send(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    first = await loop.send("go")
    result = await loop.follow_up("more", session_id=first.session_id)
    assert isinstance(result, StatefulResult)
    assert (result.final_text, result.send_index) == ("two", 2)


async def test_a_follow_up_is_accepted_once_for_the_life_of_its_session(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = await loop.new_session()
    await loop.follow_up("a", session_id=sid, item_id="f1")
    again = await loop.follow_up("a", session_id=sid, item_id="f1")
    assert isinstance(again, FollowUpQueued)
    assert again.duplicate
    await loop.follow_up("b", session_id=sid, item_id="f2")
    assert (await loop.follow_up("b", session_id=sid, item_id="f2")).duplicate  # type: ignore[union-attr]
    assert texts(await loop.get_messages(sid)) == ["user: a", "assistant: one", "user: b", "assistant: two"]


async def test_follow_ups_keep_their_order_and_are_messages_of_their_own(stage: Stage) -> None:
    world = Slow()
    loop = stage.loop(calls(("wait", {})), "done", tools=[world.wait])
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    for number in range(3):
        await loop.follow_up(f"n{number}", session_id=sid, item_id=f"f{number}")
    world.gate.set()
    await task
    delivered = [r for r in await stage.records(loop, sid) if isinstance(r, UserMessageAdded) and r.source == "inbox"]
    assert [(r.item_ids, r.message.text) for r in delivered] == [((f"f{n}",), f"n{n}") for n in range(3)]


async def test_pictures_survive_the_inbox_and_the_store(stage: Stage) -> None:
    world = Slow()
    picture = ImagePart("image/png", b"\x89PNG\x00\xff")
    message = UserMessage((TextPart("look at \ud800 this"), picture))
    loop = stage.loop(calls(("wait", {})), "done", tools=[world.wait])
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    await loop.follow_up(message, session_id=sid)
    world.gate.set()
    await task
    cold = stage.loop("seen", session_cache_size=0)
    await cold.send("and?", session_id=sid)
    assert cold._kernel.llm.requests[0].messages[3] == message  # type: ignore[attr-defined]


async def test_a_follow_up_that_meets_a_failed_end_gets_a_send_of_its_own(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated(RuntimeError("broken"), world.gate, reached=world.started), "both")
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    await loop.follow_up("do not forget", session_id=sid)
    world.gate.set()
    assert (await task).status == "failed"
    assert texts(await loop.get_messages(sid)) == ["user: go", "user: do not forget", "assistant: both"]


async def test_a_follow_up_of_a_tool_to_its_own_session_is_taken_at_the_boundary(stage: Stage) -> None:
    @tool(effect="pure")
    async def remind() -> str:
        """Remind."""
        return str(type(await loop.follow_up("remember", session_id=sid)).__name__)

    loop = stage.loop(calls(("remind", {})), "done", tools=[remind])
    sid = await loop.new_session()
    await loop.send("go", session_id=sid)
    assert texts(await loop.get_messages(sid))[2:4] == ["tool: FollowUpQueued", "user: remember"]


async def test_many_follow_ups_and_sends_at_once_are_all_answered_and_none_is_doubled(stage: Stage) -> None:
    class Echo:
        async def complete(self, request: Any) -> Any:
            return said(f"{len(request.messages)}")

    loop = stage.loop(llm=Echo())
    sid = await loop.new_session()
    work = [loop.follow_up(f"f{n}", session_id=sid, item_id=f"f{n}") for n in range(20)]
    work += [loop.follow_up(f"f{n}", session_id=sid, item_id=f"f{n}") for n in range(20)]
    sends = [loop.send(f"s{n}", session_id=sid, send_id=f"s{n}") for n in range(5)]
    await asyncio.gather(*work, *sends)
    said_by_user = [t for t in texts(await loop.get_messages(sid)) if t.startswith("user: ")]
    assert sorted(said_by_user) == sorted([*[f"user: f{n}" for n in range(20)], *[f"user: s{n}" for n in range(5)]])
    assert (await loop.store.lookup(sid)).waiting == ()


async def test_a_veto_and_a_follow_up_at_one_boundary_are_both_heard(stage: Stage) -> None:
    world = Counting()
    loop = stage.loop(gated("done", world.gate, reached=world.started), "more done", "all done")

    @loop.hooks.on("completion")
    def veto(context: Any) -> HookDirective | None:
        world.note("asked")
        if len(world.calls) > 1:
            return None
        context.message = "check again"
        return HookDirective.SKIP

    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    await loop.follow_up("one more", session_id=sid)
    world.gate.set()
    result = await task
    heard = texts(await loop.get_messages(sid))
    assert result.final_text == "all done"
    assert "user: one more" in heard
    assert "user: check again" in heard


async def test_a_follow_up_to_a_session_of_another_agent_is_refused_before_it_is_stored(stage: Stage) -> None:
    sid = await stage.loop(agent_name="writer").new_session()
    other = stage.loop(agent_name="reader")
    with pytest.raises(AgentUnavailableError):
        await other.follow_up("hello", session_id=sid)
    assert (await other.store.lookup(sid)).waiting == ()


async def test_what_was_said_to_a_run_that_was_stopped_is_said_before_the_next_message(stage: Stage) -> None:
    world, listener = Slow(), Listener()
    loop = stage.loop(calls(("wait", {})), "done", tools=[world.wait])
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    await loop.follow_up("earlier", session_id=sid, item_id="f1")
    await loop.stop(sid)
    assert (await task).status == "cancelled"
    assert (await loop.get_session_stats(sid)).waiting == 1

    loop.event_bus.subscribe(listener)
    assert (await loop.send("later", session_id=sid)).final_text == "done"
    assert texts(await loop.get_messages(sid))[-3:] == ["user: earlier", "user: later", "assistant: done"]
    assert listener.kinds("inbox_delivered") == ["inbox_delivered"]
    assert (await loop.get_session_stats(sid)).waiting == 0
    assert (await loop.follow_up("earlier", session_id=sid, item_id="f1")).duplicate  # type: ignore[union-attr]


async def test_an_input_that_is_enqueued_waits_for_a_worker_of_another_loop_and_is_answered_once(stage: Stage) -> None:
    front, back = stage.loop(), stage.loop("heard")
    sid = await front.new_session()
    queued = await front.enqueue("do this", session_id=sid, item_id="r1")
    assert queued == FollowUpQueued(session_id=sid, item_id="r1", queue_depth=1)
    assert texts(await front.get_messages(sid)) == []
    assert (await back.serve(once=True)).ended == 1
    assert (await front.enqueue("do this", session_id=sid, item_id="r1")).duplicate
    assert (await back.serve(once=True)).taken == 0
    assert texts(await front.get_messages(sid)) == ["user: do this", "assistant: heard"]


async def test_an_input_that_is_enqueued_into_a_run_of_the_same_process_is_taken_at_its_next_boundary(
    stage: Stage,
) -> None:
    world = Slow()
    loop = stage.loop(calls(("wait", {})), "done", tools=[world.wait])
    sid = await loop.new_session()
    task = asyncio.create_task(loop.send("go", session_id=sid))
    await world.started.wait()
    await loop.enqueue("and this", session_id=sid)
    world.gate.set()
    assert (await task).final_text == "done"
    assert texts(await loop.get_messages(sid))[-2:] == ["user: and this", "assistant: done"]
