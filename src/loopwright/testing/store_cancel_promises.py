"""Promises of a store about cancellation: a cancelled call happened or not, completely, and nobody else notices.

Owns: tests that cancel at every await. Must not know: any store.
Read next: `store_machine.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from ..ports.store import Acquire, EncodedRecord, MarkItem, SessionQuery, Transition
from ..ports.store_admin import SessionStore
from .store_kit import (
    TOKEN,
    StoreKit,
    Writer,
    begin,
    head_of,
    item,
    new_session,
    promise,
    records,
    texts,
    ticks,
    until,
    work,
)

Call = Callable[[SessionStore, int], Awaitable[Any]]

STEPS = 6
"""A call is cancelled after 0, 1, … this many turns of the event loop."""


async def _await(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


async def cancelled_after(steps: int, call: Callable[[], Awaitable[Any]]) -> bool:
    """Starts a call in a task, cancels it after some turns of the loop; True when it had not ended before."""
    task = asyncio.ensure_future(_await(call))
    await ticks(steps)
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


class CancelPromises:
    """The store stays usable and the journal whole."""

    @promise
    async def test_a_cancelled_commit_happened_completely_or_not_at_all(self, kit: StoreKit) -> None:
        """Small and large, synced and not, cancelled at every turn."""
        store = kit.open()
        writer = await begin(store)
        big = (EncodedRecord("tool_finished", 1, 10.0, b"x" * 400_000),)
        for steps in range(STEPS):
            for sync in (False, True):
                for some in (records(3), big):
                    mark = f"mark-{steps}-{sync}-{len(some)}"
                    one = writer.transition(records=some, ops=(MarkItem(mark),), sync=sync)
                    await cancelled_after(steps, functools.partial(store.commit, one))
                    await _settle(store, writer, mark, len(some))
        assert list(await store.check()) == []

    @promise
    async def test_a_cancelled_commit_does_not_hurt_the_others_of_its_tick(self, kit: StoreKit) -> None:
        """They get their answers, and these are true."""
        store = kit.open()
        writers = [await begin(store, f"s{n}") for n in range(8)]
        for steps in range(STEPS):
            tasks = [
                asyncio.ensure_future(
                    _await(functools.partial(store.commit, writer.transition(2, sync=steps % 2 == 0)))
                )
                for writer in writers
            ]
            await ticks(steps)
            for task in tasks[::3]:
                task.cancel()
            await asyncio.wait(tasks)
            for n, (task, writer) in enumerate(zip(tasks, writers, strict=True)):
                now = (await head_of(store, writer.session_id)).position
                if n % 3:
                    assert task.result().position == now == writer.position + 2
                assert now - writer.position in {0, 2}
                assert len(await texts(store, writer.session_id)) == now
                writer.committed = await store.commit(
                    Transition(session_id=writer.session_id, expect=now, lease=writer.lease)
                )

    @promise
    async def test_every_other_call_can_be_cancelled_too(self, kit: StoreKit) -> None:
        """The writer goes on in between, and nothing is damaged."""
        store = kit.open()
        writer = await begin(store)
        artifact = await store.put_artifact("s", b"x" * 600_000, "text/plain")
        calls: dict[str, Call] = {
            "create": lambda s, n: s.create(new_session(f"new-{n}", records=records(2))),
            "enqueue": lambda s, n: s.enqueue("s", item(f"i{n}")),
            "read": lambda s, _: s.read("s"),
            "lookup": lambda s, _: s.lookup("s", item_id="i0"),
            "claim": lambda s, _: s.claim(work()),
            "list": lambda s, _: s.list(SessionQuery()),
            "renew": lambda s, _: s.renew(["s"], 5.0),
            "put_artifact": lambda s, n: s.put_artifact("s", b"%d" % n * 300_000, "text/plain"),
            "read_artifact": lambda s, _: s.read_artifact(artifact.artifact_id),
            "artifact": lambda s, _: s.artifact(artifact.artifact_id),
            "check": lambda s, _: s.check(),
            "uncertain_calls": lambda s, _: s.uncertain_calls(),
            "delete": lambda s, n: s.delete(f"doomed-{n}"),
        }
        for name, call in calls.items():
            for steps in range(STEPS):
                if name == "delete":
                    await store.create(new_session(f"doomed-{steps}", records=records(5)))
                await cancelled_after(steps, functools.partial(call, store, steps))
                await writer.write(sync=steps % 2 == 0)
        found = await store.lookup("s")
        assert found.head.inbox_seq == len(found.waiting)
        heads = await store.list(SessionQuery(limit=1000))
        for head in heads:
            # A cancelled deletion may still be under way.
            if not head.session_id.startswith("doomed"):
                assert len(await texts(store, head.session_id)) == head.position

        async def is_sound() -> bool:
            return list(await store.check()) == []

        await until(is_sound, "cancelled deletions come to their end")

    @promise
    async def test_an_acquire_that_was_cancelled_can_be_told_from_the_head(self, kit: StoreKit) -> None:
        """Either the lease is this owner's or nobody's."""
        store, other = kit.open(), kit.open()
        await store.create(new_session("barrier"))
        for steps in range(STEPS):
            name = f"s{steps}"
            await store.create(new_session(name))
            one = Transition(session_id=name, expect=1, lease=Acquire(TOKEN, 30.0), records=records(1), sync=True)
            await cancelled_after(steps, functools.partial(store.commit, one))
            await _queue_is_empty(store)
            head = await head_of(other, name)
            assert (head.position, head.epoch, head.owner) in {(1, 0, None), (2, 1, store.owner)}

    @promise
    async def test_closing_waits_for_calls_whose_tasks_are_gone(self, kit: StoreKit) -> None:
        """What was begun is finished or was never begun."""
        store = kit.open()
        writer = await begin(store)
        task = asyncio.ensure_future(_await(functools.partial(store.commit, writer.transition(2, sync=True))))
        await ticks(2)
        task.cancel()
        await store.aclose()
        later = kit.open()
        assert len(await texts(later)) in {2, 4}
        assert list(await later.check()) == []


async def _queue_is_empty(store: SessionStore) -> None:
    """A synced write that is acknowledged: whatever was offered before it has been applied."""
    await store.enqueue("barrier", item())


async def _settle(store: SessionStore, writer: Writer, mark: str, count: int) -> None:
    """Brings the writer to where the cancelled commit left the journal, and checks that it is whole."""
    # The next commit queues behind the cancelled one, so its answer says what became of that.
    for expect in (writer.position, writer.position + count):
        try:
            committed = await store.commit(
                Transition(session_id="s", expect=expect, lease=writer.lease, records=records(1))
            )
        except Exception as error:
            if type(error).__name__ != "SessionMovedError" or expect != writer.position:
                raise
            continue
        happened = expect != writer.position
        assert ((await store.lookup("s", item_id=mark)).item_position is not None) == happened
        assert len(await texts(store)) == committed.position
        writer.committed = committed
        return
