"""A fork goes on from a round boundary of another session, which never notices."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.scenario.conftest import Counting, Stage, said, texts

from loopwright import ToolContext, tool
from loopwright.core.calls import idempotency_key
from loopwright.core.pairing import problem
from loopwright.core.state import State
from loopwright.engine.journal import load_state
from loopwright.model.archive_errors import ForkPositionError, SessionReferencedError
from loopwright.model.codec import encode
from loopwright.model.errors import AgentUnavailableError, SessionExistsError, SessionGoneError, SessionNotFoundError
from loopwright.model.records import AssistantMessageAdded, SendFinished, SendStarted, SessionForked, ToolFinished
from loopwright.ports.store import ForkPoint, SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.testing import calls
from loopwright.tools.ask import request_user_input_tool

ASKS = calls(("request_user_input", {"prompt": "Which colour?"}))


@tool(effect="pure")
async def look() -> str:
    """Looks."""
    return "a tree"


async def state_at(store: SessionStore, session_id: str, position: int) -> State:
    return await load_state(session_id, await store.read(session_id, limit=position))


async def told(stage: Stage) -> tuple[Any, str]:
    """A loop and a session of two sends, the first with a tool round."""
    loop = stage.loop(calls(("look", {})), said("A tree."), said("Yes."), said("Sure."), tools=[look])
    sid = await loop.new_session(title="trees")
    await loop.send("What is there?", session_id=sid)
    await loop.send("Really?", session_id=sid)
    return loop, sid


async def test_the_window_of_a_fork_is_that_of_its_base_byte_for_byte_at_every_boundary(stage: Stage) -> None:
    loop, sid = await told(stage)
    store = loop.store
    length = (await store.lookup(sid)).head.position
    made: list[int] = []
    refused: list[ForkPositionError] = []
    for position in range(-1, length + 2):
        try:
            fork = await loop.fork(sid, at=position)
        except ForkPositionError as error:
            refused.append(error)
            continue
        made.append(position)
        base, forked = await state_at(store, sid, position), await load_state(fork, await store.read(fork))
        whole = base.messages
        assert encode(forked.messages[: len(whole)]) == encode(whole)
        assert len(forked.messages) == len(whole) + len(base.batch), "calls open there are answered"
        assert problem(forked.messages) is None
        assert forked.active is None
        await loop.close_session(fork)
    for error in refused:
        before = [one for one in made if one < error.position]
        after = [one for one in made if one > error.position]
        assert list(error.nearest) == [*before[-1:], *after[:1]]
    records = await stage.records(loop, sid)
    starts = [n for n, record in enumerate(records, 1) if isinstance(record, SendStarted)]
    unanswered = [
        n for n, record in enumerate(records, 1) if n > 1 and isinstance(records[n - 2], AssistantMessageAdded)
    ]
    assert set(range(1, length + 1)) - set(made) <= {*starts, *unanswered}
    await loop.send("And on.", session_id=sid)


async def test_a_fork_goes_on_with_what_its_base_said_and_the_base_without_the_fork(stage: Stage) -> None:
    loop, sid = await told(stage)
    rows = await loop.store.read(sid)
    first_end = next(n for n, row in enumerate(rows, 1) if row.kind == "send_finished")
    model = stage.model(said("No."), said("Still no."))
    other = stage.loop(llm=model, tools=[look])
    fork = await other.fork(sid, at=first_end)
    result = await other.send("Or not?", session_id=fork)
    base = (await state_at(loop.store, sid, first_end)).messages
    assert encode(model.requests[0].messages[:-1]) == encode(base)
    assert (result.status, result.final_text) == ("completed", "No.")
    assert texts(await loop.get_messages(sid))[-1] == "assistant: Yes."
    assert [row.body for row in await loop.store.read(sid)] == [row.body for row in rows]
    deeper = await other.fork(fork, title="deeper")
    await other.send("Again?", session_id=deeper)
    assert texts(model.requests[1].messages)[-3:] == ["user: Or not?", "assistant: No.", "user: Again?"]
    heads = {head.session_id: head for head in await loop.store.list(SessionQuery())}
    assert heads[fork].base == ForkPoint(sid, first_end)
    assert (heads[fork].title, heads[deeper].title) == ("trees", "deeper")
    await loop.send("Well?", session_id=sid)


async def test_a_fork_counts_its_own_sends_usage_and_ids(stage: Stage) -> None:
    loop = stage.loop(said("one"), said("two"), calls(("look", {})), said("three"), tools=[look])
    sid = (await loop.send("1", send_id="mine")).session_id
    fork = await loop.fork(sid)
    stats = await loop.get_session_stats(fork)
    assert (stats.sends, stats.usage.calls, stats.base) == (0, 0, ForkPoint(sid, stats.records - 1))
    assert (await loop.send("2", session_id=fork, send_id="mine")).final_text == "two", "ids are each session's own"
    await loop.send("3", session_id=fork)
    records = await stage.records(loop, fork)
    assert [record.index for record in records if isinstance(record, SendStarted)] == [1, 1, 2]
    assert (await loop.get_session_stats(fork)).usage.calls == 3
    reply = max(n for n, r in enumerate(records) if isinstance(r, AssistantMessageAdded) and r.message.tool_calls)
    (result,) = [record for record in records if isinstance(record, ToolFinished)]
    assert result.key == idempotency_key(fork, reply, 0)


async def test_calls_that_wait_are_aborted_in_the_fork_and_go_on_waiting_in_the_original(stage: Stage) -> None:
    loop = stage.loop(ASKS, said("Fine."), said("Red."), tools=[request_user_input_tool()])
    sid = (await loop.send("Paint.")).session_id
    fork = await loop.fork(sid)
    records = await stage.records(loop, fork)
    reply = next(n for n, record in enumerate(records) if isinstance(record, AssistantMessageAdded))
    forked, answer, end = records[reply + 1 :]
    assert forked == SessionForked(fork, sid, reply + 1)
    assert isinstance(answer, ToolFinished)
    assert (answer.status, answer.content) == ("aborted", "<aborted: the session was forked here>")
    assert answer.key == idempotency_key(sid, reply, 0), "the key of the session that wrote the call"
    assert isinstance(end, SendFinished)
    assert end.outcome == "cancelled"
    assert await loop.get_pending(fork) == ((), ())
    assert (await loop.send("Never mind.", session_id=fork)).final_text == "Fine."
    (question,) = (await loop.get_pending(sid))[1]
    assert (await loop.submit_input(sid, question.id, "red")).final_text == "Red."


async def test_a_session_that_runs_elsewhere_is_forked_at_its_newest_boundary_and_runs_on(stage: Stage) -> None:
    world = Counting()

    @tool(effect="once")
    async def slow() -> str:
        """Waits."""
        world.started.set()
        await world.gate.wait()
        return world.note("slow")

    running = stage.loop(calls(("slow", {})), said("Done."), tools=[slow])
    sid = await running.new_session()
    send = asyncio.ensure_future(running.send("go", session_id=sid))
    await world.started.wait()
    other = stage.loop(said("Instead."))
    fork = await other.fork(sid)
    assert (await other.send("what else", session_id=fork)).status == "completed"
    assert texts(await other.get_messages(fork))[2] == "tool: <aborted: the session was forked here>"
    world.gate.set()
    assert (await send).final_text == "Done."
    assert world.calls == ["slow"]


async def test_a_base_is_not_closed_under_its_forks(stage: Stage) -> None:
    loop, sid = await told(stage)
    fork = await loop.fork(sid)
    before = await loop.get_messages(fork)
    with pytest.raises(SessionReferencedError, match="copy_to_forks=True") as refused:
        await loop.close_session(sid)
    assert refused.value.forks == (fork,)
    assert await loop.close_session(sid, copy_to_forks=True) == 1
    with pytest.raises(SessionGoneError):
        await loop.fork(sid)
    assert await loop.get_messages(fork) == before
    assert (await loop.get_session_stats(fork)).base is None
    assert (await loop.send("Still there?", session_id=fork)).final_text == "Sure."
    assert list(await loop.store.check()) == []


async def test_what_cannot_be_forked_is_said_and_makes_nothing(stage: Stage) -> None:
    loop, sid = await told(stage)
    with pytest.raises(SessionNotFoundError):
        await loop.fork("nobody")
    with pytest.raises(SessionExistsError):
        await loop.fork(sid, new_session_id=sid)
    with pytest.raises(AgentUnavailableError):
        await stage.loop(agent_name="another").fork(sid)
    with pytest.raises(ForkPositionError, match="nearest: 2 and 4"):
        await loop.fork(sid, at=3)
    with pytest.raises(ForkPositionError, match="nearest: 1;"):
        await loop.fork(sid, at=0)
    assert [head.session_id for head in await loop.store.list(SessionQuery())] == [sid]
    await loop.send("Well?", session_id=sid)


async def test_a_fork_of_a_long_session_opens_from_a_checkpoint_as_the_original_does(stage: Stage) -> None:
    loop = stage.loop(*[said(f"reply {n}") for n in range(14)], checkpoint_every=10)
    sid = await loop.new_session(system_prompt="Be brief.", metadata={"user": "u1"})
    for n in range(6):
        await loop.send(f"say {n}", session_id=sid)
    fork = await loop.fork(sid)
    for n in range(8):
        await loop.send(f"then {n}", session_id=fork)
    rows = await loop.store.read(fork)
    own = [row.position for row in rows if row.kind == "state_checkpointed"]
    assert len(own) > 3
    state = await load_state(fork, rows)
    assert (state.facts.session_id, state.facts.sends, state.facts.metadata) == (fork, 8, {"user": "u1"})
    await stage.bury(loop)
    model = stage.model(said("cold"))
    cold = stage.loop(llm=model)
    await cold.send("and now", session_id=fork)
    assert encode(model.requests[0].messages[:-1]) == encode(state.messages)
    assert model.requests[0].system_prompt == "Be brief."


@pytest.mark.parametrize("point, there", [("fork.before", False), ("fork.after", True)])
async def test_a_process_that_dies_while_it_forks_leaves_a_whole_fork_or_none(
    stage: Stage, point: str, there: bool
) -> None:
    loop, sid = await told(stage)
    mortal = stage.mortal(point)
    await stage.dies(mortal, mortal.fork(sid, new_session_id="f"))
    if there:
        assert (await loop.get_messages("f")) == await loop.get_messages(sid)
        await loop.close_session("f")
    else:
        with pytest.raises(SessionNotFoundError):
            await loop.get_messages("f")
    await loop.send("Well?", session_id=sid)


@tool(effect="pure")
async def grow() -> str:
    """Says more than fits into a window."""
    return "abc " * 60_000


@tool(effect="pure")
async def peek(artifact: str, ctx: ToolContext) -> str:
    """Reads a stored output."""
    return (await ctx.read_output(artifact, limit=7)).text


@pytest.mark.parametrize("base_goes", [False, True])
async def test_a_fork_reads_the_stored_outputs_of_its_prefix_and_no_other_sessions(
    stage: Stage, base_goes: bool
) -> None:
    loop = stage.loop(calls(("grow", {})), said("Much."), tools=[grow, peek])
    sid = (await loop.send("Grow.")).session_id
    named = re.search(r"art_[0-9a-f]{32}", " ".join(texts(await loop.get_messages(sid))))
    assert named is not None
    forks = [await loop.fork(sid), await loop.fork(sid)]
    if base_goes:
        await loop.close_session(sid, copy_to_forks=True)
    reader = stage.loop(*[calls(("peek", {"artifact": named[0]})), said("Seen.")] * 3, tools=[grow, peek])
    for fork in forks:
        await reader.send("Look again.", session_id=fork)
        assert texts(await reader.get_messages(fork))[-2] == "tool: abc abc"
    stranger = (await reader.send(f"What is in {named[0]}?")).session_id
    assert "no stored output" in texts(await reader.get_messages(stranger))[-2]
