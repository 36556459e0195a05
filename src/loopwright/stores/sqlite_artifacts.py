"""Large data in rows of 256 KiB, each of its own transaction.

Owns: slicing, the order of rows, what makes an artifact complete. Must not know: threads, event loops.
Read next: `ports/artifact.py`.
"""

from __future__ import annotations

from msgspec import Struct

from ..model.errors import SessionGoneError, SessionNotFoundError, StoreCorruptError
from ..ports.artifact import Artifact
from . import sqlite_statements as sql
from .derived import artifact_name
from .slices import bytes_of, rows_of
from .sqlite_commits import CommitConnection
from .sqlite_schema import Execute


class Begun(Struct, frozen=True):
    """An artifact whose rows are being written."""

    id: int
    artifact: Artifact
    complete: bool
    """True when equal content was stored before: nothing is left to write."""


def begin(execute: Execute, session_id: str, media_type: str, size: int, digest: str) -> Begun:
    """Registers the artifact, not yet visible; content that is known already is not written twice,
    unless its rows were damaged."""
    artifact_id = artifact_name(session_id, digest)
    # Read to its end: outside of a transaction that is what commits it.
    rows = execute(sql.BEGIN_ARTIFACT, (artifact_id, session_id, media_type, size, digest)).fetchall()
    if not rows:
        gone = execute(sql.IS_GONE, (session_id,)).fetchone()
        raise SessionGoneError(session_id) if gone else SessionNotFoundError(session_id)
    id_, complete = rows[0]
    if complete and execute(sql.ARTIFACTS_ASTRAY, (id_,)).fetchall():
        execute(sql.REOPEN_ARTIFACT, (id_, size)).fetchall()
        execute(sql.DROP_ROWS_FROM, (id_, len(rows_of(size, 0, None)))).fetchall()
        complete = False
    known = find(execute, artifact_id) if complete else None
    return Begun(id_, known or Artifact(artifact_id, session_id, media_type, size, digest), bool(complete))


def write_slice(id_: int, n: int, data: bytes, own: CommitConnection) -> None:
    """One row; writing it again (a put that was tried before) is the same."""
    own.execute(sql.ARTIFACT_ROW, (id_, n, data))


def find(execute: Execute, artifact_id: str) -> Artifact | None:
    """What is known about a complete artifact."""
    found = _stored(execute, artifact_id)
    return found[1] if found else None


def read(execute: Execute, artifact_id: str, offset: int, limit: int | None) -> bytes:
    """Bytes from `offset`; b"" past the end and for an unknown artifact."""
    found = _stored(execute, artifact_id)
    if found is None:
        return b""
    id_, size = found[0], found[1].size
    wanted = rows_of(size, offset, limit)
    if not wanted:
        return b""
    parts = execute(sql.ARTIFACT_ROWS, (id_, wanted.start, wanted.stop)).fetchall()
    return bytes_of(artifact_id, parts, size=size, offset=offset, limit=limit)


def _stored(execute: Execute, artifact_id: str) -> tuple[int, Artifact] | None:
    row = execute(sql.ARTIFACT, (artifact_id,)).fetchone()
    if row is None:
        return None
    known = Artifact(*row[1:])
    if type(known.size) is not int or known.size < 0:  # a column of SQLite holds what somebody puts into it
        raise StoreCorruptError(f"artifact {artifact_id!r} has size {known.size!r}; restore a backup")
    return row[0], known
