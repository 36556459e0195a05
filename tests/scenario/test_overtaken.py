"""Another process gets ahead in the middle of an admission: an input is said once, and what was seen fits together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.test_after_a_crash import World, died_in_b

from loopwright import FollowUpQueued, SessionBusyError, StatefulAgentLoop, UserMessage
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import encode, encode_record
from loopwright.model.records import (
    Record,
    RunResumed,
    SendFinished,
    SendStarted,
    ToolFinished,
    UserMessageAdded,
)
from loopwright.ports.store import Acquire, EncodedRecord, InboxItem, Lease, Transition
from loopwright.stores.dsn import open_store


class Overtaken:
    """A store after whose next call of one name another process does something."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.then: dict[str, Callable[[], Awaitable[None]]] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in self.then:
            return call

        async def and_then(*args: Any, **options: Any) -> Any:
            meanwhile = self.then.pop(name, None)
            try:
                return await call(*args, **options)
            finally:
                if meanwhile is not None:
                    await meanwhile()

        return and_then


class Rival:
    """Another process, as far as the store can tell."""

    def __init__(self, stage: Stage, session_id: str) -> None:
        self.store = open_store(stage.dsn)
        self._session_id = session_id
        self._lease: Lease | None = None

    async def writes(self, *records: Record, release: bool = False) -> None:
        head = (await self.store.lookup(self._session_id)).head
        encoded = [EncodedRecord(kind, version, 1.0, body) for kind, version, body in map(encode_record, records)]
        lease = self._lease or Acquire(b"r" * 16, 30.0)
        done = await self.store.commit(
            Transition(
                session_id=self._session_id, expect=head.position, lease=lease, records=tuple(encoded), release=release
            )
        )
        self._lease = Lease(done.epoch, lease.token)


def overtaken_loop(stage: Stage, *steps: Any, **options: Any) -> tuple[StatefulAgentLoop, Overtaken]:
    store = Overtaken(open_store(stage.dsn))
    return stage.loop(*steps, store=store, **options), store


def taken_over_at_once(stage: Stage, session_id: str, store: Overtaken) -> Rival:
    """Another process takes the interrupted send over right after it was read here, and ends it after the next commit."""
    rival = Rival(stage, session_id)

    async def takes_over() -> None:
        await rival.writes(RunResumed("recover", 0))
        store.then["commit"] = ends

    async def ends() -> None:
        await rival.writes(ToolFinished("call_0_1", "b", "finished", "b done"))
        await rival.writes(SendFinished(outcome="cancelled", rounds=1), release=True)

    store.then["read"] = takes_over
    return rival


async def test_an_input_for_a_send_that_somebody_else_takes_over_first_is_said_once(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop, store = overtaken_loop(stage, "an answer to it", tools=world.tools, lease_wait_s=60.0, ambient=stage.time)
    rival = taken_over_at_once(stage, sid, store)
    result = await loop.send("said once", session_id=sid)
    assert (result.status, result.final_text) == ("completed", "an answer to it")
    said = [m.text for m in await loop.get_messages(sid) if isinstance(m, UserMessage)]
    assert said == ["go", "said once"]
    await rival.store.aclose()
    await store.aclose()


async def test_an_input_that_is_refused_because_somebody_else_was_first_is_not_stored(stage: Stage) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop, store = overtaken_loop(stage, tools=world.tools)
    rival = taken_over_at_once(stage, sid, store)
    with pytest.raises(SessionBusyError):
        await loop.send("refused", session_id=sid)
    found = await rival.store.lookup(sid)
    assert (found.head.inbox_seq, found.waiting) == (0, ())
    await rival.store.aclose()
    await store.aclose()


async def test_a_follow_up_is_accepted_even_when_somebody_else_begins_before_it_is_run(stage: Stage) -> None:
    first = stage.loop()
    sid = await first.new_session()
    loop, store = overtaken_loop(stage)
    rival = Rival(stage, sid)

    async def begins() -> None:
        await rival.writes(SendStarted(index=1, max_rounds=3), UserMessageAdded(UserMessage("theirs")))

    store.then["enqueue"] = begins
    queued = await loop.follow_up("ours", session_id=sid, item_id="f1")
    assert isinstance(queued, FollowUpQueued)
    assert [item.item_id for item in (await rival.store.lookup(sid)).waiting] == ["f1"]
    await rival.store.aclose()
    await store.aclose()


async def test_an_input_whose_process_died_gets_its_own_result_and_not_that_of_the_send_it_was_handed_to(
    stage: Stage,
) -> None:
    world = World()
    sid = await died_in_b(stage, world)
    loop = stage.loop("an answer to it", tools=world.tools)

    def broken(context: Any) -> None:
        raise RuntimeError("the interrupted send ends before it hears anything")

    loop.hooks.register("tool.before", broken)
    await loop.store.enqueue(sid, InboxItem("i1", "message", encode(UserMessage("once more")), 1.0))
    result = await loop.send("once more", session_id=sid, send_id="i1")
    assert (result.status, result.final_text) == ("completed", "an answer to it")


async def test_a_send_that_began_while_the_session_was_being_read_is_not_taken_for_an_interrupted_one(
    stage: Stage,
) -> None:
    first = stage.loop()
    sid = await first.new_session()
    ACTORS.drop(first.store.identity)
    loop, store = overtaken_loop(stage)
    rival = Rival(stage, sid)

    async def begins() -> None:
        await rival.writes(SendStarted(index=1, max_rounds=3), UserMessageAdded(UserMessage("theirs")))

    store.then["lookup"] = begins
    with pytest.raises(SessionBusyError):
        await loop.send("ours", session_id=sid)
    found = await rival.store.lookup(sid)
    assert (found.head.inbox_seq, found.waiting) == (0, ())
    assert [m.text for m in await loop.get_messages(sid)] == ["theirs"]
    await rival.store.aclose()
    await store.aclose()
