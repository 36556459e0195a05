"""Promises of a store about consistent readings, artifacts, the ledger and its own upkeep.

Owns: tests of `ArtifactStore`, `uncertain_calls`, `check`, `ddl`, closing. Must not know: any store.
Read next: `store_cancel_promises.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json

from ..model.errors import SessionGoneError, SessionNotFoundError, UsageError
from ..ports.store import EncodedRecord, TakeItems
from .store_kit import StoreKit, acquire, begin, head_of, item, new_session, promise, raises, records, texts, ticks


class ReadingPromises:
    """A reading is of one moment."""

    @promise
    async def test_a_lookup_is_of_one_moment(self, kit: StoreKit) -> None:
        """Every lookup sees each item either waiting or taken, and a head that fits."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        done = asyncio.Event()

        async def write() -> None:
            for n in range(60):
                await other.enqueue("s", item(f"i{n}"))
                await writer.apply(TakeItems((f"i{n}",)))
            done.set()

        writing = asyncio.ensure_future(write())
        while not done.is_set():
            await ticks()
            found = await other.lookup("s")
            assert found.head.position + len(found.waiting) == 2 + found.head.inbox_seq
        await writing

    @promise
    async def test_a_read_is_a_prefix_without_gaps(self, kit: StoreKit) -> None:
        """While another client writes."""
        store, other = kit.open(), kit.open()
        writer = await begin(store)
        done = asyncio.Event()

        async def write() -> None:
            for n in range(60):
                await writer.write(1 + n % 4, sync=n % 5 == 0)
            done.set()

        writing = asyncio.ensure_future(write())
        known: list[bytes] = []
        while not done.is_set():
            await ticks()
            now = await texts(other)
            assert now[: len(known)] == known
            known = now
        await writing
        assert len(await texts(other)) == writer.position

    @promise
    async def test_unknown_and_deleted_sessions_are_told_apart(self, kit: StoreKit) -> None:
        """In every call that names one."""
        store = kit.open()
        await store.create(new_session("gone"))
        await store.delete("gone")
        for name, kind in (("nobody", SessionNotFoundError), ("gone", SessionGoneError)):
            with raises(kind):
                await store.read(name)
            with raises(kind):
                await store.lookup(name)
            with raises(kind):
                await store.put_artifact(name, b"x", "text/plain")
            with raises(kind):
                await store.delete(name)

    @promise
    async def test_what_was_acknowledged_is_there_after_closing_and_opening(self, kit: StoreKit) -> None:
        """What was offered before the closing, too."""
        store = kit.open()
        writer = await begin(store)
        offered = [store.commit(writer.transition(2, release=True, sync=True)), store.enqueue("s", item())]
        await store.aclose()
        await store.aclose()
        await asyncio.gather(*offered)
        later = kit.open()
        found = await later.lookup("s")
        assert (found.head.position, len(found.waiting), found.head.owner) == (4, 1, None)
        with raises(UsageError):
            await store.lookup("s")
        assert list(await later.check()) == []

    @promise
    async def test_what_was_acknowledged_survives_being_abandoned(self, kit: StoreKit) -> None:
        """A killed process loses no acknowledged commit, synced or not."""
        store = kit.open()
        writer = await begin(store)
        for n in range(10):
            await writer.write(2, sync=n % 2 == 0)
        await store.enqueue("s", item())
        store.abandon()
        later = kit.open()
        assert len(await texts(later)) == 22
        assert len((await later.lookup("s")).waiting) == 1
        assert list(await later.check()) == []
        assert (await acquire(later)).committed.takeovers == 1


class ArtifactPromises:
    """Large data beside the journal, stored once and whole."""

    @promise
    async def test_an_artifact_comes_back_whole_and_in_parts(self, kit: StoreKit) -> None:
        """Across the borders of its rows."""
        store, other = kit.open(), kit.open()
        await store.create(new_session())
        data = bytes(range(256)) * 4_000 + b"end"
        artifact = await store.put_artifact("s", data, "application/octet-stream")
        assert (artifact.size, artifact.digest) == (len(data), hashlib.sha256(data).hexdigest())
        assert (artifact.session_id, artifact.media_type) == ("s", "application/octet-stream")
        assert await other.artifact(artifact.artifact_id) == artifact
        assert await other.read_artifact(artifact.artifact_id) == data
        for offset, limit in ((0, 0), (5, 10), (262_140, 8), (262_144, 262_144), (len(data) - 3, 99), (len(data), 5)):
            assert await other.read_artifact(artifact.artifact_id, offset=offset, limit=limit) == data[offset:][:limit]
        assert await other.read_artifact(artifact.artifact_id, offset=900_000) == data[900_000:]

    @promise
    async def test_equal_content_of_one_session_is_one_artifact(self, kit: StoreKit) -> None:
        """Also when it is put several times at once."""
        store = kit.open()
        for name in ("s", "t"):
            await store.create(new_session(name))
        puts = [store.put_artifact("s", b"same" * 100_000, "text/plain") for _ in range(3)]
        ids = {one.artifact_id for one in await asyncio.gather(*puts)}
        assert len(ids) == 1
        other = await store.put_artifact("t", b"same" * 100_000, "text/plain")
        assert other.artifact_id not in ids
        await store.delete("s")
        assert await store.read_artifact(other.artifact_id) == b"same" * 100_000

    @promise
    async def test_a_digest_that_was_said_stands_in_for_that_of_the_bytes(self, kit: StoreKit) -> None:
        """In what is answered, and for what is equal: the bytes that came first stay."""
        store = kit.open()
        await store.create(new_session())
        said = "ab" * 32
        one = await store.put_artifact("s", b"one", "text/plain", digest=said)
        assert (one.digest, one.size) == (said, 3)
        assert await kit.open().artifact(one.artifact_id) == one
        assert (await store.put_artifact("s", b"one", "text/plain", digest=said)).artifact_id == one.artifact_id
        assert (await store.put_artifact("s", b"one", "text/plain")).artifact_id != one.artifact_id
        assert await store.read_artifact(one.artifact_id) == b"one"

    @promise
    async def test_an_empty_artifact_and_an_unknown_one_differ(self, kit: StoreKit) -> None:
        """b"" is data, None is not."""
        store = kit.open()
        await store.create(new_session())
        empty = await store.put_artifact("s", b"", "text/plain")
        assert await store.artifact(empty.artifact_id) == empty
        assert await store.read_artifact(empty.artifact_id) == b""
        assert await store.artifact("art_unknown") is None

    @promise
    async def test_started_once_calls_without_an_outcome_are_listed(self, kit: StoreKit) -> None:
        """Oldest first; those the model was told about are marked."""
        store = kit.open()
        writer = await begin(store)
        for call in ("done", "open", "told", "failed", "asked"):
            await writer.write(records=(_started(call, "once"),))
        await writer.write(records=(_started("pure", "pure"), _started("again", "idempotent")))
        await writer.write(
            records=(
                _asked("asked"),
                _finished("done", "ok"),
                _finished("told", "uncertain"),
                _finished("failed", "error"),
            )
        )
        other = await begin(store, "other")
        await other.write(records=(_started("done", "once", at=5.0),))
        found = await store.uncertain_calls()
        assert [(one.session_id, one.call_id, one.position, one.told) for one in found] == [
            ("other", "done", 2, False),
            ("s", "open", 3, False),
            ("s", "told", 4, True),
        ]
        assert (found[1].name, found[1].arguments, found[1].idempotency_key) == ("charge", {"cents": 5}, "key-open")
        assert found[1].started_at == 20.0
        await store.delete("s")
        assert [one.session_id for one in await store.uncertain_calls()] == ["other"]

    @promise
    async def test_a_sound_store_has_no_problems_and_its_ddl_can_be_said_twice(self, kit: StoreKit) -> None:
        """The check finds no fault where there is none."""
        store = kit.open()
        writer = await begin(store)
        await writer.write(5, release=True)
        assert list(await store.check()) == []
        assert store.ddl() == kit.open().ddl()
        assert (await head_of(store)).position == 2 + len(records(5))


def _started(call: str, effect: str, *, at: float = 20.0) -> EncodedRecord:
    body = {"kind": "tool_started", "call_id": call, "name": "charge", "arguments": {"cents": 5}, "effect": effect}
    return EncodedRecord("tool_started", 1, at, json.dumps(body | {"key": f"key-{call}"}).encode())


def _asked(call: str) -> EncodedRecord:
    body = {"kind": "handler_asked", "interaction": {"id": "q", "call_id": call, "tool_name": "charge", "prompt": "?"}}
    return EncodedRecord("handler_asked", 1, 20.5, json.dumps(body).encode())


def _finished(call: str, status: str) -> EncodedRecord:
    body = {
        "kind": "tool_finished",
        "call_id": call,
        "name": "charge",
        "status": status,
        "key": f"key-{call}",
        "content": "",
    }
    return EncodedRecord("tool_finished", 1, 21.0, json.dumps(body).encode())
