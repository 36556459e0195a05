"""Signals and calls that wait without a process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.crew import answers_of, ended
from tests.waiting import next_turn, until

from loopwright import tool
from loopwright.core.family_state import MAX_SIGNALS
from loopwright.model.errors import InvalidMessageError, SessionNotFoundError, SessionPendingError
from loopwright.model.records import SendStarted
from loopwright.ports.tool import ToolContext, WaitNeeded
from loopwright.testing import calls

FAR = 4_000_000_000.0


@tool(effect="idempotent")
async def wait_for(ctx: ToolContext, name: str) -> str | WaitNeeded:
    """Wait."""
    return WaitNeeded(signal=name) if ctx.woken is None else f"{name}: {ctx.woken.payload}"


@tool(effect="pure")
async def wait_long(ctx: ToolContext) -> str | WaitNeeded:
    """Wait long."""
    return WaitNeeded(until=FAR, signal="now") if ctx.woken is None else str(ctx.woken.why)


@tool(effect="once")
async def pay_later(ctx: ToolContext) -> WaitNeeded:
    """Pay later."""
    return WaitNeeded(until=FAR)


@tool(effect="idempotent")
async def wait_for_nothing(ctx: ToolContext) -> WaitNeeded:
    """Wait for nothing."""
    return WaitNeeded()


TOOLS = [wait_for, wait_long, pay_later, wait_for_nothing]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "nul\x00"])
async def test_a_signals_name_is_short_and_printable(stage: Stage, name: str) -> None:
    loop = stage.loop()
    session_id = await loop.new_session()
    with pytest.raises(InvalidMessageError, match="1 to 200 printable"):
        await loop.signal(session_id, name)


@pytest.mark.parametrize("payload", [object(), {1: object()}, "x" * 70_000, float("nan"), {"a": [1, float("-inf")]}])
async def test_a_signals_payload_is_a_json_value_of_bounded_size(stage: Stage, payload: Any) -> None:
    loop = stage.loop()
    session_id = await loop.new_session()
    with pytest.raises(InvalidMessageError, match="payload of signal 'go'"):
        await loop.signal(session_id, "go", payload)
    assert (await loop.store.lookup(session_id)).waiting == ()


async def test_a_signal_to_nobody_is_an_error(stage: Stage) -> None:
    loop = stage.loop()
    with pytest.raises(SessionNotFoundError):
        await loop.signal("nobody", "go")


async def test_a_signal_to_an_idle_session_begins_no_send_and_waits_for_a_call_that_wants_it(stage: Stage) -> None:
    loop = stage.loop("hi", calls(("wait_for", {"name": "go"})), "thanks", tools=TOOLS)
    session_id = (await loop.send("hello")).session_id
    assert await loop.signal(session_id, "go", 1)
    assert await loop.recover() == []
    assert len([r for r in await stage.records(loop, session_id) if isinstance(r, SendStarted)]) == 1
    assert (await loop.send("wait", session_id=session_id)).final_text == "thanks"
    [answer] = await answers_of(stage, loop, session_id)
    assert answer.content == "go: 1"


async def test_a_signal_to_a_running_session_is_kept_and_taken_in_order_of_arrival(stage: Stage) -> None:
    @tool(effect="pure")
    async def ring(ctx: ToolContext) -> str:
        """Ring."""
        for number in range(3):
            await loop.signal(ctx.session_id, "go", number)
        return "rung"

    both = calls(("wait_for", {"name": "go"}), ("wait_for", {"name": "go"}))
    loop = stage.loop(calls(("ring", {})), both, "thanks", tools=[*TOOLS, ring])
    result = await loop.send("go")
    if not result.ok:
        result = await ended(loop, result.session_id)
    found = [str(one.content) for one in await answers_of(stage, loop, result.session_id)]
    assert (found[0], sorted(found[1:])) == ("rung", ["go: 0", "go: 1"])


async def test_the_newest_hundred_signals_are_kept(stage: Stage) -> None:
    loop = stage.loop("hi", "again", calls(("wait_for", {"name": "go"})), "thanks", tools=TOOLS)
    session_id = (await loop.send("hello")).session_id
    for number in range(MAX_SIGNALS + 5):
        await loop.signal(session_id, "go", number)
    await loop.send("hello", session_id=session_id)
    await loop.send("wait", session_id=session_id)
    [answer] = await answers_of(stage, loop, session_id)
    assert answer.content == "go: 5"


async def test_a_signal_of_another_name_does_not_wake(stage: Stage) -> None:
    loop = stage.loop(calls(("wait_for", {"name": "go"})), "thanks", tools=TOOLS)
    waiting = await loop.send("go")
    assert waiting.status == "waiting_for_input"
    await loop.signal(waiting.session_id, "other")
    await until(lambda: not loop._kernel.background)
    assert (await loop.store.lookup(waiting.session_id)).head.status == "waiting"
    with pytest.raises(SessionPendingError, match="waits for signal 'go'"):
        await loop.send("well?", session_id=waiting.session_id)
    await loop.signal(waiting.session_id, "go")
    assert (await ended(loop, waiting.session_id)).ok


async def test_a_signal_whose_sender_died_before_waking_anybody_wakes_when_it_is_sent_again(stage: Stage) -> None:
    loop = stage.loop(calls(("wait_for", {"name": "go"})), "thanks", tools=TOOLS, serve_timers=False)
    waiting = await loop.send("go")
    mortal = stage.mortal("inbox.after#1")
    await stage.dies(mortal, mortal.signal(waiting.session_id, "go", 1, item_id="one"))
    assert not await loop.signal(waiting.session_id, "go", 2, item_id="one")
    assert (await ended(loop, waiting.session_id)).ok
    [answer] = await answers_of(stage, loop, waiting.session_id)
    assert answer.content == "go: 1"


async def test_a_call_that_waits_is_aborted_without_leaving_its_timer(stage: Stage) -> None:
    loop = stage.loop(calls(("wait_long", {})), "thanks", tools=TOOLS)
    waiting = await loop.send("go")
    with pytest.raises(SessionPendingError, match="signal 'now' or the time 4000000000"):
        await loop.send("well?", session_id=waiting.session_id)
    assert (await loop.send("instead", session_id=waiting.session_id, heal_pending=True)).final_text == "thanks"
    assert not await loop.list_timers(waiting.session_id)


async def test_a_stop_beside_a_call_that_waits_drops_its_timer(stage: Stage) -> None:
    held = asyncio.Event()

    @tool(effect="pure")
    async def hold(ctx: ToolContext) -> str:
        """Hold."""
        held.set()
        await ctx.cancellation.wait()
        return "never"

    loop = stage.loop(calls(("wait_long", {}), ("hold", {})), tools=[*TOOLS, hold])
    await loop.new_session(session_id="s")
    running = asyncio.ensure_future(loop.send("go", session_id="s"))
    await held.wait()
    while not await loop.list_timers("s"):
        await next_turn()
    await loop.stop("s")
    assert (await running).status == "cancelled"
    assert not await loop.list_timers("s")


async def test_a_tool_that_must_not_run_twice_or_waits_for_nothing_is_told_so(stage: Stage) -> None:
    loop = stage.loop(calls(("pay_later", {}), ("wait_for_nothing", {})), "thanks", tools=TOOLS)
    result = await loop.send("go")
    found = {one.name: str(one.content) for one in await answers_of(stage, loop, result.session_id)}
    assert "is declared once" in found["pay_later"]
    assert "neither a time nor a signal" in found["wait_for_nothing"]
    assert result.ok


async def test_calls_of_one_batch_take_kept_signals_of_their_own(stage: Stage) -> None:
    loop = stage.loop("hi", calls(*[("wait_for", {"name": "go"})] * 3), "thanks", tools=TOOLS)
    session_id = (await loop.send("hello")).session_id
    for number in range(3):
        await loop.signal(session_id, "go", number)
    assert (await loop.send("wait", session_id=session_id)).final_text == "thanks"
    found = [str(one.content) for one in await answers_of(stage, loop, session_id)]
    assert sorted(found) == ["go: 0", "go: 1", "go: 2"]
