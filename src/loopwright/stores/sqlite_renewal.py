"""The heartbeat of this owner, on a connection of its own, so that a busy event loop cannot delay it.

Owns: the renewing connection and its lock. Must not know: which thread calls.
Read next: `ownership.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import apsw

from ..model.errors import UsageError
from . import ownership, sqlite_reads
from . import sqlite_statements as sql
from .sqlite_schema import DatabaseFile, shut, statements


class Renewal:
    """Renews from any thread; one at a time."""

    def __init__(self, file: DatabaseFile, owner: str) -> None:
        self._file = file
        self._owner = owner
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._closed = False

    def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """One try; raises `apsw.BusyError` when the file is being written."""
        with self._lock:
            if self._closed:
                raise UsageError(f"store {self._file.path} is closed; open it again")
            if self._connection is None:
                self._connection = self._file.connect()
            execute = statements(self._connection)
            row = ownership.describe(self._owner, ownership.monotonic() + ttl_s, ttl_s)
            execute(
                sql.RENEW_OWNER,
                (row.owner, row.pid, row.started, row.boot_id, row.pid_namespace, row.expires, row.ttl_s),
            )
            return sqlite_reads.renewed(execute, session_ids)

    def renew_waiting(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """Again until the file is free; blocks the calling thread."""
        return self._file.retrying(lambda: self.renew(session_ids, ttl_s))

    def close(self, *, as_killed: bool = False) -> None:
        """Waits for a renewal under way and closes."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                shut(self._connection, as_killed=as_killed)
                self._connection = None
