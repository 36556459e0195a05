"""Invariant 6: the caller's task may be cancelled at any await; the store stays usable, the journal valid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.crash.agents import AGENTS, SESSION

from loopwright import AgentEventType, HookPoint, StatefulAgentLoop
from loopwright.core.pairing import problem
from loopwright.engine.actor import ACTORS
from loopwright.engine.journal import load_state
from loopwright.testing.crash_matrix import Life
from loopwright.testing.crash_points import CrashPoints, EffectLog
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash

NAMES = [
    "plain",
    "once-tool",
    "four-parallel-tools",
    "follow-up-during-a-tool",
    "human-pause",
    "retry-after-503",
    "big-output",
]

MAX_STEPS = 2000


def with_hooks(loop: StatefulAgentLoop) -> None:
    """A hook that waits a little at every point, so that there is an await there to be cancelled at."""

    async def wait(_: object) -> None:
        await asyncio.sleep(0)

    for point in HookPoint:
        loop.hooks.register(point, wait)


Act = Callable[[StatefulAgentLoop], Awaitable[object]]


async def cancelled_after(steps: int, name: str, dsn: str, act: Act, *, again: bool = False) -> bool:
    """Cancels `act` after so many turns of the event loop and looks at what is left; True when it was over by then.

    `again`: it is cancelled in each further turn too, as impatient hosts do.
    """
    life = Life(dsn, 1, CrashPoints(VirtualAmbient(seed=steps)), EffectLog())
    loop = AGENTS[name].build(life)
    with_hooks(loop)
    seen: list[AgentEventType] = []
    loop.event_bus.subscribe(lambda event: seen.append(event.type))
    await loop.new_session(session_id=SESSION)
    if act is not send:
        await send(loop)
    acting = asyncio.ensure_future(act(loop))
    for _ in range(steps):
        await asyncio.sleep(0)
    over = acting.done()
    acting.cancel()
    while again and not acting.done():
        await asyncio.sleep(0)
        acting.cancel()
    await asyncio.wait([acting])
    assert over or acting.cancelled() or acting.exception() is None, acting.exception()
    assert seen.count(AgentEventType.RUN_ENDED) == seen.count(AgentEventType.RUN_STARTED)
    await is_usable(loop)
    assert life.problems == []
    await loop.aclose()
    ACTORS.drop(loop.store.identity)
    return over


async def send(loop: StatefulAgentLoop) -> object:
    return await loop.send("go", session_id=SESSION, send_id="first")


async def send_again(loop: StatefulAgentLoop) -> object:
    return await loop.send("go", session_id=SESSION, send_id="first")


async def follow_up(loop: StatefulAgentLoop) -> object:
    return await loop.follow_up("and", session_id=SESSION, item_id="item")


async def submit_input(loop: StatefulAgentLoop) -> object:
    _, questions = await loop.get_pending(SESSION)
    return await loop.submit_input(SESSION, questions[0].id, "blue")


async def submit_tool_results(loop: StatefulAgentLoop) -> object:
    calls, _ = await loop.get_pending(SESSION)
    return await loop.submit_tool_results(SESSION, {call.id: "fetched" for call in calls})


async def abort_pending(loop: StatefulAgentLoop) -> object:
    return await loop.abort_pending(SESSION, reason="not now")


async def resume(loop: StatefulAgentLoop) -> object:
    return await loop.resume(SESSION)


async def is_usable(loop: StatefulAgentLoop) -> None:
    head = (await loop.store.lookup(SESSION)).head
    assert head.owner is None, f"the lease is still held, status {head.status}"
    assert head.status in ("idle", "waiting")
    state = await load_state(SESSION, await loop.store.read(SESSION))
    assert state.batch or problem(state.messages) is None
    result = await loop.send("go", session_id=SESSION, send_id="second", heal_pending=True)
    assert result.status in ("completed", "waiting_for_input", "pending_tools")
    assert list(await loop.store.check()) == []


def swept(name: str, dsn: str, act: Act = send, *, every: int = 1, again: bool = False) -> int:
    for steps in range(0, MAX_STEPS, every):
        if asyncio.run(cancelled_after(steps, name, dsn.format(steps=steps), act, again=again)):
            return steps
    raise AssertionError(f"{name} is not over after {MAX_STEPS} turns of the event loop")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_send_cancelled_at_any_await_leaves_a_usable_session_in_memory(name: str, again: bool) -> None:
    assert swept(name, f"memory:cancelled-{name}-{again}-{{steps}}", again=again) > 5


@pytest.mark.parametrize(
    "name, every", [("plain", 1), ("once-tool", 1), ("four-parallel-tools", 1), ("big-output", 11)]
)
def test_a_send_cancelled_at_any_await_leaves_a_usable_session_on_sqlite(name: str, every: int, folder: Path) -> None:
    assert swept(name, f"{folder}/{{steps}}.db", every=every) > 5


ACTS = [
    ("plain", send_again),
    ("plain", follow_up),
    ("plain", resume),
    ("human-pause", submit_input),
    ("approval", submit_input),
    ("host-executed-tool", submit_tool_results),
    ("host-executed-tool", abort_pending),
]


@pytest.mark.parametrize("name, act", ACTS)
def test_every_other_entrance_cancelled_at_any_await_leaves_a_usable_session(name: str, act: Act) -> None:
    assert swept(name, f"memory:left-{name}-{act.__name__}-{{steps}}", act) > 1
