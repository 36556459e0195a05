"""Promises of a store about what wakes a session: items for one that waits, timers that are due or will be.

Owns: tests of waking items, of enqueuing nothing but operations, of what is said about timers. Must not know: any store.
Read next: `store_family_promises.py`, where claiming as such is.
"""

from __future__ import annotations

import asyncio

from msgspec import structs

from ..model.errors import InvariantError, SessionGoneError, SessionMovedError, SessionNotFoundError
from ..ports.store import (
    WAKING_KINDS,
    CreateSession,
    DropTimer,
    HeadChange,
    InboxItem,
    PutItem,
    PutTimer,
    SessionQuery,
    TakeItems,
)
from ..ports.store_admin import SessionStore
from .store_kit import StoreKit, Writer, acquire, begin, head_of, item, new_session, promise, raises, work

WAITING = HeadChange(status="waiting")


def waking(item_id: str, kind: str = "wake") -> InboxItem:
    """An item that tells a session that something has happened."""
    return structs.replace(item(item_id), kind=kind)


async def paused(store: SessionStore, session_id: str) -> Writer:
    """A session that waits, with a free lease."""
    writer = await begin(store, session_id)
    await writer.write(head=WAITING, release=True)
    return writer


async def found(store: SessionStore) -> set[str]:
    """Ids of the sessions that can be continued."""
    return {head.session_id for head in (await store.claim(work())).interrupted}


async def armed(store: SessionStore, *due: float, session_id: str = "s") -> None:
    """Arms timers `t0`, `t1`, …"""
    await store.enqueue(session_id, None, tuple(PutTimer(f"t{n}", at, b"{}") for n, at in enumerate(due)))


class WakingPromises:
    """Who waits is found when it is woken, and nobody is looked for in vain."""

    @promise
    async def test_a_waiting_session_is_claimable_once_something_wakes_it(self, kit: StoreKit) -> None:
        """A message alone does not; a lease that is held keeps it where it is."""
        store, other = kit.open(), kit.open()
        for kind in (*WAKING_KINDS, "message", "timer", "none"):
            await paused(store, kind)
        for kind in (*WAKING_KINDS, "message", "timer"):
            await other.enqueue(kind, waking("i", kind))
        assert await found(store) == await found(other) == set(WAKING_KINDS)
        writer = await acquire(other, "wake", head=WAITING)
        assert await found(store) == {"signal", "stop"}
        await writer.write(ops=(TakeItems(("i",)),), release=True)
        assert await found(store) == {"signal", "stop"}
        await store.enqueue("message", waking("later", "signal"))
        assert await found(store) == {"signal", "stop", "message"}

    @promise
    async def test_an_item_from_another_session_wakes_as_one_from_outside_does(self, kit: StoreKit) -> None:
        """In the commit of a child that ends, say."""
        store = kit.open()
        await paused(store, "parent")
        child = await begin(store, "child")
        await child.apply(PutItem("parent", waking("child:child:3")))
        assert await found(store) == {"parent"}
        dead = kit.open()
        holder = await acquire(dead, "parent", head=WAITING)
        assert await found(store) == set()
        dead.abandon()
        assert await found(store) == {"parent"}
        assert holder.committed.takeovers == 0

    @promise
    async def test_what_its_owner_could_not_give_back_is_found_once_the_owner_closed(self, kit: StoreKit) -> None:
        """A transition that was to release the lease was refused, and nobody tried again."""
        leaving, store = kit.open(), kit.open()
        writer = await begin(leaving)
        with raises(SessionMovedError):
            await writer.write(expect=7, release=True)
        assert await found(store) == set()
        await leaving.aclose()
        assert await found(store) == {"s"}

    @promise
    async def test_what_the_dead_hold_is_found_as_often_as_it_is_asked_for(self, kit: StoreKit) -> None:
        """By each for its own agents, however often it found nothing before."""
        store, dead, later = kit.open(), kit.open(), kit.open()
        await dead.create(new_session("foreign", agent_name="other"))
        await acquire(dead, "foreign")
        dead.abandon()
        for _ in range(2):
            assert await found(store) == set()
            assert len((await store.claim(work("other"))).interrupted) == 1
        await begin(later, "s")
        assert await found(store) == set()
        later.abandon()
        assert await found(store) == {"s"}
        taken = await acquire(store, "s")
        assert await found(store) == set()
        await taken.write(release=True)
        assert await found(store) == {"s"}

    @promise
    async def test_a_session_begins_in_the_state_that_its_maker_wants(self, kit: StoreKit) -> None:
        """Running ones are there for anybody, waiting ones for what wakes them."""
        store = kit.open()
        await store.create(new_session("running", status="running"))
        assert (await store.create(new_session("waiting", status="waiting"))).status == "waiting"
        writer = await begin(store, "parent")
        await writer.apply(
            CreateSession(new_session("child", parent_id="parent", status="running")),
            CreateSession(new_session("quiet", parent_id="parent")),
        )
        assert await found(store) == {"running", "child"}
        assert [(await head_of(store, name)).status for name in ("running", "waiting", "quiet")] == [
            "running",
            "waiting",
            "idle",
        ]
        await store.enqueue("waiting", waking("i"))
        assert await found(store) == {"running", "child", "waiting"}

    @promise
    async def test_sessions_of_one_kind_are_listed(self, kit: StoreKit) -> None:
        """Together with the other filters."""
        store = kit.open()
        for n, kind in enumerate(("agent", "workflow", "workflow")):
            parent = "s0" if n else None
            await store.create(new_session(f"s{n}", kind=kind, at=float(n), parent_id=parent))
        asked = (SessionQuery(kind="workflow"), SessionQuery(kind="workflow", parent_id="s0", before=2.0))
        names = [[head.session_id for head in await store.list(query)] for query in asked]
        assert names == [["s2", "s1"], ["s1"]]
        assert list(await store.list(SessionQuery(kind="goal"))) == []


class TimerPromises:
    """Timers are armed, moved and dropped without a lease, and looked at for nothing."""

    @promise
    async def test_operations_without_an_item_leave_the_inbox_as_it_is(self, kit: StoreKit) -> None:
        """They need no lease, and are there for everybody afterwards."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        await store.create(new_session("other"))
        await store.enqueue("s", item("first"))
        done = await other.enqueue("s", None, (PutTimer("t", 5.0, b"t"), PutItem("other", item("copy"))))
        assert (done.inbox_seq, done.duplicate, done.status, done.depth) == (1, False, "running", 1)
        assert [one.body for one in (await store.claim(work(now=9.0))).timers] == [b"t"]
        assert [one.item_id for one in (await store.lookup("other")).waiting] == ["copy"]
        await writer.write(if_inbox=1)
        assert not (await other.enqueue("s", None, (DropTimer("t"), DropTimer("never")))).duplicate
        assert (await store.claim(work(now=9.0))).timers == ()
        assert not (await other.enqueue("s", None)).duplicate
        assert (await head_of(store)).inbox_seq == 1

    @promise
    async def test_without_an_item_too_a_timer_is_moved_by_one_of_those_who_found_it(self, kit: StoreKit) -> None:
        """Its time is compared in the same transaction; the others have done nothing."""
        store, other = kit.open(), kit.open()
        await store.create(new_session())
        await armed(store, 5.0)
        move = (DropTimer("t0", 5.0), PutTimer("t0", 15.0, b"next"))
        both = await asyncio.gather(store.enqueue("s", None, move), other.enqueue("s", None, move))
        assert sorted(one.duplicate for one in both) == [False, True]
        stale = await other.enqueue("s", None, (DropTimer("t0", 5.0), PutTimer("t1", 6.0, b"")))
        assert stale.duplicate
        assert [(one.timer_id, one.due_at) for one in await store.timers("s")] == [("t0", 15.0)]

    @promise
    async def test_operations_for_nobody_are_refused_with_and_without_an_item(self, kit: StoreKit) -> None:
        """So are those that need a lease."""
        store = kit.open()
        ops = (PutTimer("t", 1.0, b""),)
        with raises(SessionNotFoundError):
            await store.enqueue("s", None, ops)
        with raises(SessionNotFoundError):
            await store.timers("s")
        await store.create(new_session())
        with raises(InvariantError):
            await store.enqueue("s", None, (*ops, TakeItems(("x",))))
        assert list(await store.timers("s")) == []
        await store.delete("s")
        with raises(SessionGoneError):
            await store.enqueue("s", None, ops)
        with raises(SessionGoneError):
            await store.timers("s")

    @promise
    async def test_the_timers_of_a_session_are_shown_by_due_time(self, kit: StoreKit) -> None:
        """Due or not, and no others'."""
        store = kit.open()
        await store.create(new_session())
        await store.create(new_session("other"))
        await armed(store, 30.0, 10.0, 20.0)
        await armed(store, 1.0, session_id="other")
        shown = await store.timers("s")
        assert [(one.session_id, one.timer_id, one.due_at, one.body) for one in shown] == [
            ("s", "t1", 10.0, b"{}"),
            ("s", "t2", 20.0, b"{}"),
            ("s", "t0", 30.0, b"{}"),
        ]

    @promise
    async def test_who_asks_for_timers_alone_gets_nothing_else(self, kit: StoreKit) -> None:
        """And is told when to ask again: when the next one of these agents will be due."""
        store = kit.open()
        await (await begin(store)).write(release=True)
        await store.create(new_session("foreign", agent_name="other"))
        await store.create(new_session("newer", min_format=2))
        assert (await store.claim(work())).next_timer_at is None
        await armed(store, 10.0, 20.5, 30.0)
        await armed(store, 15.0, session_id="foreign")
        await armed(store, 16.0, session_id="newer")
        whole = await store.claim(work(now=10.0))
        assert len(whole.interrupted) == 1
        alone = await store.claim(work(now=10.0, timers_only=True))
        assert alone.interrupted == ()
        for one in (whole, alone):
            assert [timer.timer_id for timer in one.timers] == ["t0"]
            assert one.next_timer_at == 20.5
        assert (await store.claim(work("default", "other", now=10.0, timers_only=True))).next_timer_at == 15.0
        assert (await store.claim(work(now=30.0, timers_only=True))).next_timer_at is None
        assert (await store.claim(work("nobody", timers_only=True))).next_timer_at is None
