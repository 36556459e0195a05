"""A process dies; whoever opens the session next goes on as if nothing had happened."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Counting, Stage, asked, texts

from loopwright import (
    AgentHooks,
    CancellationToken,
    HookDirective,
    SessionPendingError,
    ToolHandlerResult,
    UserMessage,
    tool,
)
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import encode, encode_record
from loopwright.model.records import AssistantMessageAdded, SendFinished, SendStarted, ToolFinished, ToolStarted
from loopwright.ports.store import Acquire, EncodedRecord, InboxItem, Transition
from loopwright.testing import calls
from loopwright.testing.crash_points import ProcessStopped, StopAt


class World(Counting):
    """Two tools that note what they did; `b` stops the process until `safe` is set."""

    def __init__(self, effect: Any = "pure", reconcile: Any = None) -> None:
        super().__init__()
        self.safe = False

        @tool(name="a", effect="pure")
        async def a() -> str:
            """A."""
            return self.note("a")

        @tool(name="b", effect=effect, reconcile=reconcile)
        async def b() -> str:
            """B."""
            if not self.safe:
                self.calls.append("b began")
                raise ProcessStopped(StopAt("in the handler of b"))
            return self.note("b")

        self.tools = [a, b]


BOTH = calls(("a", {}), ("b", {}))


async def died_in_b(stage: Stage, world: World, **options: Any) -> str:
    """A session whose process died after the result of `a` was stored and while `b` ran."""
    loop = stage.loop(BOTH, tools=world.tools, max_parallel_tools=1, **options)
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("go", session_id=sid))
    world.safe = True
    return sid


async def test_a_second_process_sees_the_conversation_byte_for_byte_as_a_warm_loop_does(stage: Stage) -> None:
    warm = stage.loop("one", "two", session_cache_size=9)
    sid = await warm.new_session(system_prompt="be brief")
    await warm.send("first", session_id=sid)
    await warm.send("second", session_id=sid)
    cold = stage.loop("three")
    await cold.send("third", session_id=sid)
    request = cold._kernel.llm.requests[0]  # type: ignore[attr-defined]
    assert texts(request.messages) == ["user: first", "assistant: one", "user: second", "assistant: two", "user: third"]
    assert request.system_prompt == "be brief"


async def test_only_the_call_without_a_result_is_run_again(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("done", tools=world.tools)
    result = await loop.resume(sid)
    assert (result.status, result.final_text) == ("completed", "done")
    assert world.calls == ["a", "b began", "b"]
    assert texts(await loop.get_messages(sid))[2:4] == ["tool: a done", "tool: b done"]


async def test_a_send_on_an_interrupted_session_continues_it_and_is_taken_at_its_next_boundary(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("done", tools=world.tools)
    result = await loop.send("and more", session_id=sid)
    assert result.final_text == "done"
    assert texts(await loop.get_messages(sid)) == [
        "user: go",
        "assistant: ",
        "tool: a done",
        "tool: b done",
        "user: and more",
        "assistant: done",
    ]


async def test_with_on_interrupted_raise_a_send_stores_nothing_and_lists_the_open_calls(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop(tools=world.tools, on_interrupted="raise")
    before = len(await loop.store.read(sid))
    with pytest.raises(SessionPendingError) as caught:
        await loop.send("and more", session_id=sid)
    assert [c.name for c in caught.value.pending_tool_calls] == ["b"]
    assert caught.value.code == "session.pending"
    assert len(await loop.store.read(sid)) == before
    assert (await loop.store.lookup(sid)).waiting == ()


@pytest.mark.parametrize("how", ["heal_pending", "abort"])
async def test_an_interrupted_run_can_be_given_up_for_a_new_input(stage: Stage, how: str) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("new", tools=world.tools, on_interrupted="abort" if how == "abort" else "raise")
    result = await loop.send("other", session_id=sid, heal_pending=how == "heal_pending")
    assert result.final_text == "new"
    assert world.calls == ["a", "b began"]
    assert texts(await loop.get_messages(sid))[3].startswith("tool: <aborted: ")


async def test_a_once_call_in_flight_is_told_to_the_model_and_never_repeated(stage: Stage) -> None:
    world = World("once")
    sid = await died_in_b(stage, world)
    loop = stage.loop("I see", tools=world.tools)
    assert [c.name for c in await loop.store.uncertain_calls()] == ["b"]
    assert (await loop.resume(sid)).final_text == "I see"
    assert world.calls == ["a", "b began"]
    [last] = [r for r in await stage.records(loop, sid) if isinstance(r, ToolFinished) and r.name == "b"]
    assert last.status == "uncertain"
    assert "may or may not have happened" in str(last.content)


@pytest.mark.parametrize("kind", ["async", "sync", "data"])
async def test_the_outside_world_is_asked_what_became_of_a_once_call(stage: Stage, kind: str) -> None:
    seen: list[Any] = []

    async def ask(call: Any) -> str:
        seen.append(call)
        return "it was paid"

    def ask_at_once(call: Any) -> Any:
        seen.append(call)
        return "it was paid" if kind == "sync" else ToolHandlerResult("it was paid", data={"receipt": 7})

    world = World("once", ask if kind == "async" else ask_at_once)
    sid = await died_in_b(stage, world)
    loop = stage.loop("good", tools=world.tools)
    await loop.resume(sid)
    records = await stage.records(loop, sid)
    [started] = [r for r in records if isinstance(r, ToolStarted) and r.name == "b"]
    assert seen[0].idempotency_key == started.key
    assert texts(await loop.get_messages(sid))[3] == "tool: it was paid"
    assert list(await loop.store.uncertain_calls()) == []


async def test_a_reconcile_hook_that_raises_knows_nothing(stage: Stage) -> None:
    def broken(call: Any) -> str:
        raise OSError("no network")

    world = World("once", broken)
    sid = await died_in_b(stage, world)
    loop = stage.loop("hm", tools=world.tools)
    assert (await loop.resume(sid)).status == "completed"
    assert "may or may not" in texts(await loop.get_messages(sid))[3]


async def test_the_host_can_be_the_one_who_says_what_became_of_a_once_call(stage: Stage) -> None:
    world = World("once")
    sid = await died_in_b(stage, world)
    loop = stage.loop("good", tools=world.tools, on_uncertain="ask_host")
    waiting = await loop.resume(sid)
    assert waiting.status == "pending_tools"
    [pending] = waiting.pending_tool_calls
    assert (await loop.submit_tool_results(sid, {pending.id: "it was paid"})).final_text == "good"
    assert texts(await loop.get_messages(sid))[3] == "tool: it was paid"
    assert world.calls == ["a", "b began"]


async def test_hooks_run_again_and_may_refuse_when_a_call_is_continued(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    hooks = AgentHooks()

    @hooks.on("tool.before")
    def refuse(context: Any) -> HookDirective:
        context.output = "not today"
        return HookDirective.SKIP

    loop = stage.loop("fine", tools=world.tools, hooks=hooks)
    await loop.resume(sid)
    assert world.calls == ["a", "b began"]
    assert texts(await loop.get_messages(sid))[3] == "tool: not today"


async def test_the_tools_a_send_allowed_are_those_its_continuation_has(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    first = stage.loop(calls(("b", {})), "done", tools=world.tools)
    await first.resume(sid)
    loop = stage.mortal("commit.after:assistant_message_added", BOTH, tools=world.tools)
    narrow = await loop.new_session()
    await stage.dies(loop, loop.send("go", session_id=narrow, tools=["a"]))
    last = stage.loop("done", tools=world.tools)
    await last.resume(narrow)
    assert [t.name for t in last._kernel.llm.requests[0].tools] == ["a"]  # type: ignore[attr-defined]
    assert "no tool named 'b'" in texts(await last.get_messages(narrow))[3]


async def test_recover_continues_every_interrupted_session_of_this_agent(stage: Stage) -> None:
    world = World()
    mine = [await died_in_b(stage, world)]
    world.safe = False
    other = await died_in_b(stage, world, agent_name="other")
    loop = stage.loop("done", tools=world.tools)
    recovered = await loop.recover()
    assert [(r.session_id, r.result and r.result.final_text) for r in recovered] == [(mine[0], "done")]
    assert (await loop.get_session_stats(other)).status == "running"
    assert await loop.recover() == []


async def test_a_session_that_keeps_killing_its_process_is_stopped_and_the_open_call_named(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    for _ in range(4):
        world.safe = False
        loop = stage.loop(tools=world.tools)
        await stage.dies(loop, loop.resume(sid))
    loop = stage.loop("alive again", tools=world.tools)
    result = await loop.resume(sid)
    assert (result.status, result.error_code) == ("failed", "session.poisoned")
    assert "b (call_0_1)" in str(result.error_message)
    assert (await loop.send("hello", session_id=sid)).final_text == "alive again"


async def test_an_abort_that_was_killed_halfway_is_finished_by_the_next_one_without_doubles(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.mortal("commit.before:tool_finished+send_finished", tools=world.tools)
    await stage.dies(loop, loop.abort_pending(sid, reason="gone"))
    again = stage.loop("next", tools=world.tools)
    assert await again.abort_pending(sid, reason="gone") == 1
    assert await again.abort_pending(sid, reason="gone") == 0
    records = await stage.records(again, sid)
    assert [r.content for r in records if isinstance(r, ToolFinished) and r.name == "b"] == ["<aborted: gone>"]
    await again.send("hello", session_id=sid)


async def test_an_accepted_follow_up_survives_the_death_of_the_process(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("done", tools=world.tools)
    store = loop.store
    await store.enqueue(sid, _item("f1", UserMessage("remember")))
    assert (await loop.resume(sid)).final_text == "done"
    assert texts(await loop.get_messages(sid))[-2:] == ["user: remember", "assistant: done"]


def _item(item_id: str, message: UserMessage) -> Any:
    return InboxItem(item_id, "message", encode(message), 0.0)


async def test_the_same_send_id_after_a_crash_continues_instead_of_saying_it_twice(stage: Stage) -> None:
    loop = stage.mortal("commit.after:send_started+user_message_added")
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("pay", session_id=sid, send_id="order-1"))
    again = stage.loop("paid")
    assert (await again.send("pay", session_id=sid, send_id="order-1")).final_text == "paid"
    assert texts(await again.get_messages(sid)) == ["user: pay", "assistant: paid"]


async def test_damaged_history_is_made_sendable_once_and_durably(stage: Stage) -> None:
    first = stage.loop("one")
    sid = await first.new_session()
    await first.send("hi", session_id=sid)
    await _damage(first, sid)
    await first.aclose()
    ACTORS.drop(first.store.identity)
    loop = stage.loop("two", "three")
    await loop.send("again", session_id=sid)
    await loop.send("more", session_id=sid)
    kinds = [row.kind for row in await loop.store.read(sid)]
    assert kinds.count("history_repaired") == 1
    request = loop._kernel.llm.requests[0]  # type: ignore[attr-defined]
    assert "tool: <no result: the record of this call was lost>" in texts(request.messages)


async def _damage(loop: Any, sid: str) -> None:
    """Writes what no engine of ours writes: a call that is never answered, and a result that answers nothing."""
    reply = asked(("c1", "a", "{}")).message()
    records = (
        SendStarted(index=2, max_rounds=3),
        AssistantMessageAdded(reply, 1),
        SendFinished(outcome="completed"),
        ToolFinished("ghost", "a", "finished", "boo"),
    )
    rows = []
    for record in records:
        kind, version, body = encode_record(record)
        rows.append(EncodedRecord(kind, version, 0.0, body))
    head = (await loop.store.lookup(sid)).head
    await loop.store.commit(
        Transition(
            session_id=sid, expect=head.position, lease=Acquire(b"0" * 16, 15.0), records=tuple(rows), release=True
        )
    )


async def test_an_input_handed_to_an_interrupted_run_that_failed_gets_a_send_and_a_result_of_its_own(
    stage: Stage,
) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("paid", tools=world.tools)

    def broken(context: Any) -> None:
        raise RuntimeError("oh")

    loop.hooks.register("tool.before", broken)
    for _ in range(2):
        assert (await loop.send("pay", session_id=sid, send_id="order-1")).final_text == "paid"
    assert texts(await loop.get_messages(sid))[-2:] == ["user: pay", "assistant: paid"]


async def test_an_input_that_is_stopped_before_the_interrupted_send_heard_it_never_runs_later(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop(tools=world.tools)
    stop = CancellationToken()
    loop.hooks.register("session.start", lambda context: stop.cancel("no"))
    first = await loop.send("pay", session_id=sid, send_id="order-1", stop=stop)
    assert first.status == "cancelled"
    assert await loop.recover() == []
    again = await loop.send("pay", session_id=sid, send_id="order-1")
    assert (again.status, again.send_index) == (first.status, first.send_index)
