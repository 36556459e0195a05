"""Promises of a store about its upkeep, and about whole sessions that leave it and come in.

Owns: tests of `StoreUpkeep` and `StoreTransfer`. Must not know: any store.
Read next: `store_cancel_promises.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time

from msgspec import structs

from ..model.errors import ConfigError, SessionExistsError, SessionFencedError, SessionGoneError, SessionNotFoundError
from ..model.usage import Usage
from ..ports.artifact import Artifact
from ..ports.store import EncodedRecord, Head, InboxItem, MarkItem, PutTimer, SessionQuery, TakeItems
from ..ports.store_admin import SessionStore
from ..ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer
from .store_kit import (
    StoreKit,
    StoreMaker,
    acquire,
    begin,
    head_of,
    item,
    new_session,
    promise,
    raises,
    record,
    texts,
    work,
)

FUTURE = 4_000_000_000.0
"""Later than anything that a test stores."""


class UpkeepPromises(StoreMaker):
    """Figures are true, and upkeep takes nothing that is needed."""

    @promise
    async def test_figures_count_what_is_there(self, kit: StoreKit) -> None:
        """Records, inbox, timers, artifacts and tombstones."""
        store = kit.open()
        await store.create(new_session("gone"))
        await store.delete("gone")
        writer = await begin(store)
        await store.enqueue("s", item("a"))
        await store.enqueue("s", item("b"))
        await writer.apply(TakeItems(("a",)), MarkItem("m"), PutTimer("t", 5.0, b"{}"))
        await store.put_artifact("s", b"x" * 1000, "text/plain")
        found = await kit.open().figures()
        assert found.records == writer.position
        given = sum(len(body) for body in await texts(store)), 1000, len(item().body)
        records, artifacts = found.record_bytes, found.artifact_bytes
        assert (found.waiting_items, found.known_items, found.timers, found.paused_timers) == (1, 2, 1, 0)
        assert (found.artifacts, found.tombstones) == (1, 1)
        sizes = await store.session_sizes()
        assert list(sizes) == ["s"]
        kept = records, artifacts, sizes["s"] - records - artifacts
        assert kept == given or (self.adds_bytes and all(k > g for k, g in zip(kept, given, strict=True)))

    @promise
    async def test_an_unreferenced_artifact_is_swept_when_it_is_old(self, kit: StoreKit) -> None:
        """What a record, a waiting item or a timer names stays, whatever its age."""
        store = kit.open()
        writer = await begin(store)
        kept = [await store.put_artifact("s", name.encode(), "text/plain") for name in ("record", "item", "timer")]
        lost = await store.put_artifact("s", b"lost" * 200_000, "text/plain")
        await writer.write(records=(record(f"see {kept[0].artifact_id}"),))
        await store.enqueue("s", item(body=f'{{"artifact_id":"{kept[1].artifact_id}"}}'.encode()))
        await writer.apply(PutTimer("t", 5.0, kept[2].artifact_id.encode()))
        assert await store.sweep_artifacts(time.time() - 3600) == 0
        assert await store.artifact(lost.artifact_id) == lost
        assert await store.sweep_artifacts(FUTURE) == 1
        assert await store.artifact(lost.artifact_id) is None
        assert await store.read_artifact(lost.artifact_id) == b""
        for one in kept:
            assert await store.artifact(one.artifact_id) == one
        assert await store.sweep_artifacts(FUTURE) == 0
        assert await store.put_artifact("s", b"lost" * 200_000, "text/plain") == lost
        assert await store.read_artifact(lost.artifact_id, offset=799_996) == b"lost"
        assert list(await store.check()) == []

    @promise
    async def test_upkeep_while_others_write_loses_nothing(self, kit: StoreKit) -> None:
        """Vacuum and checkpoint between the commits of another client."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        for n in range(20):
            await store.create(new_session(f"gone-{n}", records=tuple(record("x" * 500) for _ in range(20))))
            await store.delete(f"gone-{n}")
        done = asyncio.Event()

        async def write() -> None:
            for _ in range(40):
                await writer.write(3)
            done.set()

        writing = asyncio.ensure_future(write())
        sizes = [await other.vacuum(), await other.checkpoint()]
        await writing
        assert all(one.before >= 0 and one.after >= 0 for one in sizes)
        assert len(await texts(other)) == writer.position
        assert list(await other.check()) == []
        with raises(SessionGoneError):
            await other.lookup("gone-3")

    @promise
    async def test_a_backup_is_a_whole_store_or_refused(self, kit: StoreKit) -> None:
        """A store without a file says so, and makes none."""
        store = kit.open()
        writer = await begin(store)
        with kit.folder() as folder:
            target = folder / "copy.db"
            try:
                size = await store.backup(target)
            except ConfigError:
                assert not target.exists()
                return
            assert size == target.stat().st_size
            with raises(ConfigError):
                await store.backup(target)
            await writer.write()
            assert await store.backup(target, replace=True) >= size
            assert [path.name for path in folder.iterdir()] == ["copy.db"]


class TransferPromises:
    """A session comes in as it went out."""

    @promise
    async def test_an_inventory_is_all_of_a_session_but_its_records(self, kit: StoreKit) -> None:
        """As of one moment."""
        store = kit.open()
        writer = await begin(store)
        await store.enqueue("s", item("taken"))
        await store.enqueue("s", item("waits"))
        await writer.apply(TakeItems(("taken",)), MarkItem("marked"), PutTimer("t", 5.0, b"\x00"))
        artifact = await store.put_artifact("s", b"large", "text/plain")
        found = await store.inventory("s")
        assert structs.replace(found.head, expires_in_s=0.0) == structs.replace(await head_of(store), expires_in_s=0.0)
        assert found.waiting == (structs.replace(item("waits"), seq=2),)
        assert found.known == (KnownItem("marked", writer.position), KnownItem("taken", writer.position))
        assert found.timers == (StoredTimer("t", 5.0, b"\x00"),)
        assert found.artifacts == (artifact,)
        with raises(SessionNotFoundError):
            await store.inventory("nobody")
        await store.delete("s")
        with raises(SessionGoneError):
            await store.inventory("s")

    @promise
    async def test_a_restored_session_is_as_it_was_and_free(self, kit: StoreKit) -> None:
        """Every field of its head but the lease; records, inbox, timers and artifacts byte for byte."""
        store, other = kit.open(), kit.open()
        image = _image()
        head = await store.restore(image)
        free = structs.replace(image.inventory.head, owner=None, expires_in_s=0.0)
        assert head == free
        assert await other.inventory("s") == structs.replace(image.inventory, head=free)
        assert [row.body for row in await other.read("s")] == [one.body for one in image.records]
        for artifact, data in zip(image.inventory.artifacts, image.artifact_data, strict=True):
            assert await other.read_artifact(artifact.artifact_id) == data
        assert (await other.lookup("s", item_id="known")).item_position == 2
        assert list(await other.check()) == []

    @promise
    async def test_a_restored_session_goes_on_where_it_stood(self, kit: StoreKit) -> None:
        """It is claimable when it was interrupted; its known items stay known; epochs go on growing."""
        store = kit.open()
        await store.restore(_image())
        assert [head.session_id for head in (await store.claim(work())).interrupted] == ["s"]
        assert (await store.enqueue("s", item("known"))).duplicate
        assert (await store.enqueue("s", item("new"))).inbox_seq == 10
        writer = await acquire(store)
        assert (writer.committed.epoch, writer.position) == (8, 4)
        stale = structs.replace(writer.lease, epoch=7)
        with raises(SessionFencedError):
            await store.commit(writer.transition(lease=stale))

    @promise
    async def test_a_paused_timer_is_kept_and_not_claimed_until_it_is_armed(self, kit: StoreKit) -> None:
        """Putting it again arms it."""
        store = kit.open()
        await store.restore(_image())
        assert [one.timer_id for one in (await store.claim(work(now=FUTURE))).timers] == ["armed"]
        figures = await store.figures()
        assert (figures.timers, figures.paused_timers) == (1, 1)
        writer = await acquire(store)
        await writer.apply(PutTimer("paused", 6.0, b"again"))
        assert [one.timer_id for one in (await store.claim(work(now=FUTURE))).timers] == ["armed", "paused"]
        assert not any(one.paused for one in (await store.inventory("s")).timers)

    @promise
    async def test_an_id_that_was_ever_used_cannot_be_restored(self, kit: StoreKit) -> None:
        """And then nothing of the image is there."""
        store = kit.open()
        await store.create(new_session())
        with raises(SessionExistsError):
            await store.restore(_image())
        assert await _artifacts(store) == []
        await store.delete("s")
        with raises(SessionExistsError):
            await store.restore(_image())
        assert list(await store.list(SessionQuery())) == []
        assert (await store.figures()).records == 0

    @promise
    async def test_what_was_restored_is_there_after_the_process_was_killed(self, kit: StoreKit) -> None:
        """Whole."""
        store = kit.open()
        await store.restore(_image())
        store.abandon()
        later = kit.open()
        assert len(await texts(later)) == 3
        assert len(await _artifacts(later)) == 2
        assert (await head_of(later)).inbox_seq == 9


async def _artifacts(store: SessionStore) -> list[Artifact]:
    return list((await store.inventory("s")).artifacts)


def _image() -> SessionImage:
    head = Head(
        session_id="s",
        position=3,
        window_start=1,
        checkpoint=2,
        epoch=7,
        owner="1234-whoever",
        expires_in_s=99.0,
        inbox_seq=9,
        takeovers=1,
        agent_name="default",
        kind="agent",
        parent_id="elsewhere",
        lifecycle="detached",
        title="a title",
        min_format=1,
        status="running",
        created_at=1.5,
        updated_at=2.25,
        sends=2,
        usage=Usage(1, 2, 3, 4, 5, 6, True, 2**62, 7),
    )
    waiting = (InboxItem("waits", "message", b"\xff\x00", 3.0, 4), InboxItem("later", "timer", b"{}", 4.0, 9))
    timers = (StoredTimer("armed", 5.0, b"\x00"), StoredTimer("paused", 4.0, b"{}", paused=True))
    bodies = (b"", b"large" * 100_000)
    artifacts = [
        Artifact(f"art_{n:032x}", "s", "text/plain", len(body), hashlib.sha256(body).hexdigest())
        for n, body in enumerate(bodies)
    ]
    records = tuple(EncodedRecord("fact", n, float(n), bytes([n, 0, 255])) for n in range(1, 4))
    known = (KnownItem("known", 2),)
    return SessionImage(Inventory(head, waiting, known, timers, tuple(artifacts)), records, bodies)
