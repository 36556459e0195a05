"""Promises of a store about forks: sessions that read the beginning of their journal from another one.

Owns: tests of `NewSession.base`, of deletion with forks, of figures and transfer of forks. Must not know: any store.
Read next: `ports/store.py` (`ForkPoint`), `store_family_promises.py`.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import structs

from ..model.archive_errors import SessionReferencedError
from ..model.errors import SessionExistsError, SessionGoneError, SessionMovedError, SessionNotFoundError
from ..model.usage import NO_USAGE
from ..ports.store import CreateSession, DropSession, EncodedRecord, ForkPoint, NewSession, SessionQuery
from ..ports.store_admin import SessionStore
from ..ports.store_transfer import SessionImage
from .store_kit import StoreKit, StoreMaker, acquire, begin, head_of, item, new_session, promise, raises, record, texts

FUTURE = 4e9


def fork_of(base_id: str, position: int, session_id: str = "f", **fields: object) -> NewSession:
    """A fork with one record of its own."""
    return new_session(session_id, base=ForkPoint(base_id, position), records=(record(f"fork {session_id}"),), **fields)


async def grown(store: SessionStore, session_id: str = "s", *, count: int = 4) -> list[bytes]:
    """A session of `count` records that differ, nobody's."""
    rows = tuple(record(f"{session_id} {n}") for n in range(count))
    await store.create(new_session(session_id, records=rows))
    return [row.body for row in rows]


async def holding(store: SessionStore, session_id: str = "s") -> str:
    """A session whose second record, of three, names an artifact; answers the artifact's id."""
    await store.create(new_session(session_id))
    artifact_id = (await store.put_artifact(session_id, b"large", "text/plain")).artifact_id
    writer = await acquire(store, session_id, records=(record(artifact_id),))
    await writer.write(release=True)
    return artifact_id


class ForkReadingPromises(StoreMaker):
    """A fork has the base's records and then its own; the base does not notice."""

    fork_chain: ClassVar[int]
    """See `StoreMaker.fork_chain`."""

    @promise
    async def test_a_fork_reads_its_base_up_to_the_fork_and_then_itself(self, kit: StoreKit) -> None:
        """In pages too, whichever side of the edge they begin and end on."""
        store, other = kit.open(), kit.open()
        rows = await grown(store)
        head = await store.create(fork_of("s", 3))
        assert (head.position, head.base) == (4, ForkPoint("s", 3))
        assert head == await head_of(other, "f")
        whole = [*rows[:3], record("fork f").body]
        assert await texts(other, "f") == whole
        for after in range(6):
            for limit in range(6):
                page = await other.read("f", after=after, limit=limit)
                assert [row.body for row in page] == whole[after : after + limit], (after, limit)
                assert [row.position for row in page] == list(range(4))[after : after + limit]
        assert await texts(other) == rows

    @promise
    async def test_base_and_fork_go_on_without_each_other(self, kit: StoreKit) -> None:
        """Also when a living process runs the base."""
        store, other = kit.open(), kit.open()
        base = await begin(store)
        await base.write(3)
        await other.create(fork_of("s", 3))
        await base.write(2)
        fork = await acquire(other, "f", records=(record("said in the fork"),))
        await base.write(2)
        assert fork.position == 5
        assert [row.body for row in await store.read("f", after=3)] == [
            record("fork f").body,
            record("said in the fork").body,
        ]
        assert (await texts(store, "f"))[:3] == (await texts(store))[:3]
        assert (await head_of(store, "s")).epoch == base.lease.epoch
        assert list(await store.check()) == []

    @promise
    async def test_a_fork_may_begin_its_window_in_its_base(self, kit: StoreKit) -> None:
        """What it is made with is what its head says, in every process."""
        store, other = kit.open(), kit.open()
        rows = await grown(store)
        made = await store.create(fork_of("s", 4, window_start=2, checkpoint=3))
        for head in (made, await head_of(other, "f")):
            assert (head.window_start, head.checkpoint, head.position) == (2, 3, 5)
        assert [row.body for row in await other.read("f", after=made.window_start)][:2] == rows[2:]

    @promise
    async def test_a_fork_has_nothing_but_the_records(self, kit: StoreKit) -> None:
        """Inbox, known ids, lease and totals are its own."""
        store = kit.open()
        base = await begin(store)
        await store.enqueue("s", item("known"))
        await store.create(fork_of("s", 2, title="mine"))
        found = await store.lookup("f", item_id="known")
        head = found.head
        assert (found.waiting, found.item_position) == ((), None)
        assert (head.status, head.owner, head.epoch, head.inbox_seq, head.takeovers) == ("idle", None, 0, 0, 0)
        assert (head.sends, head.usage, head.title, head.window_start) == (0, NO_USAGE, "mine", 0)
        assert not (await store.enqueue("f", item("known"))).duplicate
        assert base.position == (await head_of(store)).position

    @promise
    async def test_a_fork_of_a_fork_reads_each_part_where_it_is(self, kit: StoreKit) -> None:
        """One that adds nothing to the chain is passed over; long chains read whole."""
        store = kit.open()
        rows = await grown(store)
        await store.create(fork_of("s", 3, "one"))
        await store.create(fork_of("one", 4, "two"))
        passing = await store.create(fork_of("two", 2, "short"))
        assert passing.base == ForkPoint("s", 2)
        assert (await store.create(fork_of("two", 4, "level"))).base == ForkPoint("one", 4)
        own = [record(f"fork {name}").body for name in ("one", "two")]
        assert await texts(store, "two") == [*rows[:3], *own]
        assert await texts(store, "short") == [*rows[:2], record("fork short").body]
        newest = "two"
        for n in range(self.fork_chain):
            await store.create(fork_of(newest, 5 + n, f"link-{n}"))
            newest = f"link-{n}"
        assert len(await texts(store, newest)) == self.fork_chain + 5
        late = self.fork_chain - 100
        assert [row.position for row in await store.read(newest, after=late, limit=50)] == list(range(late, late + 50))
        assert list(await store.check()) == []

    @promise
    async def test_what_cannot_be_a_base_is_refused_and_nothing_is_stored(self, kit: StoreKit) -> None:
        """Unknown, deleted, shorter than the fork."""
        store = kit.open()
        await grown(store)
        await grown(store, "gone")
        await store.delete("gone")
        with raises(SessionNotFoundError):
            await store.create(fork_of("nobody", 1))
        with raises(SessionGoneError) as caught:
            await store.create(fork_of("gone", 1))
        assert caught.error.session_id == "gone"
        for position in (0, 5):
            with raises(SessionMovedError):
                await store.create(fork_of("s", position))
        with raises(SessionNotFoundError):
            await store.lookup("f")
        await store.create(fork_of("s", 4))
        with raises(SessionExistsError):
            await store.create(fork_of("s", 4))

    @promise
    async def test_a_child_may_be_a_fork_and_its_transition_is_whole(self, kit: StoreKit) -> None:
        """A base that is gone refuses all of it."""
        store = kit.open()
        rows = await grown(store)
        writer = await begin(store, "parent")
        await writer.apply(CreateSession(fork_of("s", 2, parent_id="parent", lifecycle="ephemeral")))
        assert (await texts(store, "f"))[:2] == rows[:2]
        await store.create(fork_of("f", 3, "reader"))
        before = await texts(store, "parent")
        with raises(SessionReferencedError):
            await writer.apply(DropSession("f"))
        with raises(SessionNotFoundError):
            await writer.apply(CreateSession(fork_of("nobody", 1, "g")))
        assert await texts(store, "parent") == before
        await store.delete("reader")
        await writer.apply(DropSession("f"))
        assert await store.delete("s") == 1

    @promise
    async def test_a_fork_is_there_whole_after_its_process_was_killed(self, kit: StoreKit) -> None:
        """It is one commit."""
        store = kit.open()
        rows = await grown(store)
        await store.create(fork_of("s", 2))
        store.abandon()
        later = kit.open()
        assert await texts(later, "f") == [*rows[:2], record("fork f").body]


class ForkDeletionPromises:
    """A fork never loses its beginning."""

    @promise
    async def test_a_session_with_forks_is_not_deleted_until_they_are(self, kit: StoreKit) -> None:
        """Its writer is not fenced by the attempt."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        await store.create(fork_of("s", 2, "b"))
        await store.create(fork_of("s", 1, "a"))
        with raises(SessionReferencedError) as caught:
            await other.delete("s")
        assert (caught.error.session_id, caught.error.forks) == ("s", ("a", "b"))
        await writer.write()
        assert await other.delete("a") == 1
        with raises(SessionReferencedError):
            await other.delete("s")
        assert await other.delete("b") == 1
        assert await other.delete("s") == 1
        assert (await store.figures()).records == 0
        assert list(await store.check()) == []

    @promise
    async def test_forks_of_descendants_count_and_those_that_go_as_well_do_not(self, kit: StoreKit) -> None:
        """Nothing of a family goes while one of it is read from outside; detached children keep their parent then."""
        store = kit.open()
        await grown(store, "root")
        await grown(store, "elsewhere")
        await store.create(new_session("child", parent_id="root"))
        await store.create(new_session("free", parent_id="root", lifecycle="detached"))
        await store.create(fork_of("child", 1, "inside", parent_id="root"))
        await store.create(fork_of("inside", 2, "outside"))
        with raises(SessionReferencedError) as caught:
            await store.delete("root")
        assert caught.error.forks == ("outside",)
        assert (await head_of(store, "free")).parent_id == "root"
        assert (await head_of(store, "child")).position == 1
        whole = await texts(store, "outside")
        assert await store.delete("root", copy_to_forks=True) == 3
        assert (await head_of(store, "outside")).base is None
        assert await texts(store, "outside") == whole
        assert list(await store.check()) == []

    @promise
    async def test_forks_get_what_they_read_when_it_is_asked_for(self, kit: StoreKit) -> None:
        """Each of them all of it; what the base itself read stays where it is."""
        store, other = kit.open(), kit.open()
        await grown(store)
        await store.create(fork_of("s", 3, "middle"))
        running = await acquire(other, "middle")
        await running.write(2)
        await store.create(fork_of("middle", 5, "a"))
        await store.create(fork_of("middle", 4, "b"))
        before = {name: await texts(store, name) for name in ("a", "b")}
        assert await store.delete("middle", copy_to_forks=True) == 1
        for name, whole in before.items():
            assert (await head_of(other, name)).base == ForkPoint("s", 3)
            assert await texts(other, name) == whole
        with raises(SessionGoneError):
            await running.write()
        assert await store.delete("s", copy_to_forks=True) == 1
        for name, whole in before.items():
            assert (await head_of(other, name)).base is None
            assert await texts(other, name) == whole
            assert (await acquire(other, name)).position == len(whole) + 1
        assert list(await store.check()) == []

    @promise
    async def test_an_artifact_that_a_fork_reads_of_lives_as_long_as_one_of_its_readers(self, kit: StoreKit) -> None:
        """And goes with the last of them."""
        store = kit.open()
        artifact_id = await holding(store)
        await store.create(fork_of("s", 2, "a"))
        await store.create(fork_of("s", 3, "b"))
        await store.create(fork_of("s", 1, "c"))
        await store.delete("s", copy_to_forks=True)
        for name in ("a", "b"):
            assert [one.artifact_id for one in (await store.inventory(name)).artifacts] == [artifact_id]
            assert await store.sweep_artifacts(FUTURE) == 0
            assert await store.read_artifact(artifact_id) == b"large"
            await store.delete(name)
        assert (await store.inventory("c")).artifacts == ()
        assert await store.artifact(artifact_id) is None

    @promise
    async def test_forking_and_deleting_at_once_never_leaves_a_fork_without_its_beginning(self, kit: StoreKit) -> None:
        """One of the two gets a typed error."""
        store, other = kit.open(), kit.open()
        for n in range(20):
            base = f"s-{n}"
            rows = await grown(store, base)
            made, gone = await asyncio.gather(
                store.create(fork_of(base, 3, f"f-{n}")), other.delete(base), return_exceptions=True
            )
            if isinstance(made, SessionGoneError):
                assert gone == 1
                continue
            assert isinstance(gone, SessionReferencedError), (made, gone)
            assert (await texts(other, f"f-{n}"))[:3] == rows[:3]
        assert list(await store.check()) == []


class ForkTransferPromises(StoreMaker):
    """What operators see of forks."""

    @promise
    async def test_figures_and_sizes_count_a_forks_own_records_alone(self, kit: StoreKit) -> None:
        """And say how many forks there are."""
        store = kit.open()
        rows = await grown(store)
        await store.create(fork_of("s", 3))
        sizes = await store.session_sizes()
        given = {"s": sum(map(len, rows)), "f": len(record("fork f").body)}
        grows = self.adds_bytes and all(sizes[name] > given[name] for name in given)
        assert sizes == given or (grows and sizes["f"] < sizes["s"])
        figures = await store.figures()
        assert (figures.forks, figures.records) == (1, 5)
        assert {head.session_id: head.base for head in await store.list(SessionQuery())} == {
            "s": None,
            "f": ForkPoint("s", 3),
        }

    @promise
    async def test_a_fork_that_is_taken_out_comes_in_as_a_session_of_its_own(self, kit: StoreKit) -> None:
        """Beside its base too: they then hold the base's artifact both, until the last of them goes."""
        store = kit.open()
        artifact_id = await holding(store)
        await store.create(fork_of("s", 2))
        whole = await store.inventory("f")
        assert [one.artifact_id for one in whole.artifacts] == [artifact_id]
        rows = tuple(_as_new(row.kind, row.body) for row in await store.read("f"))
        copy = structs.replace(whole, head=structs.replace(whole.head, session_id="copy"))
        head = await store.restore(SessionImage(copy, rows, (b"large",)))
        assert (head.base, head.position) == (None, 3)
        assert [row.body for row in await store.read("copy")] == [row.body for row in rows]
        await store.delete("f")
        await store.delete("s")
        assert await store.sweep_artifacts(FUTURE) == 0
        assert await store.read_artifact(artifact_id) == b"large"
        await store.delete("copy")
        assert await store.artifact(artifact_id) is None
        assert list(await store.check()) == []


def _as_new(kind: str, body: bytes) -> EncodedRecord:
    return structs.replace(record(kind=kind), body=body)


class ForkPromises(ForkReadingPromises, ForkDeletionPromises, ForkTransferPromises):
    """All of them, for stores that have forks."""
