"""Promises of a store about the inbox: accepted once, never lost, taken once.

Owns: tests of `Store.enqueue`, `Store.lookup` and the operations on items. Must not know: any store.
Read next: `store_family_promises.py`.
"""

from __future__ import annotations

import asyncio

from ..model.errors import InboxMovedError, InvariantError, SessionGoneError, SessionMovedError, SessionNotFoundError
from ..ports.store import DropTimer, MarkItem, PutItem, PutTimer, TakeItems
from .store_kit import IDLE, StoreKit, acquire, begin, head_of, item, new_session, promise, raises, work


class InboxPromises:
    """An id is accepted once in the life of its session."""

    @promise
    async def test_an_item_waits_in_order_of_arrival_until_it_is_taken(self, kit: StoreKit) -> None:
        """Whoever stored it, and whoever asks."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        first = await other.enqueue("s", item("b", body=b"first \0 body"))
        second = await store.enqueue("s", item("a"))
        assert (first.inbox_seq, first.duplicate, first.status, first.depth) == (1, False, "running", 1)
        assert (second.inbox_seq, second.duplicate, second.status, second.depth) == (2, False, "running", 2)
        found = await other.lookup("s", item_id="a")
        assert [(one.item_id, one.seq) for one in found.waiting] == [("b", 1), ("a", 2)]
        assert (found.waiting[0].body, found.waiting[0].kind, found.waiting[0].at) == (
            b"first \0 body",
            "message",
            11.0,
        )
        assert (found.item_position, found.head.inbox_seq) == (-1, 2)
        await writer.apply(TakeItems(("b",)))
        found = await other.lookup("s", item_id="b")
        assert [one.item_id for one in found.waiting] == ["a"]
        assert found.item_position == 3

    @promise
    async def test_a_known_id_is_a_duplicate_for_life(self, kit: StoreKit) -> None:
        """Waiting, taken or marked, also after everything was closed."""
        store = kit.open()
        writer = await begin(store)
        await store.enqueue("s", item("x"))
        again = await store.enqueue("s", item("x", body=b"other"), (PutTimer("t", 1.0, b"{}"),))
        assert (again.duplicate, again.inbox_seq, again.depth) == (True, 1, 1)
        assert (await store.lookup("s")).waiting[0].body == item().body
        assert (await store.claim(work(now=9.0))).timers == ()
        await writer.apply(TakeItems(("x",)), MarkItem("send-1"))
        await store.aclose()
        later = kit.open()
        for known in ("x", "send-1"):
            again = await later.enqueue("s", item(known))
            assert (again.duplicate, again.inbox_seq, again.depth) == (True, 1, 0)
        assert (await later.lookup("s", item_id="send-1")).item_position == 3
        assert (await later.lookup("s", item_id="unknown")).item_position is None

    @promise
    async def test_an_item_is_taken_once(self, kit: StoreKit) -> None:
        """A second taking, or taking what never came, refuses the whole transition."""
        store = kit.open()
        writer = await begin(store)
        await store.enqueue("s", item("x"))
        await writer.apply(TakeItems(("x",)))
        for ops in (
            (TakeItems(("x",)),),
            (TakeItems(("never",)),),
            (MarkItem("x"),),
            (MarkItem("twice"), MarkItem("twice")),
        ):
            with raises(SessionMovedError):
                await writer.apply(*ops)
        assert writer.position == 3
        assert (await store.lookup("s", item_id="twice")).item_position is None

    @promise
    async def test_an_item_and_the_end_of_a_send_never_miss_each_other(self, kit: StoreKit) -> None:
        """Whichever comes first, somebody knows: the finishing commit is refused, or the enqueue says idle."""
        store, other = kit.open(), kit.open()
        for n in range(30):
            name = f"s{n}"
            writer = await begin(store, name)
            last = writer.transition(head=IDLE, release=True, if_inbox=0, sync=n % 2 == 0)
            if n % 4 < 2:
                finishing, enqueuing = store.commit(last), other.enqueue(name, item())
            else:
                enqueuing, finishing = other.enqueue(name, item()), store.commit(last)
            finished, queued = await asyncio.gather(finishing, enqueuing, return_exceptions=True)
            assert not isinstance(queued, BaseException), queued
            if isinstance(finished, BaseException):
                assert isinstance(finished, InboxMovedError)
                assert queued.status == "running"
            else:
                assert queued.status == "idle"
                claimable = await other.claim(work())
                assert name in {head.session_id for head in claimable.interrupted}

    @promise
    async def test_the_same_id_from_many_at_once_is_accepted_once(self, kit: StoreKit) -> None:
        """From two clients."""
        clients = [kit.open(), kit.open()]
        await clients[0].create(new_session())
        answers = await asyncio.gather(*(clients[n % 2].enqueue("s", item("x")) for n in range(20)))
        assert sorted(one.duplicate for one in answers) == [False] + [True] * 19
        assert (await head_of(clients[0])).inbox_seq == 1

    @promise
    async def test_operations_ride_with_an_item_or_not_at_all(self, kit: StoreKit) -> None:
        """Only those that need no lease."""
        store = kit.open()
        await store.create(new_session())
        await store.create(new_session("other"))
        writer = await acquire(store)
        await writer.apply(PutTimer("due", 1.0, b"{}"))
        ops = (DropTimer("due"), PutTimer("next", 2.0, b"n"), PutItem("other", item("copy")))
        await store.enqueue("s", item("fire-1"), ops)
        assert [one.timer_id for one in (await store.claim(work(now=9.0))).timers] == ["next"]
        assert [one.item_id for one in (await store.lookup("other")).waiting] == ["copy"]
        with raises(InvariantError):
            await store.enqueue("s", item("no"), (TakeItems(("fire-1",)),))
        assert (await store.lookup("s", item_id="no")).item_position is None

    @promise
    async def test_a_timer_armed_anew_since_it_was_found_neither_fires_nor_is_lost(self, kit: StoreKit) -> None:
        """`DropTimer.due_at` is compared in the same transaction; so of two that fire one timer one does."""
        store = kit.open()
        await store.create(new_session())
        odd = 1763789000.1234567
        await store.enqueue("s", item("arm"), (PutTimer("t", odd, b"first"),))
        (found,) = (await store.claim(work(now=odd))).timers
        writer = await acquire(store)
        await writer.apply(PutTimer("t", odd + 1e-6, b"second"))
        assert (await store.enqueue("s", item("old"), (DropTimer("t", found.due_at),))).duplicate
        assert (await store.lookup("s", item_id="old")).item_position is None
        await writer.apply(DropTimer("t", found.due_at))
        (found,) = (await store.claim(work(now=odd + 1))).timers
        assert (found.due_at, found.body) == (odd + 1e-6, b"second")
        again = await asyncio.gather(
            *(store.enqueue("s", item(f"f{n}"), (DropTimer("t", found.due_at),)) for n in "ab")
        )
        assert sorted(one.duplicate for one in again) == [False, True]
        assert (await store.claim(work(now=odd + 1))).timers == ()
        await writer.apply(PutTimer("t", 1.0, b""), DropTimer("t", 1.0))
        assert (await store.claim(work(now=odd))).timers == ()

    @promise
    async def test_an_item_for_another_session_rides_with_a_transition(self, kit: StoreKit) -> None:
        """Ignored when its id is known there or nobody is there."""
        store = kit.open()
        writer = await begin(store)
        await store.create(new_session("other"))
        ops = (PutItem("other", item("x")), PutItem("other", item("x")), PutItem("nobody", item("y")))
        await writer.apply(*ops)
        await writer.apply(*ops)
        found = await store.lookup("other")
        assert [(one.item_id, one.seq) for one in found.waiting] == [("x", 1)]
        assert found.head.inbox_seq == 1
        assert (await writer.apply(PutItem("s", item("to-myself")))).inbox_seq == 1

    @promise
    async def test_an_item_for_nobody_is_said_to_be_for_nobody(self, kit: StoreKit) -> None:
        """Never created and deleted are different things."""
        store = kit.open()
        with raises(SessionNotFoundError):
            await store.enqueue("nobody", item())
        await store.create(new_session())
        await store.delete("s")
        with raises(SessionGoneError):
            await store.enqueue("s", item())
