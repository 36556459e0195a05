"""Reading exported sessions into a store: each is checked, folded and stored whole, or not at all.

Owns: what an import refuses, what it changes (timers are paused). Must not know: files, SQL.
Holds one session at a time, in about twice the bytes of its lines: `restore` takes it as one value, so that nobody ever sees
a part of it, and it is folded before, so that nothing that cannot be read is stored.
Read next: `session_lines.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field, structs

from ..model.archive_errors import ExportFileError
from ..model.codec import CURRENT_FORMAT, decode, format_of
from ..model.errors import (
    SessionExistsError,
    SessionGoneError,
    SessionNotFoundError,
    SessionTooNewError,
    StoreCorruptError,
)
from ..model.messages import UserMessage
from ..ports.artifact import Artifact
from ..ports.sealing import SealedStore
from ..ports.store import EncodedRecord, Head, InboxItem, StoredRecord
from ..ports.store_admin import SessionStore
from ..ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer
from .diagnosis import begins_well
from .journal import load_state
from .session_lines import (
    FORMAT,
    ArtifactLine,
    ChunkLine,
    DroppedLine,
    ExportEndLine,
    HeaderLine,
    ItemLine,
    KnownLine,
    Line,
    RecordLine,
    SessionEndLine,
    SessionLine,
    TimerLine,
    body_of,
    bytes_of,
    read_line,
)

LARGEST: Final = 2**63 - 1

LARGEST_SMALL: Final = 2**31 - 1
"""Of takeovers and versions, which some stores keep in 32 bits."""


class ImportReport(Struct):
    """What was stored, and what was not."""

    sessions: list[str] = field(default_factory=list[str])
    records: int = 0
    artifacts: int = 0
    interrupted: list[str] = field(default_factory=list[str])
    """Sessions with an open run, which `recover` goes on with."""
    skipped: list[str] = field(default_factory=list[str])
    """Ids that the store had, or had once."""
    paused_timers: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """(session id, timer id, when it was due): kept, and not fired until they are armed again."""


class _Unfinished:
    """A session of which lines are still coming."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.rows: list[StoredRecord] = []
        self.waiting: list[InboxItem] = []
        self.known: list[KnownItem] = []
        self.timers: list[StoredTimer] = []
        self.artifacts: list[Artifact] = []
        self.data: list[bytearray] = []

    def take(self, line: Line) -> None:
        """One line of the session."""
        match line:
            case RecordLine():
                self.rows.append(StoredRecord(line.position, line.kind, line.version, line.at, body_of(line)))
            case ItemLine():
                self.waiting.append(InboxItem(line.item_id, line.kind, body_of(line), line.at, line.seq))
            case KnownLine():
                self.known += [KnownItem(item_id, position) for item_id, position in line.items]
            case TimerLine():
                self.timers.append(StoredTimer(line.timer_id, line.due_at, body_of(line), line.paused))
            case ArtifactLine():
                made = (line.artifact_id, self.head.session_id, line.media_type, line.size, line.digest)
                self.artifacts.append(Artifact(*made))
                self.data.append(bytearray())
            case ChunkLine() if self.data:
                self.data[-1] += bytes_of(line.base64)
            case _:
                raise ExportFileError("it does not belong into a session")

    def image(self, timers: Sequence[StoredTimer]) -> SessionImage:
        """All of it, as a store takes it."""
        inventory = Inventory(
            structs.replace(self.head, owner=None, expires_in_s=0.0, base=None),
            tuple(sorted(self.waiting, key=lambda item: item.seq)),
            tuple(self.known),
            tuple(timers),
            tuple(self.artifacts),
        )
        records = tuple(EncodedRecord(row.kind, row.version, row.at, row.body) for row in self.rows)
        return SessionImage(inventory, records, tuple(bytes(data) for data in self.data))

    def open_with(self, store: SealedStore) -> None:
        """Sealed lines become plain ones. Raises what `SealedStore.opened` raises."""
        opened = store.opened(self.image(self.timers))
        whole = opened.inventory
        self.head = whole.head
        self.rows = [structs.replace(row, body=one.body) for row, one in zip(self.rows, opened.records, strict=True)]
        self.waiting, self.timers, self.artifacts = list(whole.waiting), list(whole.timers), list(whole.artifacts)
        self.data = [bytearray(data) for data in opened.artifact_data]


class Importer:
    """One import. `report` says at any time what is stored already."""

    def __init__(self, store: SessionStore, *, skip_existing: bool = False, arm_timers: bool = False) -> None:
        self._store = store
        self._skip_existing = skip_existing
        self._arm_timers = arm_timers
        self._opener: SealedStore | None = None
        self.report = ImportReport()

    async def run(self, lines: Iterable[bytes]) -> ImportReport:
        """Stores the sessions of an export, one at a time, as they were: idle, waiting or interrupted, without a lease.

        Raises `ExportFileError` with the number of the line, `SessionExistsError`, `SessionTooNewError`, and of sealed lines
        `SealBrokenError`, `SealKeyError`; the session at that place was not stored, those before it were.
        """
        session: _Unfinished | None = None
        line: Line | None = None
        for number, text in enumerate(lines, 1):
            try:
                line = _checked(text, number, line)
                match line:
                    case HeaderLine():
                        self._opener = self._opener_of(line)
                    case ExportEndLine() if session is None:
                        pass
                    case SessionLine() if session is None:
                        session = _Unfinished(line.head)
                    case SessionEndLine() | DroppedLine() if session and session.head.session_id == line.session_id:
                        if isinstance(line, SessionEndLine):
                            await self._finish(session)
                        session = None
                    case _ if session is not None:
                        session.take(line)
                    case _:
                        raise ExportFileError("it stands outside of a session")
            except ExportFileError as error:
                raise ExportFileError(f"line {number}: {error}; {self._so_far()}") from error
        if not isinstance(line, ExportEndLine):
            raise ExportFileError(f"the file ends before its last line, so some of it is missing; {self._so_far()}")
        return self.report

    async def clashes(self, lines: Iterable[bytes]) -> list[str]:
        """Ids of the file's sessions that the store has, or had once. Raises `ExportFileError` for a file that is not an
        export, is newer, or is not whole; nothing is stored."""
        found: list[str] = []
        text = b""
        for number, text in enumerate(lines, 1):
            if number == 1:
                self._opener_of(_checked(text, number, None))
            elif text.startswith(b'{"type":"session",'):
                line = read_line(text)
                if isinstance(line, SessionLine) and await self._is_known(line.head.session_id):
                    found.append(line.head.session_id)
        if not text.startswith(b'{"type":"export_end"'):
            raise ExportFileError("the file ends before its last line, so some of it is missing; nothing was stored")
        return found

    async def _finish(self, session: _Unfinished) -> None:
        sid = session.head.session_id
        if self._skip_existing and await self._is_known(sid):
            self.report.skipped.append(sid)
            return
        if self._opener is not None:
            session.open_with(self._opener)
        await _check(session)
        for artifact in session.artifacts:
            known = await self._store.artifact(artifact.artifact_id)
            if known is not None and known.digest != artifact.digest:
                raise ExportFileError(f"the store has another session's artifact {artifact.artifact_id}")
        timers = [structs.replace(one, paused=not self._arm_timers) for one in session.timers]
        try:
            await self._store.restore(session.image(timers))
        except SessionExistsError:
            if not self._skip_existing:
                raise
            self.report.skipped.append(sid)
            return
        self.report.sessions.append(sid)
        self.report.records += len(session.rows)
        self.report.artifacts += len(session.artifacts)
        if session.head.status == "running":
            self.report.interrupted.append(sid)
        self.report.paused_timers += [(sid, one.timer_id, one.due_at) for one in timers if one.paused]

    def _opener_of(self, header: Line) -> SealedStore | None:
        """What opens the lines of this file; None when they are plain. Raises `ExportFileError` when nothing can."""
        if not isinstance(header, HeaderLine) or not header.sealed:
            return None
        if not isinstance(self._store, SealedStore):
            raise ExportFileError(
                "it is encrypted; open the store with the keys of the one that it comes from (`EncryptedStore`,"
                " LOOPWRIGHT_KEY_FILE)"
            )
        return self._store

    async def _is_known(self, session_id: str) -> bool:
        try:
            await self._store.lookup(session_id)
        except SessionGoneError:
            return True
        except SessionNotFoundError:
            return False
        return True

    def _so_far(self) -> str:
        count = len(self.report.sessions)
        return f"{count} session{'' if count == 1 else 's'} before it {'is' if count == 1 else 'are'} stored"


def _checked(text: bytes, number: int, before: Line | None) -> Line:
    """The line, at a place where it may stand."""
    line = read_line(text)
    if (number == 1) is not isinstance(line, HeaderLine):
        raise ExportFileError("it is no export of sessions: the first line, and no other, is its header")
    if isinstance(line, HeaderLine) and line.format > FORMAT:
        raise ExportFileError(
            f"it was written in format {line.format} by loopwright {line.library}, this version reads up to {FORMAT};"
            " upgrade loopwright"
        )
    if isinstance(before, ExportEndLine):
        raise ExportFileError("it stands behind the end of the export")
    return line


async def _check(session: _Unfinished) -> None:
    """Raises when the parts of a session do not fit each other, or a record cannot be read or folded."""
    head, sid = session.head, session.head.session_id
    if head.min_format > CURRENT_FORMAT:
        raise SessionTooNewError(sid, head.min_format, CURRENT_FORMAT)
    seqs = [item.seq for item in session.waiting]
    ids = [item.item_id for item in session.waiting] + [one.item_id for one in session.known]
    names = [one.timer_id for one in session.timers], [one.artifact_id for one in session.artifacts]
    formats = [format_of(row.kind, row.version) for row in session.rows]
    problems = {
        # Lengths first: the head may claim more records than fit into memory.
        "its records are not those from 0 to the head's position": len(session.rows) != head.position
        or any(row.position != n for n, row in enumerate(session.rows)),
        "a number of its head is out of range": not _fits(head),
        "a version or time is out of range": not all(0 <= row.version <= LARGEST_SMALL for row in session.rows)
        or not all(map(math.isfinite, _times(session))),
        "its window or checkpoint is behind the end": head.window_start > head.position
        or (head.checkpoint is not None and head.checkpoint >= head.position),
        "its inbox numbers do not fit": len(set(seqs)) < len(seqs) or not all(0 < n <= head.inbox_seq for n in seqs),
        "an id of the inbox, a timer or an artifact is there twice": any(len(set(n)) < len(n) for n in (ids, *names)),
        "an inbox item was taken behind the end": not all(0 <= one.position <= head.position for one in session.known),
        "its format is older than its records": max(formats, default=1) > head.min_format,
    }
    for artifact, data in zip(session.artifacts, session.data, strict=True):
        same = artifact.size == len(data) and artifact.digest == hashlib.sha256(data).hexdigest()
        problems[f"the bytes of artifact {artifact.artifact_id} are not those that were stored"] = not same
    found = [what for what, wrong in problems.items() if wrong]
    if found:
        raise ExportFileError(f"session {sid!r} is damaged: {'; '.join(found)}")
    _check_said(session)
    try:
        fits = await begins_well(head, session.rows, await load_state(sid, session.rows))
    except StoreCorruptError as error:
        raise ExportFileError(str(error)) from error
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        raise ExportFileError(f"session {sid!r} is damaged: its records do not fit each other ({error})") from error
    if not fits:
        raise ExportFileError(f"session {sid!r} is damaged: its window does not begin at {head.window_start}")


def _fits(head: Head) -> bool:
    """True when every store can hold the numbers of this head."""
    counts = (head.position, head.window_start, head.checkpoint or 0, head.epoch, head.inbox_seq, head.sends)
    large = (*counts, *[int(n) for n in structs.astuple(head.usage)])
    return all(0 <= n <= LARGEST for n in large) and all(
        0 <= n <= LARGEST_SMALL for n in (head.takeovers, head.min_format)
    )


def _times(session: _Unfinished) -> list[float]:
    """Every time that the session has."""
    head, stamped = session.head, [row.at for row in session.rows]
    stamped += [item.at for item in session.waiting]
    return [head.created_at, head.updated_at, *stamped, *[timer.due_at for timer in session.timers]]


def _check_said(session: _Unfinished) -> None:
    """Raises when what an inbox item or a timer will say is no user message: a run would stop at it each time."""
    said = [(f"inbox item {one.item_id!r}", one.body) for one in session.waiting if one.kind != "stop"]
    for what, body in (*said, *[(f"timer {one.timer_id!r}", one.body) for one in session.timers]):
        try:
            decode(body, UserMessage)
        except StoreCorruptError as error:
            raise ExportFileError(f"session {session.head.session_id!r} is damaged: {what}: {error}") from error
