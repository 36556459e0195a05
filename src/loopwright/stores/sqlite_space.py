"""Figures and space of a SQLite file: counts, unreferenced artifacts, VACUUM, the log.

Owns: what `StoreUpkeep` promises, but for the backup. Must not know: threads, event loops.
Read next: `sqlite_backup.py`, `sqlite_statements.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import groupby
from typing import Final

import apsw
from msgspec import Struct

from ..ports.store_upkeep import Reclaimed, StoreFigures
from . import sqlite_statements as sql
from .references import artifact_ids_in
from .sqlite_commits import CommitConnection
from .sqlite_migrations import cleanup_of
from .sqlite_schema import DatabaseFile, Execute

LOG_SUFFIX: Final = "-wal"


class OldArtifact(Struct, frozen=True):
    """An artifact that can go if nothing refers to it."""

    id: int
    artifact_id: str
    key: int
    position: int
    """Of its session when the records were looked through."""


def figures(own: CommitConnection, file: DatabaseFile) -> StoreFigures:
    """See `StoreUpkeep.figures`."""
    *counts, forks, version = own.execute(sql.FIGURES).fetchall()[0]
    ((free,),) = own.execute("PRAGMA freelist_count").fetchall()
    ((page_size,),) = own.execute("PRAGMA page_size").fetchall()
    records, record_bytes, waiting, known, timers, paused, artifacts, artifact_bytes, tombstones = counts
    return StoreFigures(
        records=records,
        record_bytes=record_bytes,
        waiting_items=waiting,
        known_items=known,
        timers=timers,
        paused_timers=paused,
        artifacts=artifacts,
        artifact_bytes=artifact_bytes,
        tombstones=tombstones,
        forks=forks,
        file_bytes=size_of(file.path),
        free_bytes=free * page_size,
        log_bytes=size_of(file.path + LOG_SUFFIX),
        schema_version=version,
        cleanup=tuple(one for _, left in cleanup_of(own.connection, file.steps) for one in left),
    )


def session_sizes(execute: Execute) -> dict[str, int]:
    """See `StoreUpkeep.session_sizes`."""
    return dict(execute(sql.SIZES).fetchall())


def old_artifacts(execute: Execute, older_than: float) -> list[OldArtifact]:
    """Old artifacts that no record refers to; a reading of one moment."""
    rows = [
        (OldArtifact(id_, name, key, position), complete)
        for id_, name, key, complete, position in _old(execute, older_than)
    ]
    found: list[OldArtifact] = []
    for key, group in groupby(rows, lambda row: row[0].key):
        named: set[str] = set()
        for (body,) in execute(sql.NAMING_ARTIFACTS, (key << 32, (key + 1) << 32)):
            named |= artifact_ids_in(body)
        found += [one for one, complete in group if not complete or one.artifact_id not in named]
    return found


def _old(execute: Execute, older_than: float) -> list[tuple[int, str, int, int, int]]:
    rows: list[tuple[int, str, int, int, int]] = execute(sql.OLD_ARTIFACTS, (older_than,)).fetchall()
    return rows


def stamp_artifacts(own: CommitConnection) -> None:
    """Artifacts without a time get the present one."""
    own.execute(sql.STAMP_ARTIFACTS).fetchall()


def hide_artifact(one: OldArtifact, older_than: float, own: CommitConnection) -> bool:
    """Makes it unknown, unless something came to refer to it since it was found; then its rows can go."""
    first = one.key << 32 | one.position
    values = (one.id, older_than, first, one.key, one.artifact_id.encode())
    return bool(own.execute(sql.HIDE_ARTIFACT, values).fetchall())


def remove_hidden(one: OldArtifact, older_than: float, own: CommitConnection) -> bool:
    """One batch of rows of a hidden artifact, at last the artifact; False when nothing is left to do."""
    if own.execute(sql.SWEEP_HIDDEN_ROWS, (one.id, older_than)).fetchall():
        return True
    own.execute(sql.SWEEP_HIDDEN, (one.id, older_than)).fetchall()
    return False


def vacuum(file: DatabaseFile, own: CommitConnection) -> Reclaimed:
    """See `StoreUpkeep.vacuum`. Needs as much free space again as the file has content."""
    return _measured(file, own, lambda: own.execute("VACUUM").fetchall())


def checkpoint(file: DatabaseFile, own: CommitConnection) -> Reclaimed:
    """See `StoreUpkeep.checkpoint`."""
    return _measured(file, own, lambda: None)


def _measured(file: DatabaseFile, own: CommitConnection, work: Callable[[], object]) -> Reclaimed:
    before = _total(file)
    work()
    try:
        own.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        # Somebody reads or writes just now: what could be copied was, and the log can be used anew later.
        own.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    return Reclaimed(before, _total(file))


def _total(file: DatabaseFile) -> int:
    return size_of(file.path) + size_of(file.path + LOG_SUFFIX)


def size_of(path: str) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
