"""Bytes of a page as they came: unpacked within a bound, told apart by their beginnings, and read as text.

Owns: these three. Must not know: HTTP, what becomes of the text.
What a server says about a page is a hint: pages have the wrong type, the wrong encoding, and bytes that unpack to a thousand
times their size. So the beginning of the bytes decides where it can, and unpacking stops at a limit.
Read next: `pictures.py`.
"""

from __future__ import annotations

import codecs
import re
import zlib
from typing import Final, Literal, TypeAlias

from .pictures import media_type_of

Kind: TypeAlias = Literal["html", "text", "pdf", "picture"]

_HTML_TYPES: Final = frozenset(("text/html", "application/xhtml+xml"))
_TEXT_TYPES: Final = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|toml|sql)|application/"
    r"(x-)?(ndjson|javascript|ecmascript|typescript|sh|yaml|tex|latex|httpd-php|json5|jsonl|rtf|x-subrip)|image/svg\+xml"
)
_MARKUP: Final = re.compile(
    rb"\s*(<!--.{0,1000}?-->\s*)*<(!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE | re.DOTALL
)
_META: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# No encodings of pages: some of them take time that grows with the square of the length.
_NOT_OF_PAGES: Final = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7", "mbcs")
)
# What the WHATWG standard reads under these names.
_READ_AS: Final = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}


def unpacked(data: bytes, encoding: str, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of `data` without its packing, and whether there is more; packing cut short is no fault.

    Raises: `ValueError` for an encoding that was not asked for, or bytes that are not packed so.
    """
    if encoding == "":
        return data[:limit], len(data) > limit
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"it is packed as {encoding[:40]!r}, which was not asked for")
    try:
        return _inflated(data, limit, 47)  # finds out by itself whether it is gzip or zlib
    except zlib.error:
        if encoding != "deflate":
            raise ValueError("it does not unpack") from None
    try:
        return _inflated(data, limit, -15)  # some servers send the bare stream
    except zlib.error:
        raise ValueError("it does not unpack") from None


def _inflated(data: bytes, limit: int, window: int) -> tuple[bytes, bool]:
    reader = zlib.decompressobj(window)
    out = reader.decompress(data, limit)
    return out, bool(reader.unconsumed_tail) and bool(reader.decompress(reader.unconsumed_tail, 1))


def kind_of(media_type: str, data: bytes) -> Kind | None:
    """What a page is, by its bytes before what its server says; None for what nobody can read here."""
    if b"%PDF-" in data[:1024] and not media_type.startswith("text/"):
        return "pdf"
    if data.startswith(b"%PDF-"):
        return "pdf"
    if media_type_of(data) is not None:
        return "picture"
    if media_type in _HTML_TYPES:
        return "html" if _is_text(data) else None
    if not _is_text(data):
        return None
    if _TEXT_TYPES.fullmatch(media_type):
        return "text"
    if media_type in ("", "application/octet-stream", "application/unknown"):
        return "html" if _MARKUP.match(data[:4096]) else "text"
    return None


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:65_536] or any(data.startswith(mark) for mark, _ in _MARKS[1:])


def text_of_page(data: bytes, charset: str, *, markup: bool) -> str:
    """`data` as text: by its byte-order mark, what its server says, what it says itself, UTF-8, Windows-1252, in this order.

    What cannot be read is shown as U+FFFD. `markup`: it may name its encoding in itself.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    named = [charset]
    if markup:
        head = data[:4096]
        named += [found[1].decode("ascii") for found in (_XML.match(head), _META.search(head)) if found]
    for name in filter(None, named):
        codec = _codec(name)
        if codec is not None:
            return data.decode(codec, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page that was cut may end inside of a character.
        cut = error.start >= len(data) - 3 and error.reason == "unexpected end of data"
        return data.decode("utf-8" if cut else "cp1252", "replace")


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name)
        "".encode(found.name)  # refuses codecs that are not for text
    except (LookupError, ValueError, TypeError):
        return None
    if found.name.replace("_", "-") in _NOT_OF_PAGES:
        return None
    return _READ_AS.get(found.name, found.name)
