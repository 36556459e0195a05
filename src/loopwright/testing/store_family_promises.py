"""Promises of a store about children, timers, deletion and claiming.

Owns: tests of the operations on sessions and timers, `delete`, `claim`, `list`. Must not know: any store.
Read next: `store_reading_promises.py`.
"""

from __future__ import annotations

import asyncio

from ..model.errors import SessionExistsError, SessionGoneError, SessionMovedError, SessionNotFoundError
from ..ports.store import CreateSession, DropSession, DropTimer, HeadChange, PutItem, PutTimer, SessionQuery, TakeItems
from .store_kit import (
    IDLE,
    StoreKit,
    Writer,
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


class FamilyPromises:
    """Children come and go with transitions; the deleted stay deleted."""

    @promise
    async def test_a_child_is_made_with_the_transition_that_wants_it(self, kit: StoreKit) -> None:
        """Making it again is ignored."""
        store = kit.open()
        writer = await begin(store)
        child = new_session("child", parent_id="s", lifecycle="ephemeral", records=records(3))
        await writer.apply(CreateSession(child), PutItem("child", item()))
        await writer.apply(CreateSession(new_session("child", records=())))
        found = await store.lookup("child")
        assert (found.head.position, found.head.parent_id, found.head.lifecycle) == (3, "s", "ephemeral")
        assert len(found.waiting) == 1
        assert len(await texts(store, "child")) == 3

    @promise
    async def test_an_ephemeral_child_is_dropped_with_a_transition(self, kit: StoreKit) -> None:
        """Its writer is fenced, its id is never used again."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        await writer.apply(CreateSession(new_session("child", parent_id="s", lifecycle="ephemeral")))
        child = await acquire(other, "child")
        await writer.apply(DropSession("child"))
        await writer.apply(DropSession("child"), DropSession("nobody"))
        with raises(SessionGoneError):
            await child.write()
        with raises(SessionGoneError):
            await store.read("child")
        with raises(SessionExistsError):
            await store.create(new_session("child"))
        await writer.apply(CreateSession(new_session("child")), PutItem("child", item()))
        with raises(SessionGoneError):
            await store.lookup("child")

    @promise
    async def test_deletion_fences_the_writer_and_never_frees_the_id(self, kit: StoreKit) -> None:
        """Nothing of the session can be reached any more."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        await writer.apply(PutTimer("t", 1.0, b"{}"))
        await other.enqueue("s", item())
        artifact = await other.put_artifact("s", b"large", "text/plain")
        assert await other.delete("s") == 1
        with raises(SessionGoneError):
            await writer.write()
        with raises(SessionGoneError):
            await acquire(other)
        with raises(SessionGoneError):
            await other.delete("s")
        with raises(SessionExistsError):
            await store.create(new_session())
        assert list(await store.list(SessionQuery())) == []
        assert (await store.claim(work(now=9.0))).timers == ()
        assert await store.artifact(artifact.artifact_id) is None
        assert list(await store.check()) == []
        with raises(SessionNotFoundError):
            await store.delete("nobody")

    @promise
    async def test_deletion_takes_the_family_and_leaves_the_detached(self, kit: StoreKit) -> None:
        """Those lose their parent."""
        store = kit.open()
        await store.create(new_session("root"))
        for name, parent, lifecycle in (
            ("linked", "root", "linked"),
            ("deep", "linked", "ephemeral"),
            ("free", "linked", "detached"),
            ("below-free", "free", "linked"),
        ):
            await store.create(new_session(name, parent_id=parent, lifecycle=lifecycle))
        assert await store.delete("root") == 3
        for gone in ("root", "linked", "deep"):
            with raises(SessionGoneError):
                await store.lookup(gone)
        assert (await head_of(store, "free")).parent_id is None
        assert (await head_of(store, "below-free")).parent_id == "free"
        assert await store.delete("free", cascade=False) == 1
        assert (await head_of(store, "below-free")).parent_id is None

    @promise
    async def test_a_long_journal_is_deleted_while_others_write(self, kit: StoreKit) -> None:
        """Deleting goes in batches."""
        store = kit.open()
        writer = await begin(store, "long")
        for _ in range(3):
            await writer.write(1_000)
        neighbour = await begin(store, "neighbour")
        deleting = asyncio.ensure_future(store.delete("long"))
        for _ in range(20):
            await neighbour.write()
        assert await deleting == 1
        assert len(await texts(store, "neighbour")) == 22
        assert list(await store.check()) == []

    @promise
    async def test_timers_are_armed_moved_and_dropped_with_transitions(self, kit: StoreKit) -> None:
        """Due ones are found oldest first."""
        store = kit.open()
        writer = await begin(store)
        await writer.apply(PutTimer("a", 5.0, b"a"), PutTimer("b", 3.0, b"b"), PutTimer("c", 50.0, b"c"))
        due = (await store.claim(work(now=10.0))).timers
        assert [(one.session_id, one.timer_id, one.due_at, one.body) for one in due] == [
            ("s", "b", 3.0, b"b"),
            ("s", "a", 5.0, b"a"),
        ]
        await writer.apply(PutTimer("a", 60.0, b"later"), DropTimer("b"), DropTimer("never"))
        assert (await store.claim(work(now=10.0))).timers == ()
        assert [one.body for one in (await store.claim(work(now=99.0))).timers] == [b"c", b"later"]
        assert len((await store.claim(work(now=99.0, limit=1))).timers) == 1
        assert (await store.claim(work("other", now=99.0))).timers == ()


class ClaimPromises:
    """What nobody alive is doing can be found, oldest first."""

    @promise
    async def test_work_is_claimable_when_nobody_alive_does_it(self, kit: StoreKit) -> None:
        """Running and free, or idle with something to do."""
        store, dead = kit.open(), kit.open()
        await begin(store, "running-and-held")
        await begin(dead, "held-by-the-dead", ttl_s=3600.0)
        released = await begin(store, "running-and-free")
        await released.write(release=True)
        await _finish(await begin(store, "idle"))
        await _finish(await begin(store, "idle-with-item"))
        await store.enqueue("idle-with-item", item())
        waiting = await begin(store, "waiting-with-item")
        await waiting.write(head=HeadChange(status="waiting"), release=True)
        await store.enqueue("waiting-with-item", item())
        dead.abandon()
        found = (await store.claim(work())).interrupted
        assert {head.session_id for head in found} == {"held-by-the-dead", "running-and-free", "idle-with-item"}
        assert all(head.expires_in_s == 0 for head in found)

    @promise
    async def test_claiming_is_limited_to_known_agents_and_formats_oldest_first(self, kit: StoreKit) -> None:
        """What this process cannot run is left to others."""
        store = kit.open()
        for n, name in enumerate(("c", "a", "b")):
            await store.create(new_session(name, at=float(n), records=()))
            writer = await acquire(store, name, records=(record(at=100.0 - n),))
            await writer.write(records=(), release=True)
        await store.create(new_session("foreign", agent_name="other"))
        await store.create(new_session("newer", min_format=2))
        for name in ("foreign", "newer"):
            await store.enqueue(name, item())
        assert [head.session_id for head in (await store.claim(work())).interrupted] == ["b", "a", "c"]
        assert [head.session_id for head in (await store.claim(work(limit=2))).interrupted] == ["b", "a"]
        both = await store.claim(work("default", "other", max_format=2))
        assert len(both.interrupted) == 5
        assert (await store.claim(work("nobody"))).interrupted == ()

    @promise
    async def test_nothing_is_locked_by_claiming_and_the_first_commit_decides(self, kit: StoreKit) -> None:
        """Two may claim the same."""
        one, two = kit.open(), kit.open()
        writer = await begin(one)
        await writer.write(release=True)
        for store in (one, two):
            assert len((await store.claim(work())).interrupted) == 1
        await acquire(two)
        assert (await one.claim(work())).interrupted == ()

    @promise
    async def test_sessions_are_listed_newest_first_and_page_by_page(self, kit: StoreKit) -> None:
        """Each filter, and all pages together are the whole."""
        store = kit.open()
        for n in range(7):
            agent = "odd" if n % 2 else "even"
            await store.create(new_session(f"s{n}", at=float(n), agent_name=agent, parent_id="s0" if n > 4 else None))
        pages: list[list[str]] = []
        before: float | None = None
        while page := list(await store.list(SessionQuery(limit=3, before=before))):
            pages.append([head.session_id for head in page])
            before = page[-1].updated_at
        assert pages == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]
        await store.enqueue("s1", item(at=50.0))
        names = [head.session_id for head in await store.list(SessionQuery(agent_names=("odd",)))]
        assert names == ["s1", "s5", "s3"]
        assert [head.session_id for head in await store.list(SessionQuery(parent_id="s0"))] == ["s6", "s5"]
        await acquire(store, "s3")
        assert [head.session_id for head in await store.list(SessionQuery(status="running"))] == ["s3"]
        assert list(await store.list(SessionQuery(agent_names=()))) == []

    @promise
    async def test_taking_what_was_claimed_twice_is_moved(self, kit: StoreKit) -> None:
        """The second of two claimers writes nothing."""
        one, two = kit.open(), kit.open()
        await one.create(new_session())
        await one.enqueue("s", item("x"))
        await acquire(one, expect=1, ops=(TakeItems(("x",)),), release=True)
        with raises(SessionMovedError):
            await acquire(two, expect=1, ops=(TakeItems(("x",)),))


async def _finish(writer: Writer) -> None:
    await writer.write(head=IDLE, release=True)
