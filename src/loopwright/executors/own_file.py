"""A leaf's journal in a file of its own: lent from the store it belongs to, and brought home after each attempt.

Owns: both ways, for the leaf's session and those that it started. Must not know: processes; what kind of store a file is.
While it is lent nobody runs the session at home: if somebody does, what the leaf wrote is not brought home over it, and is
lost like the work of any writer that was overtaken. The file is never the only truth for longer than one attempt.
Read next: `subprocess.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ..model.errors import SessionMovedError, SessionNotFoundError
from ..model.usage import Usage
from ..ports.artifact import Artifact
from ..ports.store import (
    Acquire,
    DropTimer,
    EncodedRecord,
    Head,
    HeadChange,
    MarkItem,
    Op,
    PutTimer,
    SessionQuery,
    StoredRecord,
    TakeItems,
    Transition,
)
from ..ports.store_admin import SessionStore
from ..ports.store_transfer import Inventory, SessionImage
from . import run_files


class Home(Struct, frozen=True):
    """What a loop lends for the files of leaves."""

    store: SessionStore
    """Where sessions belong."""
    open_file: Callable[[str], SessionStore]
    """Opens a file of one's own, made when it is missing."""

    @asynccontextmanager
    async def opened(self, file: Path) -> AsyncGenerator[SessionStore]:
        """A file, closed at the end."""
        own = self.open_file(str(file))
        try:
            yield own
        finally:
            await own.aclose()


LEASE_S = 15.0
"""Of the one commit that brings a session home."""

MOST_SESSIONS = 10_000
"""That one leaf may have started in its file; more are not brought home."""


async def prepare(home: Home, file: Path, session_id: str) -> None:
    """Makes the file of a leaf anew, from home; what an earlier attempt left in it is brought home before.

    Anew, since a new file has no lease of a process that is gone, which only time could tell where it was in a sandbox.
    """
    if run_files.make_folder(file):
        async with home.opened(file) as own:
            if not await _is_behind(home.store, own, session_id):
                await bring_home(home.store, own, session_id)
        run_files.remove_file(file)
        run_files.make_folder(file)
    async with home.opened(file) as own:
        await own.restore(await _image(home.store, await home.store.inventory(session_id)))


async def collect(home: Home, file: Path, session_id: str) -> None:
    """`bring_home` from a file."""
    async with home.opened(file) as own:
        await bring_home(home.store, own, session_id)


async def refresh(home: Home, file: Path, session_id: str) -> None:
    """Puts what waits for the session at home into its file, too; an id that is known there changes nothing."""
    async with home.opened(file) as own:
        for item in (await home.store.lookup(session_id)).waiting:
            await own.enqueue(session_id, item)


async def _is_behind(home: SessionStore, own: SessionStore, session_id: str) -> bool:
    """True when the file does not hold the session as it is at home with, perhaps, more at its end."""
    try:
        there = await own.lookup(session_id)
    except SessionNotFoundError:
        return True
    here = await home.lookup(session_id)
    if here.head.position > there.head.position:
        return True
    return not await _agree(home, own, session_id, here.head.position - 1)


async def bring_home(home: SessionStore, own: SessionStore, session_id: str) -> None:
    """What the file has and home has not: sessions that the leaf started, and the rest of its own, in a commit each.

    Safe to repeat. Raises: `SessionMovedError` when somebody wrote to a session at home meanwhile; `SessionBusyError` while
    somebody runs it there. Nothing of that session was brought home then.
    """
    heads = await own.list(SessionQuery(limit=MOST_SESSIONS))
    # The leaf comes last: once its end is home, everything that its journal names is.
    for head in sorted(heads, key=lambda head: (head.session_id == session_id, head.created_at)):
        inventory = await own.inventory(head.session_id)
        try:
            there = await home.inventory(head.session_id)
        except SessionNotFoundError:
            await home.restore(await _image(own, inventory))
        else:
            await _append(home, own, there, inventory)


async def _append(home: SessionStore, own: SessionStore, before: Inventory, after: Inventory) -> None:
    session_id = before.head.session_id
    start = before.head.position
    if not await _agree(home, own, session_id, start - 1):
        raise SessionMovedError(session_id, expected=after.head.position, actual=start)
    known = {artifact.artifact_id for artifact in before.artifacts}
    for artifact in after.artifacts:
        if artifact.artifact_id not in known:
            data = await own.read_artifact(artifact.artifact_id)
            await home.put_artifact(session_id, data, artifact.media_type, digest=artifact.digest)
    rows = await own.read(session_id, after=start)
    ops = _ops(before, after)
    if not rows and not ops:
        return
    transition = Transition(
        session_id=session_id,
        expect=start,
        lease=Acquire(os.urandom(16), LEASE_S),
        records=_encoded(rows),
        head=_change(before.head, after.head),
        ops=ops,
        release=True,
        sync=True,
    )
    await home.commit(transition)


def _change(before: Head, after: Head) -> HeadChange:
    used = {
        name: getattr(after.usage, name) - getattr(before.usage, name)
        for name in Usage.__struct_fields__
        if name != "estimated"
    }
    return HeadChange(
        status=after.status,
        window_start=after.window_start,
        checkpoint=after.checkpoint,
        min_format=after.min_format,
        title=after.title if after.title != before.title else None,
        sends=after.sends - before.sends,
        usage=Usage(**used, estimated=after.usage.estimated),
    )


def _ops(before: Inventory, after: Inventory) -> tuple[Op, ...]:
    done = {item.item_id for item in after.known} - {item.item_id for item in before.known}
    waiting = tuple([item.item_id for item in before.waiting if item.item_id in done])
    ops: list[Op] = [TakeItems(waiting)] if waiting else []
    ops += [MarkItem(item_id) for item_id in sorted(done.difference(waiting))]
    armed = {timer.timer_id: timer for timer in before.timers}
    for timer in after.timers:
        if armed.pop(timer.timer_id, None) != timer and not timer.paused:
            ops.append(PutTimer(timer.timer_id, timer.due_at, timer.body))
    ops += [DropTimer(gone.timer_id, gone.due_at) for gone in armed.values()]
    return tuple(ops)


async def _image(store: SessionStore, inventory: Inventory) -> SessionImage:
    head = msgspec.structs.replace(inventory.head, owner=None, expires_in_s=0.0, base=None)
    rows = await store.read(head.session_id)
    data = [await _whole(store, artifact) for artifact in inventory.artifacts]
    return SessionImage(msgspec.structs.replace(inventory, head=head), _encoded(rows), tuple(data))


async def _whole(store: SessionStore, artifact: Artifact) -> bytes:
    return await store.read_artifact(artifact.artifact_id)


def _encoded(rows: Sequence[StoredRecord]) -> tuple[EncodedRecord, ...]:
    return tuple([EncodedRecord(row.kind, row.version, row.at, row.body) for row in rows])


async def _agree(home: SessionStore, own: SessionStore, session_id: str, position: int) -> bool:
    here = await home.read(session_id, after=position, limit=1)
    return list(here) == list(await own.read(session_id, after=position, limit=1))
