"""Bytes of a file as text and back, without changing what was not meant to change.

Owns: text or binary, byte-order mark, line ends, stamps of what a session has read. Must not know: paths, diffs.
Read next: `edit_file.py`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from typing import NamedTuple, cast

from ..model.call_errors import ToolFailure
from ..ports.tool import ToolContext

BOM = b"\xef\xbb\xbf"
MAX_EDIT_BYTES = 16 * 1024 * 1024
"""Larger files are not edited by tools that hold them in memory."""
MAX_STAMPS = 2_000
"""Files whose last-read state a session remembers; the oldest go first."""

_SCRATCH_KEY = "loopwright.files_read"


class TextFile(NamedTuple):
    """A UTF-8 file as text with `\\n` line ends, and what is needed to write changes back into the original."""

    text: str
    """Without byte-order mark, `\\r\\n` read as `\\n`."""
    original: str
    """As stored, without byte-order mark."""
    bom: bool
    newline: str
    """The line end that most lines have; new lines get it."""
    crlf_at: tuple[int, ...]
    """Indices in `text` of the line ends that are stored as `\\r\\n`."""

    def spliced(self, spans: list[tuple[int, int, str]]) -> bytes:
        """The file's bytes with each span `(start, end, replacement)` of `text` replaced; spans are ordered and apart.

        Everything outside of the spans is kept byte for byte, mixed line ends included.
        Raises: `ToolFailure` when a replacement cannot be written as UTF-8.
        """
        pieces: list[str] = []
        done = 0
        for start, end, replacement in spans:
            pieces.append(self.original[done : self._stored(start)])
            pieces.append(replacement.replace("\r\n", "\n").replace("\n", self.newline))
            done = self._stored(end)
        pieces.append(self.original[done:])
        return (BOM if self.bom else b"") + encode("".join(pieces))

    def _stored(self, index: int) -> int:
        return index + bisect_left(self.crlf_at, index)


def encode(text: str) -> bytes:
    """UTF-8 bytes. Raises: `ToolFailure` for a lone surrogate, which no file can hold."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailure(
            f"the text cannot be written as UTF-8: character {error.start} is half of a surrogate pair; send the whole character"
        ) from error


def decode_for_edit(data: bytes, path: str) -> TextFile:
    """A file to be edited. Raises: `ToolFailure` when it is not UTF-8 text, since writing it back would corrupt it."""
    if b"\0" in data:
        raise ToolFailure(
            f"{path} is a binary file{_encoding_hint(data)}; it was not changed. Use a program made for it."
        )
    bom = data.startswith(BOM)
    try:
        original = data[len(BOM) if bom else 0 :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailure(
            f"{path} is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}); it was not changed,"
            " since editing would corrupt it. Convert it first, for example with iconv."
        ) from error
    crlf_at: list[int] = []
    found = original.find("\r\n")
    while found >= 0:
        crlf_at.append(found - len(crlf_at))
        found = original.find("\r\n", found + 2)
    newline = "\r\n" if 2 * len(crlf_at) > original.count("\n") else "\n"
    return TextFile(original.replace("\r\n", "\n"), original, bom, newline, tuple(crlf_at))


def decode_for_reading(data: bytes, path: str) -> tuple[str, str]:
    """Text to show and a note about it ("" when it is plain UTF-8).

    Raises: `ToolFailure` for binary data. UTF-8 of any script is text; other encodings are shown with replacement characters.
    """
    if b"\0" in data:
        raise ToolFailure(
            f"{path} is a binary file{_encoding_hint(data)} of {len(data)} bytes; it cannot be shown as text"
        )
    body = data.removeprefix(BOM)
    try:
        return body.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        controls = sum(byte < 9 or 13 < byte < 32 for byte in body[:8192])
        if controls * 10 > len(body[:8192]):
            raise ToolFailure(f"{path} is a binary file of {len(data)} bytes; it cannot be shown as text") from error
        return body.decode(
            "utf-8", "replace"
        ), "not UTF-8: unreadable bytes are shown as \N{REPLACEMENT CHARACTER}, editing is refused"


def _encoding_hint(data: bytes) -> str:
    return " (it looks like UTF-16)" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""


def stamp_of(data: bytes) -> str:
    """What identifies a file's content; a digest, since times are too coarse to notice two writes in a row."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def remember(context: ToolContext, root: str, path: str, stamp: str) -> None:
    """Notes that the session knows this content of `path`, a resolved path below `root`."""
    stamps = _stamps(context)
    stamps.pop(f"{root}\0{path}", None)
    stamps[f"{root}\0{path}"] = stamp
    while len(stamps) > MAX_STAMPS:
        stamps.pop(next(iter(stamps)), None)


def known_stamp(context: ToolContext, root: str, path: str) -> str | None:
    """The content that the session last saw or wrote; None when it never did in this process."""
    return _stamps(context).get(f"{root}\0{path}")


def _stamps(context: ToolContext) -> dict[str, str]:
    return cast("dict[str, str]", context.scratch.setdefault(_SCRATCH_KEY, {}))
