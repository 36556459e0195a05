"""Exported sessions as JSON lines: what each line holds, and lines into bytes and back.

Owns: the form of the file, its version. Must not know: stores, files.
A stored body that is JSON on one line stands in its line as it is, byte for byte; any other one as base64.
Read next: `exporting.py`, `importing.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec
from msgspec import Struct, structs

from ..model.archive_errors import ExportFileError
from ..model.codec import decode, encode
from ..model.errors import StoreCorruptError
from ..ports.store import Head

FORMAT: Final = 2
"""The newest form of the file that this version reads."""

PLAIN_FORMAT: Final = 1
"""What is written unless the lines are sealed, which readers of this form do not know."""

CHUNK_BYTES: Final = 192 * 1024
"""Bytes of an artifact on one line."""

IDS_A_LINE: Final = 500

_NO_BODY: Final = msgspec.Raw(b"")
_BODY: Final = b',"body":'


class HeaderLine(Struct, frozen=True, tag_field="type", tag="loopwright_export", omit_defaults=True):
    """The first line."""

    format: int
    library: str
    """Version of the library that wrote it."""
    at: float
    sealed: bool = False
    """Bodies, titles and artifacts are encrypted as they were in their store; the keys are needed to read them."""


class SessionLine(Struct, frozen=True, tag_field="type", tag="session"):
    """A session begins: its head, as one that nobody holds."""

    head: Head
    children: tuple[str, ...] = ()
    """Ids of its child sessions, for readers: the link itself is each child's `parent_id`."""


class RecordLine(Struct, frozen=True, tag_field="type", tag="record", omit_defaults=True):
    """A record; positions run from 0 without gaps."""

    position: int
    kind: str
    version: int
    at: float
    body: msgspec.Raw = _NO_BODY
    base64: str | None = None


class ItemLine(Struct, frozen=True, tag_field="type", tag="item", omit_defaults=True):
    """An inbox item that waits."""

    item_id: str
    kind: str
    at: float
    seq: int
    body: msgspec.Raw = _NO_BODY
    base64: str | None = None


class KnownLine(Struct, frozen=True, tag_field="type", tag="known"):
    """Ids of inbox items that were taken, and where."""

    items: tuple[tuple[str, int], ...]


class TimerLine(Struct, frozen=True, tag_field="type", tag="timer", omit_defaults=True):
    """A timer."""

    timer_id: str
    due_at: float
    paused: bool = False
    body: msgspec.Raw = _NO_BODY
    base64: str | None = None


class ArtifactLine(Struct, frozen=True, tag_field="type", tag="artifact"):
    """An artifact begins; its bytes follow in chunks."""

    artifact_id: str
    media_type: str
    size: int
    digest: str


class ChunkLine(Struct, frozen=True, tag_field="type", tag="chunk"):
    """The next bytes of the artifact."""

    base64: str


class SessionEndLine(Struct, frozen=True, tag_field="type", tag="session_end"):
    """All of the session was said."""

    session_id: str


class DroppedLine(Struct, frozen=True, tag_field="type", tag="dropped"):
    """The session that was begun could not be read to its end (it was deleted meanwhile); what was said of it is void."""

    session_id: str


class ExportEndLine(Struct, frozen=True, tag_field="type", tag="export_end"):
    """The last line."""

    sessions: int


Line: TypeAlias = (
    HeaderLine
    | SessionLine
    | RecordLine
    | ItemLine
    | KnownLine
    | TimerLine
    | ArtifactLine
    | ChunkLine
    | SessionEndLine
    | DroppedLine
    | ExportEndLine
)
BodyLine: TypeAlias = RecordLine | ItemLine | TimerLine

_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


def written(line: Line) -> bytes:
    """The bytes of a line without a body."""
    return encode(line) + b"\n"


def written_with(line: BodyLine, body: bytes) -> bytes:
    """The bytes of a line with its stored body."""
    start = encode(line)[:-1]
    plain = b"".join((start, _BODY, body, b"}\n"))
    if body and body.count(b"\n") + body.count(b"\r") == 0 and _reads_back(plain, body):
        return plain
    return b"".join((start, b',"base64":"', base64.b64encode(body), b'"}\n'))


def _reads_back(line: bytes, body: bytes) -> bool:
    try:
        line.decode("utf-8")
        found = read_line(line)
    except (ExportFileError, UnicodeDecodeError):
        return False
    return isinstance(found, RecordLine | ItemLine | TimerLine) and bytes(found.body) == body


def read_line(line: bytes) -> Line:
    """The line that these bytes are. Raises `ExportFileError`."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise ExportFileError(f"it is no line of an export: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_slowly(line)


def body_of(line: BodyLine) -> bytes:
    """The stored body of a line, byte for byte. Raises `ExportFileError`."""
    return bytes_of(line.base64) if line.base64 is not None else bytes(line.body)


def bytes_of(text: str) -> bytes:
    """What base64 holds. Raises `ExportFileError`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ExportFileError(f"its base64 is damaged: {error}") from error


def chunks(data: bytes) -> Iterator[ChunkLine]:
    """The lines of some of an artifact's bytes."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield ChunkLine(base64.b64encode(data[start : start + CHUNK_BYTES]).decode("ascii"))


def _read_slowly(line: bytes) -> Line:
    """A line with strings that UTF-8 cannot hold: they are escapes in JSON, which only the standard library reads."""
    start, found, rest = line.rstrip().partition(_BODY)
    body = rest[:-1] if found else b""
    try:
        if found:
            json.loads(body, parse_constant=_refuse_constant)
        read = cast("Line", decode(start + b"}" if found else start, cast("Any", Line)))
    except (StoreCorruptError, ValueError, RecursionError) as error:
        raise ExportFileError(f"it is no line of an export: {error}") from error
    if found and isinstance(read, RecordLine | ItemLine | TimerLine):
        return structs.replace(read, body=msgspec.Raw(body))
    return read


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
