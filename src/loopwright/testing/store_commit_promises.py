"""Promises of a store about transitions: atomic, guarded, ordered, whatever their size.

Owns: tests of `Store.create`, `Store.commit` and `Store.read`. Must not know: any store.
Read next: `store_lease_promises.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import structs

from ..model.errors import (
    InboxMovedError,
    InvariantError,
    SessionExistsError,
    SessionFencedError,
    SessionMovedError,
    SessionNotFoundError,
)
from ..model.usage import Usage
from ..ports.store import (
    Acquire,
    Committed,
    CreateSession,
    DropSession,
    EncodedRecord,
    HeadChange,
    Lease,
    MarkItem,
    PutItem,
    PutTimer,
    TakeItems,
    Transition,
)
from .store_kit import (
    TOKEN,
    StoreKit,
    acquire,
    begin,
    head_of,
    item,
    new_session,
    promise,
    raises,
    record,
    records,
    texts,
    work,
)


class CommitPromises:
    """All or nothing, in order, at the expected place."""

    @promise
    async def test_a_new_session_is_its_records_and_an_idle_head(self, kit: StoreKit) -> None:
        """What `create` answers is what every client sees."""
        store = kit.open()
        head = await store.create(new_session(title="T", parent_id=None, kind="goal", lifecycle="detached", at=7.0))
        assert head == await head_of(kit.open())
        assert (head.position, head.epoch, head.owner, head.status, head.inbox_seq) == (1, 0, None, "idle", 0)
        assert (head.title, head.kind, head.lifecycle, head.created_at, head.updated_at) == (
            "T",
            "goal",
            "detached",
            7,
            7,
        )
        assert (head.window_start, head.checkpoint, head.takeovers, head.sends, head.usage) == (0, None, 0, 0, Usage())

    @promise
    async def test_an_id_is_used_once(self, kit: StoreKit) -> None:
        """Also when the second creation differs."""
        store = kit.open()
        await store.create(new_session())
        with raises(SessionExistsError):
            await store.create(new_session(records=records(3)))
        assert len(await texts(store)) == 1

    @promise
    async def test_an_acknowledged_transition_is_seen_by_every_later_read(self, kit: StoreKit) -> None:
        """By other clients too, in order, in whole or in part."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        committed = await writer.write(3)
        assert committed.position == 5
        assert len(await texts(other)) == 5
        found = await other.read("s", after=2, limit=2)
        assert [one.position for one in found] == [2, 3]
        assert structs.astuple(found[0])[1:] == structs.astuple(records(1)[0])
        assert list(await other.read("s", after=5)) == []

    @promise
    async def test_a_transition_at_another_position_writes_nothing(self, kit: StoreKit) -> None:
        """Neither behind the end nor after it."""
        writer = await begin(kit.open())
        for expect in (0, 1, 3):
            with raises(SessionMovedError) as caught:
                await writer.write(expect=expect)
            assert (caught.error.expected, caught.error.actual) == (expect, 2)
        assert len(await texts(writer.store)) == 2

    @promise
    async def test_a_refused_transition_leaves_no_trace_of_any_part(self, kit: StoreKit) -> None:
        """The last operation is what cannot be done, so everything before it has to be undone."""
        store = kit.open()
        writer = await begin(store)
        await store.create(new_session("other"))
        await store.create(new_session("stranger"))
        before = await store.lookup("s")
        good = (
            MarkItem("marked"),
            PutItem("other", item("for-other")),
            PutTimer("t", 1.0, b"{}"),
            CreateSession(new_session("child")),
        )
        with raises(SessionMovedError):
            await writer.write(2, ops=(*good, TakeItems(("never-came",))), head=HeadChange(status="waiting", sends=1))
        with raises(InvariantError):
            await writer.write(2, ops=(*good, DropSession("stranger")))
        after = await store.lookup("s")
        assert structs.replace(after.head, expires_in_s=0) == structs.replace(before.head, expires_in_s=0)
        assert (await store.lookup("s", item_id="marked")).item_position is None
        assert (await head_of(store, "other")).inbox_seq == 0
        assert (await store.claim(work(now=5.0))).timers == ()
        with raises(SessionNotFoundError):
            await store.lookup("child")
        await writer.write(2, ops=good)
        assert (await head_of(store, "child")).position == 1

    @promise
    async def test_one_refused_transition_of_a_tick_does_not_touch_the_others(self, kit: StoreKit) -> None:
        """They may share a transaction, not a fate."""
        store = kit.open()
        writers = [await begin(store, f"s{n}") for n in range(6)]
        offered = [writer.transition(2) for writer in writers]
        offered[1] = structs.replace(offered[1], lease=Lease(99, TOKEN))
        offered[3] = structs.replace(offered[3], ops=(MarkItem("x"), TakeItems(("missing",))))
        offered[4] = structs.replace(offered[4], expect=9)
        outcomes = await asyncio.gather(*(store.commit(one) for one in offered), return_exceptions=True)
        kinds = [type(one).__name__ for one in outcomes]
        assert kinds == [
            "Committed",
            "SessionFencedError",
            "Committed",
            "SessionMovedError",
            "SessionMovedError",
            "Committed",
        ]
        assert [(await head_of(store, f"s{n}")).position for n in range(6)] == [4, 2, 4, 2, 2, 4]

    @promise
    async def test_transitions_of_one_task_apply_in_the_order_offered(self, kit: StoreKit) -> None:
        """Small and large, synced and not: whichever way a store takes for each, none may overtake another."""
        store = kit.open()
        writer = await begin(store)
        offered: list[Awaitable[Committed]] = []
        expect = writer.position
        for n in range(40):
            body = b'{"n":%d,"pad":"%s"}' % (n, b"x" * (400_000 if n % 13 == 5 else 10))
            one = (EncodedRecord("user_message_added", 1, 10.0, body),)
            offered.append(store.commit(writer.transition(expect=expect, records=one, sync=n % 3 == 0)))
            expect += 1
            if n % 4 == 3:
                await asyncio.wait({asyncio.ensure_future(offered[-1])})
        assert [(await one).position for one in offered] == list(range(3, 43))
        assert [body.startswith(b'{"n":%d,' % n) for n, body in enumerate((await texts(store))[2:])] == [True] * 40

    @promise
    async def test_a_head_change_changes_what_it_names_and_adds_the_totals(self, kit: StoreKit) -> None:
        """None and zero leave the head as it is."""
        store = kit.open()
        writer = await begin(store)
        await writer.write(head=HeadChange(window_start=1, checkpoint=2, min_format=3, title="T", sends=1))
        change = HeadChange(status="waiting", sends=2, usage=Usage(10, 20, 3, 4, 5, 1, True, 7_000, 1))
        await writer.write(records=(record(at=99.0),), head=change)
        await writer.write(head=HeadChange(usage=Usage(1, 1, calls=1, nanodollars=500)))
        head = await head_of(store)
        assert (head.window_start, head.checkpoint, head.min_format, head.title) == (1, 2, 3, "T")
        assert (head.status, head.sends, head.updated_at) == ("waiting", 3, 99.0)
        assert head.usage == Usage(11, 21, 3, 4, 5, 2, True, 7_500, 1)

    @promise
    async def test_the_inbox_condition_is_checked_last_and_writes_nothing(self, kit: StoreKit) -> None:
        """The order of checks is what a caller's reaction depends on."""
        store = kit.open()
        writer = await begin(store)
        await writer.write(if_inbox=0)
        await store.enqueue("s", item())
        with raises(InboxMovedError) as caught:
            await writer.write(if_inbox=0)
        assert caught.error.inbox_seq == 1
        with raises(SessionFencedError):
            await writer.write(if_inbox=0, lease=Lease(7, TOKEN), expect=77)
        with raises(SessionMovedError):
            await writer.write(if_inbox=0, expect=77)
        with raises(SessionNotFoundError):
            await store.commit(Transition(session_id="nobody", expect=5, lease=Lease(1, TOKEN)))
        assert len(await texts(store)) == 3
        assert (await writer.write(if_inbox=1)).inbox_seq == 1

    @promise
    async def test_bodies_of_any_size_and_bytes_come_back_as_they_were(self, kit: StoreKit) -> None:
        """Empty, NUL, invalid UTF-8, over a megabyte."""
        store = kit.open()
        bodies = [
            b"",
            b"\0",
            b'{"a":"\\u0000"}\0\xff\xfe',
            "漢字 🚀".encode(),
            bytes(range(256)) * 6_000,
            b"x" * 300_000,
        ]
        await store.create(new_session("with \0 and 漢字", records=()))
        writer = await acquire(store, "with \0 and 漢字", records=())
        many = tuple(EncodedRecord("tool_finished", 2, 1.5, body) for body in bodies)
        await writer.write(records=many)
        await writer.write(records=many * 4)
        assert await texts(kit.open(), "with \0 and 漢字") == bodies * 5

    @promise
    async def test_many_sessions_commit_at_once_and_nothing_is_lost_or_doubled(self, kit: StoreKit) -> None:
        """From two clients, synced and not."""
        clients = [kit.open(), kit.open()]

        async def run(n: int) -> None:
            store, session_id = clients[n % 2], f"s{n}"
            writer = await begin(store, session_id)
            for turn in range(5):
                await writer.write(1 + turn % 3, sync=turn % 2 == 0)
            await writer.write(release=True)

        await asyncio.gather(*(run(n) for n in range(150)))
        lengths = {len(await texts(clients[0], f"s{n}")) for n in range(150)}
        assert lengths == {12}

    @promise
    async def test_an_acquire_can_carry_the_whole_transition_and_release(self, kit: StoreKit) -> None:
        """Afterwards its lease is worth nothing."""
        store = kit.open()
        await store.create(new_session())
        one = Transition(
            session_id="s",
            expect=1,
            lease=Acquire(TOKEN, 5.0),
            records=records(2),
            ops=(MarkItem("send-1"),),
            release=True,
        )
        committed = await store.commit(one)
        assert (committed.position, committed.epoch) == (3, 1)
        head = await head_of(store)
        assert (head.owner, head.expires_in_s) == (None, 0.0)
        with raises(SessionFencedError):
            await store.commit(Transition(session_id="s", expect=3, lease=Lease(1, TOKEN), records=records(1)))
