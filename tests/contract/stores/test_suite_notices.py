"""The suite can fail: stores that break one promise each do not pass the test of that promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from loopwright.model.errors import LoopwrightError
from loopwright.ports.board import LONGEST_ENTRY, MOST_ENTRIES, BoardChange, BoardEntry, BoardPolicy, BoardPost
from loopwright.ports.store import (
    Acquire,
    Claimable,
    ClaimQuery,
    Committed,
    DropTimer,
    Enqueued,
    InboxItem,
    Lease,
    Op,
    StoredRecord,
    Transition,
)
from loopwright.ports.store_admin import SessionStore
from loopwright.stores import ownership
from loopwright.stores.memory import MemoryStore
from loopwright.testing.store_suite import ForkingStoreSuite, StoreSuite


class ForgetsTheFence(MemoryStore):
    """Any lease will do."""

    async def commit(self, transition: Transition) -> Committed:  # type: ignore[override]
        if isinstance(transition.lease, Lease):
            head = (await self.lookup(transition.session_id)).head
            token = self._data.sessions[transition.session_id].token or b"0123456789abcdef"
            transition = structs.replace(transition, lease=Lease(head.epoch, token))
        return await super().commit(transition)


class KeepsHalf(MemoryStore):
    """Writes the records first and looks at the operations afterwards."""

    async def commit(self, transition: Transition) -> Committed:  # type: ignore[override]
        done = await super().commit(structs.replace(transition, ops=(), release=False))
        if transition.ops:
            lease = Lease(done.epoch, transition.lease.token)
            rest = structs.replace(transition, records=(), expect=done.position, lease=lease, if_inbox=None)
            done = await super().commit(rest)
        return done


class ForgetsTakenIds(MemoryStore):
    """An item that was taken may come again."""

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        data = self._data.sessions.get(session_id)
        if item is not None and data is not None and data.positions.get(item.item_id, -1) >= 0:
            del data.positions[item.item_id]
        return super().enqueue(session_id, item, ops)


class LosesTheInboxCondition(MemoryStore):
    """Finishes though an item came."""

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        return super().commit(structs.replace(transition, if_inbox=None))


class TakesFromTheLiving(MemoryStore):
    """Whoever asks gets the lease."""

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        data = self._data.sessions.get(transition.session_id)
        if data is not None and isinstance(transition.lease, Acquire):
            data.head = structs.replace(data.head, owner=None)
        return super().commit(transition)


class WaitsForTheDead(MemoryStore):
    """A killed process blocks its sessions until its lease expires."""

    def abandon(self) -> None:
        super().abandon()
        ownership._abandoned.discard(self.owner)


class ClaimsEverything(MemoryStore):
    """Does not ask which agents the process knows."""

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        every = {data.head.agent_name for data in self._data.sessions.values()}
        return super().claim(structs.replace(query, agent_names=tuple(every)))


class CutsBodies(MemoryStore):
    """Text ends at the first NUL."""

    async def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[StoredRecord]:  # type: ignore[override]
        found = await super().read(session_id, after=after, limit=limit)
        return [structs.replace(one, body=one.body.split(b"\0")[0]) for one in found]


class DeletesUnderForks(MemoryStore):
    """Lets a base go, and its forks keep what is left."""

    def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> Awaitable[int]:
        for data in self._data.sessions.values():
            if data.head.base is not None and data.head.base.session_id == session_id:
                data.head = structs.replace(data.head, base=None)
        return super().delete(session_id, cascade=cascade, copy_to_forks=copy_to_forks)


class ForgetsTheArtifacts(MemoryStore):
    """Forks get the records of a base that goes, and not what they refer to."""

    async def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> int:  # type: ignore[override]
        count = await super().delete(session_id, cascade=cascade, copy_to_forks=copy_to_forks)
        self._data.artifacts.clear()
        return count


class FiresWhatWasArmedAnew(MemoryStore):
    """Drops a timer whatever its time is by now."""

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        blind = tuple(DropTimer(op.timer_id) if isinstance(op, DropTimer) else op for op in ops)
        return super().enqueue(session_id, item, blind)


class WakesNobody(MemoryStore):
    """What waits for a person waits for everything."""

    async def claim(self, query: ClaimQuery) -> Claimable:  # type: ignore[override]
        found = await super().claim(query)
        return structs.replace(found, interrupted=tuple(h for h in found.interrupted if h.status != "waiting"))


class CountsWhatIsNoItem(MemoryStore):
    """Operations come with an empty item of their own."""

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        return super().enqueue(session_id, item or InboxItem(repr(ops), "timer", b"", 0.0), ops)


class SleepsForStrangers(MemoryStore):
    """Says when any timer will be due, whoever's it is."""

    async def claim(self, query: ClaimQuery) -> Claimable:  # type: ignore[override]
        later = [one.due_at for data in self._data.sessions.values() for one in data.armed() if one.due_at > query.now]
        return structs.replace(await super().claim(query), next_timer_at=min(later, default=None))


class ChangesUnseen(MemoryStore):
    """The last one to write is right."""

    async def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> BoardEntry:  # type: ignore[override]
        for entry in await self.read_board(change.board_id):
            if entry.entry_id == change.entry_id:
                change = structs.replace(change, version=entry.version)
        return await super().update_entry(change, policy)


class KnowsNoBounds(MemoryStore):
    """There is always room."""

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        return super().post_entry(post, BoardPolicy(max_entries=MOST_ENTRIES, max_chars=LONGEST_ENTRY))


class PostsAgain(MemoryStore):
    """A key says nothing."""

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        return super().post_entry(structs.replace(post, key=""), policy)


BROKEN: list[tuple[type[MemoryStore], Callable[[ForkingStoreSuite], None]]] = [
    (ForgetsTheFence, StoreSuite.test_epoch_and_token_must_both_match),
    (KeepsHalf, StoreSuite.test_a_refused_transition_leaves_no_trace_of_any_part),
    (ForgetsTakenIds, StoreSuite.test_a_known_id_is_a_duplicate_for_life),
    (LosesTheInboxCondition, StoreSuite.test_an_item_and_the_end_of_a_send_never_miss_each_other),
    (TakesFromTheLiving, StoreSuite.test_a_live_holder_keeps_others_out_before_they_write),
    (WaitsForTheDead, StoreSuite.test_an_abandoned_holder_is_dead_at_once),
    (ClaimsEverything, StoreSuite.test_claiming_is_limited_to_known_agents_and_formats_oldest_first),
    (DeletesUnderForks, ForkingStoreSuite.test_a_session_with_forks_is_not_deleted_until_they_are),
    (
        ForgetsTheArtifacts,
        ForkingStoreSuite.test_an_artifact_that_a_fork_reads_of_lives_as_long_as_one_of_its_readers,
    ),
    (FiresWhatWasArmedAnew, StoreSuite.test_a_timer_armed_anew_since_it_was_found_neither_fires_nor_is_lost),
    (WakesNobody, StoreSuite.test_a_waiting_session_is_claimable_once_something_wakes_it),
    (CountsWhatIsNoItem, StoreSuite.test_operations_without_an_item_leave_the_inbox_as_it_is),
    (SleepsForStrangers, StoreSuite.test_who_asks_for_timers_alone_gets_nothing_else),
    (ChangesUnseen, StoreSuite.test_a_change_counts_only_for_what_was_seen),
    (KnowsNoBounds, StoreSuite.test_a_board_never_holds_more_than_its_bound),
    (PostsAgain, StoreSuite.test_what_is_tried_again_is_done_once),
    (CutsBodies, StoreSuite.test_bodies_of_any_size_and_bytes_come_back_as_they_were),
]


@pytest.mark.parametrize("broken, promise", BROKEN)
def test_a_store_that_breaks_a_promise_does_not_pass(
    broken: type[MemoryStore], promise: Callable[[ForkingStoreSuite], None]
) -> None:
    class Suite(ForkingStoreSuite):
        def make_store(self, place: Path) -> SessionStore:
            return broken(str(place))

    with pytest.raises((AssertionError, LoopwrightError)):
        promise(Suite())
