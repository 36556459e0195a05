"""A session out of a SQLite file, and into one.

Owns: rows of a whole session into values and back, in one transaction. Must not know: threads, event loops, formats.
Read next: `sqlite_reads.py`, `sqlite_statements.py`.
"""

from __future__ import annotations

import json

from msgspec import structs

from ..model.errors import InvariantError, SessionExistsError
from ..ports.artifact import Artifact
from ..ports.store import Head
from ..ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer
from . import sqlite_forks, sqlite_reads
from . import sqlite_statements as sql
from .slices import slices
from .sqlite_commits import CommitConnection
from .sqlite_schema import Execute


def inventory(execute: Execute, session_id: str) -> Inventory:
    """See `StoreTransfer.inventory`."""
    found = sqlite_reads.lookup(execute, session_id, None)
    place = sqlite_forks.finder(execute)(session_id)
    key, before = place.key, json.dumps(sorted(sqlite_forks.names_before(execute, place)))
    return Inventory(
        found.head,
        found.waiting,
        tuple(KnownItem(*row) for row in execute(sql.KNOWN_ITEMS, (key,)).fetchall()),
        tuple(StoredTimer(id_, due, body, bool(p)) for id_, due, body, p in execute(sql.TIMERS, (key,)).fetchall()),
        tuple(Artifact(*row) for row in execute(sql.ARTIFACTS_OF, (key, before)).fetchall()),
    )


def restore(own: CommitConnection, image: SessionImage) -> Head:
    """See `StoreTransfer.restore`."""
    own.be_durable()
    own.execute("BEGIN IMMEDIATE")
    try:
        _insert(own.execute, image)
        head = sqlite_reads.lookup(own.execute, image.inventory.head.session_id, None).head
        own.execute("COMMIT")
    except BaseException:
        if own.connection.in_transaction:
            own.execute("ROLLBACK")
        raise
    return head


def _insert(execute: Execute, image: SessionImage) -> None:
    whole = image.inventory
    row = execute(sql.RESTORE_SESSION, _head_values(whole.head)).fetchone()
    if row is None:
        raise SessionExistsError(whole.head.session_id)
    key: int = row[0]
    for n, record in enumerate(image.records, key << 32):
        execute(sql.INSERT_RECORD, (n, record.kind, record.version, record.at, record.body))
    for item in whole.waiting:
        execute(sql.INSERT_ITEM, (key, item.item_id, item.seq, item.kind, item.at, item.body))
    for known in whole.known:
        execute(sql.RESTORE_KNOWN, (key, known.item_id, known.position))
    for timer in whole.timers:
        row = (key, timer.timer_id, timer.due_at, timer.body, timer.paused, whole.head.agent_name)
        execute(sql.RESTORE_TIMER, row)
    for artifact, data in zip(whole.artifacts, image.artifact_data, strict=True):
        if (known := execute(sql.ARTIFACT, (artifact.artifact_id,)).fetchone()) is not None:
            if Artifact(*known[1:]).digest != artifact.digest:
                raise InvariantError(
                    f"an artifact of session {whole.head.session_id!r} has the id of another session's"
                )
            sqlite_forks.share(execute, key, [artifact.artifact_id])
            continue
        values = (artifact.artifact_id, key, artifact.session_id, artifact.media_type, artifact.size, artifact.digest)
        (id_,) = execute(sql.RESTORE_ARTIFACT, values).fetchone()
        for n, part in slices(data):
            execute(sql.ARTIFACT_ROW, (id_, n, part))


def _head_values(head: Head) -> tuple[object, ...]:
    return (
        head.session_id,
        head.position,
        head.window_start,
        head.checkpoint,
        head.epoch,
        head.inbox_seq,
        head.takeovers,
        head.agent_name,
        head.kind,
        head.parent_id,
        head.lifecycle,
        head.title,
        head.min_format,
        head.status,
        head.created_at,
        head.updated_at,
        head.sends,
        *structs.astuple(head.usage),
    )
