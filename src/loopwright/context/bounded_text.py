"""Reading one text file below a folder: bounded, never followed out of the folder, and why it cannot be used.

Owns: what counts as text, and the sentences that say what is wrong with a file. Must not know: what the text is for.
Read next: `skills.py`, `agents_md.py`.
"""

from __future__ import annotations

import codecs
import os
from typing import NamedTuple

from ..jail import Jail, NotRegularError, OutsideError


class UnusableText(Exception):
    """A file that is there cannot be used; whoever reads turns it into a problem or an error that names the file."""

    def __init__(self, why: str, remedy: str, line: int | None = None) -> None:
        self.why = why
        self.remedy = remedy
        self.line = line
        super().__init__(why)


class FileText(NamedTuple):
    """The text of a file, or its beginning."""

    text: str
    size: int
    """Bytes of the whole file."""
    taken: int
    """Bytes of the file that `text` shows."""


def read_text(jail: Jail, parts: tuple[str, ...], limit: int) -> FileText:
    """At most `limit` bytes of a UTF-8 file, cut before a character that does not fit; without a byte order mark.

    Raises: `FileNotFoundError` when there is nothing, `UnusableText` for what is there and is no readable text.
    """
    try:
        handle = jail.open_file(parts)
    except FileNotFoundError:
        raise
    except OutsideError as error:
        raise UnusableText("is a symbolic link that leads out of its folder", "put the file itself there") from error
    except (IsADirectoryError, NotRegularError) as error:
        raise UnusableText("is not a file", "put a text file there") from error
    except OSError as error:
        raise UnusableText(f"cannot be read ({error.strerror or error})", "correct its permissions") from error
    try:
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1)
    except OSError as error:
        raise UnusableText(f"cannot be read ({error.strerror or error})", "look after the disk") from error
    return _decoded(data[:limit], is_whole=len(data) <= limit, size=max(size, len(data)))


def _decoded(data: bytes, *, is_whole: bool, size: int) -> FileText:
    if b"\0" in data:
        raise UnusableText("is binary", "put a text file there", data[: data.index(b"\0")].count(b"\n") + 1)
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        text = decoder.decode(data, final=is_whole)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UnusableText("is not UTF-8", "save it as UTF-8", line) from error
    left = 0 if is_whole else len(decoder.getstate()[0])
    return FileText(text.replace("\r\n", "\n"), size, len(data) - left)
