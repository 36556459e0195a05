"""Writing sessions as JSON lines, one after the other, without holding more than a page of any.

Owns: which sessions, the order of lines. Must not know: the form of a line (`session_lines.py`), where the bytes go.
Read next: `importing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from ..model.errors import SessionGoneError, SessionNotFoundError
from ..ports.ambient import breathe
from ..ports.sealing import SealedStore
from ..ports.store import Head, SessionQuery
from ..ports.store_admin import SessionStore
from ..ports.store_transfer import Inventory
from .diagnosis import EVERY_SESSION
from .session_lines import (
    CHUNK_BYTES,
    FORMAT,
    IDS_A_LINE,
    PLAIN_FORMAT,
    ArtifactLine,
    DroppedLine,
    ExportEndLine,
    HeaderLine,
    ItemLine,
    KnownLine,
    RecordLine,
    SessionEndLine,
    SessionLine,
    TimerLine,
    chunks,
    written,
    written_with,
)

RECORDS_A_PAGE: Final = 500


class ExportReport(Struct):
    """What was written."""

    sessions: int = 0
    records: int = 0
    artifacts: int = 0
    bytes: int = 0
    deleted_meanwhile: int = 0


class Exporter:
    """One export: what it writes goes to `write`, in pieces.

    What an encrypted store holds stays sealed, so that the file is as safe as the store, unless `plain` asks for readable
    lines.
    """

    def __init__(self, store: SessionStore, write: Callable[[bytes], object], *, plain: bool = False) -> None:
        self._sealed = isinstance(store, SealedStore) and not plain
        self._store = store.sealed if isinstance(store, SealedStore) and not plain else store
        self._write = write
        self.report = ExportReport()

    async def run(self, session_ids: Sequence[str] | None, *, library: str, at: float) -> ExportReport:
        """Writes the named sessions with all their descendants, oldest first; every session when None.

        Each session is of one moment; others may be written meanwhile. A fork is written whole, with what it reads of its
        base, and comes in as a session of its own. Raises `SessionNotFoundError`, `SessionGoneError`
        for a named one before anything is written.
        """
        heads = await self._chosen(session_ids)
        form = FORMAT if self._sealed else PLAIN_FORMAT
        self._put(written(HeaderLine(form, library, at, self._sealed)))
        for head in heads:
            await self._session(head.session_id)
        self._put(written(ExportEndLine(self.report.sessions)))
        return self.report

    async def _chosen(self, session_ids: Sequence[str] | None) -> list[Head]:
        if session_ids is None:
            heads = list(await self._store.list(SessionQuery(limit=EVERY_SESSION)))
        else:
            heads = [(await self._store.lookup(session_id)).head for session_id in dict.fromkeys(session_ids)]
            known = {head.session_id for head in heads}
            for head in heads:  # grows while it is gone through
                children = await self._store.list(SessionQuery(parent_id=head.session_id, limit=EVERY_SESSION))
                heads += [child for child in children if child.session_id not in known]
                known |= {child.session_id for child in children}
        return sorted(heads, key=lambda head: (head.created_at, head.session_id))

    async def _session(self, session_id: str) -> None:
        try:
            whole = await self._store.inventory(session_id)
            children = await self._store.list(SessionQuery(parent_id=session_id, limit=EVERY_SESSION))
        except (SessionGoneError, SessionNotFoundError):
            self.report.deleted_meanwhile += 1
            return
        head = structs.replace(whole.head, owner=None, expires_in_s=0.0, base=None)
        self._put(written(SessionLine(head, tuple(sorted(child.session_id for child in children)))))
        try:
            await self._records(head)
            self._inbox_and_timers(whole)
            await self._artifacts(whole)
        except (SessionGoneError, SessionNotFoundError):
            self._put(written(DroppedLine(session_id)))
            self.report.deleted_meanwhile += 1
            return
        self._put(written(SessionEndLine(session_id)))
        self.report.sessions += 1
        self.report.records += head.position
        self.report.artifacts += len(whole.artifacts)

    async def _records(self, head: Head) -> None:
        after = 0
        while after < head.position:
            limit = min(RECORDS_A_PAGE, head.position - after)
            for row in await self._store.read(head.session_id, after=after, limit=limit):
                self._put(written_with(RecordLine(row.position, row.kind, row.version, row.at), row.body))
            after += limit
            await breathe()

    def _inbox_and_timers(self, whole: Inventory) -> None:
        for item in whole.waiting:
            self._put(written_with(ItemLine(item.item_id, item.kind, item.at, item.seq), item.body))
        known = [(one.item_id, one.position) for one in whole.known]
        for start in range(0, len(known), IDS_A_LINE):
            self._put(written(KnownLine(tuple(known[start : start + IDS_A_LINE]))))
        for timer in whole.timers:
            self._put(written_with(TimerLine(timer.timer_id, timer.due_at, timer.paused), timer.body))

    async def _artifacts(self, whole: Inventory) -> None:
        for one in whole.artifacts:
            self._put(written(ArtifactLine(one.artifact_id, one.media_type, one.size, one.digest)))
            for offset in range(0, one.size, CHUNK_BYTES):
                data = await self._store.read_artifact(one.artifact_id, offset=offset, limit=CHUNK_BYTES)
                if not data:  # it went with its session, or was swept
                    raise SessionGoneError(whole.head.session_id)
                for chunk in chunks(data):
                    self._put(written(chunk))

    def _put(self, data: bytes) -> None:
        self._write(data)
        self.report.bytes += len(data)
