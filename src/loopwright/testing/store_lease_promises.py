"""Promises of a store about leases: one writer, fenced, taken over only from the dead.

Owns: tests of acquire, release, takeover, renewal, abandonment. Must not know: any store.
Read next: `store_inbox_promises.py`.
"""

from __future__ import annotations

import asyncio
import threading

from ..model.errors import SessionBusyError, SessionFencedError, SessionMovedError, UsageError
from ..ports.store import HeadChange
from ..ports.store_admin import SessionStore
from .store_kit import (
    DEADLINE_S,
    StoreKit,
    StoreMaker,
    acquire,
    begin,
    head_of,
    new_session,
    promise,
    raises,
    texts,
    until,
)

SHORT_S = 0.15
"""A lease that is meant to expire."""


class LeasePromises:
    """At most one lease is valid per session."""

    @promise
    async def test_a_live_holder_keeps_others_out_before_they_write(self, kit: StoreKit) -> None:
        """The refusal names the holder and when to ask again."""
        holder, other = kit.open(), kit.open()
        await begin(holder, ttl_s=30.0)
        with raises(SessionBusyError) as caught:
            await acquire(other)
        assert caught.error.holder == holder.owner
        assert 25 < caught.error.expires_in_s <= 60
        head = await head_of(other)
        assert (head.owner, head.epoch, head.position, head.takeovers) == (holder.owner, 1, 2, 0)
        assert 25 < head.expires_in_s <= 60

    @promise
    async def test_busy_is_said_before_moved(self, kit: StoreKit) -> None:
        """A busy session's position is not the caller's concern."""
        await begin(kit.open())
        with raises(SessionBusyError):
            await acquire(kit.open(), expect=77)

    @promise
    async def test_a_released_lease_is_free_and_no_takeover(self, kit: StoreKit) -> None:
        """Giving back is not dying."""
        holder, other = kit.open(), kit.open()
        writer = await begin(holder)
        await writer.write(release=True)
        assert (await head_of(other)).owner is None
        taken = await acquire(other)
        assert (taken.committed.epoch, taken.committed.takeovers) == (2, 0)
        with raises(SessionFencedError) as caught:
            await writer.write()
        assert (caught.error.epoch, caught.error.current_epoch) == (1, 2)

    @promise
    async def test_epoch_and_token_must_both_match(self, kit: StoreKit) -> None:
        """An epoch can be guessed, a token cannot."""
        writer = await begin(kit.open())
        lease = writer.lease
        for wrong in (type(lease)(lease.epoch, b"another-token"), type(lease)(lease.epoch + 1, lease.token)):
            with raises(SessionFencedError):
                await writer.write(lease=wrong)
        assert (await writer.write()).position == 3

    @promise
    async def test_an_expired_lease_is_taken_and_its_holder_fenced(self, kit: StoreKit) -> None:
        """The late holder has written nothing."""
        holder, other = kit.open(), kit.open()
        writer = await begin(holder, ttl_s=SHORT_S)

        async def expired() -> bool:
            return (await head_of(other)).expires_in_s == 0

        await until(expired, "the lease expires")
        taken = await acquire(other, token=b"the other token")
        assert (taken.committed.epoch, taken.committed.takeovers) == (2, 1)
        with raises(SessionFencedError):
            await writer.write(5)
        assert len(await texts(other)) == 3

    @promise
    async def test_an_expired_holder_goes_on_when_nobody_took_the_lease(self, kit: StoreKit) -> None:
        """Expiry allows a takeover; it is not one."""
        holder, other = kit.open(), kit.open()
        writer = await begin(holder, ttl_s=SHORT_S)

        async def expired() -> bool:
            return (await head_of(other)).expires_in_s == 0

        await until(expired, "the lease expires")
        assert (await writer.write()).position == 3

    @promise
    async def test_an_abandoned_holder_is_dead_at_once(self, kit: StoreKit) -> None:
        """What a killed process leaves: its time to live is long, its process is known to be gone."""
        holder, other = kit.open(), kit.open()
        await begin(holder, ttl_s=3600.0)
        holder.abandon()
        assert (await head_of(other)).expires_in_s == 0
        assert (await acquire(other)).committed.takeovers == 1

    @promise
    async def test_takeovers_count_until_a_record_is_progress(self, kit: StoreKit) -> None:
        """Notes about a recovery are not progress."""
        await kit.open().create(new_session())
        for count in range(3):
            store = kit.open()
            writer = await acquire(store, ttl_s=60.0)
            assert writer.committed.takeovers == count
            assert (await writer.write(head=HeadChange(progress=False))).takeovers == count
            store.abandon()
        last = await acquire(kit.open())
        assert last.committed.takeovers == 3
        assert (await last.write()).takeovers == 0
        assert (await head_of(last.store)).takeovers == 0

    @promise
    async def test_the_owner_may_take_its_own_lease_again(self, kit: StoreKit) -> None:
        """A new epoch fences the old one, and it is no takeover."""
        store = kit.open()
        first = await begin(store)
        again = await acquire(store, token=b"a second token")
        assert (again.committed.epoch, again.committed.takeovers) == (2, 0)
        with raises(SessionFencedError):
            await first.write()

    @promise
    async def test_of_two_that_acquire_at_once_one_wins(self, kit: StoreKit) -> None:
        """The others have written nothing."""
        clients = [kit.open() for _ in range(4)]
        await clients[0].create(new_session())
        outcomes = await asyncio.gather(
            *(acquire(store, token=bytes([n]) * 16, expect=1) for n, store in enumerate(clients)),
            return_exceptions=True,
        )
        lost = [one for one in outcomes if isinstance(one, SessionBusyError | SessionMovedError)]
        assert len(lost) == 3
        assert len(await texts(clients[0])) == 2


class RenewalPromises(StoreMaker):
    """A heartbeat keeps an owner alive, from wherever it beats."""

    @promise
    async def test_renewal_keeps_every_lease_and_answers_what_it_saw(self, kit: StoreKit) -> None:
        """One call for all; a shorter renewal takes nothing away."""
        holder, other = kit.open(), kit.open()
        for name in ("a", "b"):
            await begin(holder, name, ttl_s=1.0)
        assert await holder.renew(["a", "b", "nobody"], 100.0) == {"a": (1, 0), "b": (1, 0)}
        assert (await head_of(other, "a")).expires_in_s > 90
        assert (await head_of(other, "b")).expires_in_s > 90
        assert await holder.renew([], 1.0) == {}
        assert (await head_of(other, "b")).expires_in_s > 80

    @promise
    async def test_renewal_works_from_a_loop_in_another_thread(self, kit: StoreKit) -> None:
        """While the store's own loop is writing."""
        holder, other = kit.open(), kit.open()
        writer = await begin(holder, ttl_s=1.0)
        seen: list[object] = []

        def beat() -> None:
            seen.append(asyncio.run(_beats(holder)))

        thread = threading.Thread(target=beat)
        thread.start()
        for _ in range(20):
            await writer.write(sync=True)
        await asyncio.get_running_loop().run_in_executor(None, thread.join, DEADLINE_S)
        assert seen == [{"s": (1, 0)}]
        assert (await head_of(other)).expires_in_s > 90

    @promise
    async def test_closing_gives_the_leases_back_without_a_takeover(self, kit: StoreKit) -> None:
        """However long they would have lived."""
        holder, other = kit.open(), kit.open()
        await begin(holder, ttl_s=3600.0)
        await holder.aclose()
        head = await head_of(other)
        assert (head.owner, head.expires_in_s) == (None, 0)
        assert (await acquire(other)).committed.takeovers == 0

    @promise
    async def test_identity_is_of_the_data_and_owner_of_the_object(self, kit: StoreKit) -> None:
        """Actors are keyed by identity, leases by owner."""
        first, second = kit.open(), kit.open()
        assert first.identity == second.identity
        assert first.owner != second.owner
        with self.place() as elsewhere:
            third = self.make_store(elsewhere)
            assert third.identity != first.identity
            await third.aclose()

    @promise
    async def test_a_call_from_another_event_loop_is_refused(self, kit: StoreKit) -> None:
        """And the store stays usable on its own."""
        store = kit.open()
        await begin(store)

        def elsewhere() -> None:
            with raises(UsageError):
                asyncio.run(head_of(store))

        await asyncio.get_running_loop().run_in_executor(None, elsewhere)
        assert (await head_of(store)).position == 2


async def _beats(store: SessionStore) -> dict[str, tuple[int, int]]:
    answer: dict[str, tuple[int, int]] = {}
    for _ in range(10):
        answer = await store.renew(["s"], 100.0)
    return answer
