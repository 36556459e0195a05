"""Statements and values as one text for a MySQL server, whose arrays and pipelines are text.

Owns: the marks in statements, literals, what several rows of one statement look like. Must not know: sessions, the driver.
Literals are right for a connection in utf8mb4 whose sql_mode leaves the backslash its meaning; `mysql.py` sets both.
Read next: `mysql_statements.py` for the marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from ..model.errors import UsageError
from .server_dialect import text_in

PART_BYTES: Final = 1_000_000
"""Rows are sent together up to this size."""

_MARK: Final = re.compile(r"\$(\d+)(\[\]|\?|\|\$\d+)?")


def filled(statement: str, values: Sequence[Any]) -> bytes:
    """The statement with its values: `$1` one, `$1[]` a list in brackets, `$1?` whether there is one, `$1|$2` pairs."""
    if not values:
        return statement.encode()
    parts: list[bytes] = []
    for text, n, how in _marks(statement):
        parts.append(text)
        if n >= 0:
            parts.append(_written(values, n, how))
    return b"".join(parts)


def filled_many(statement: str, rows: Sequence[Sequence[Any]], largest: int = 0) -> Iterator[bytes]:
    """The statement for each row, in texts of bounded size: an INSERT with many rows, or many statements.

    A text with more than one row has at most `PART_BYTES`, and fewer than `largest` where that is not 0.
    """
    head, found, tail = statement.partition(" VALUES ")
    one, start, between = (tail, f"{head} VALUES ".encode(), b", ") if found else (statement, b"", b";\n")
    limit = min(PART_BYTES, largest - 1) - len(start) if largest else PART_BYTES
    gathered: list[bytes] = []
    size = 0
    for row in rows:
        text = filled(one, row)
        if gathered and size + len(text) > limit:
            yield start + between.join(gathered)
            gathered, size = [], 0
        gathered.append(text)
        size += len(text) + len(between)
    if gathered:
        yield start + between.join(gathered)


def literal(value: Any) -> bytes:
    """One value as the server reads it back unchanged."""
    if value is None:
        return b"NULL"
    if isinstance(value, str):
        return b"'" + _escaped(_text(value).encode()) + b"'"
    if isinstance(value, bytes | bytearray | memoryview):
        return b"_binary'" + _escaped(bytes(cast("bytes", value))) + b"'"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float) and math.isfinite(value):
        text = repr(value)
        return (text if "e" in text else f"{text}e0").encode()
    raise UsageError(f"{value!r} cannot be stored on a MySQL server; nothing was written")


def _text(value: str) -> str:
    """Text with nothing in it that the server would lose: its comparison takes no notice of spaces at the end."""
    marked = text_in(value)
    return f"{marked[:-1]}\x1a0020" if marked.endswith(" ") else marked


def _escaped(data: bytes) -> bytes:
    return data.replace(b"\\", b"\\\\").replace(b"'", b"\\'")


def _written(values: Sequence[Any], n: int, how: str) -> bytes:
    value = values[n]
    if how == "":
        return literal(value)
    if how == "?":
        return b"0" if value is None else b"1"
    if how == "[]":
        return b"(" + (b", ".join(map(literal, value)) if value else b"NULL") + b")"
    pairs = zip(value, values[int(how[2:]) - 1], strict=True)
    return b" UNION ALL ".join(b"SELECT " + literal(a) + b" AS a, " + literal(b) + b" AS b" for a, b in pairs)


@lru_cache(maxsize=256)
def _marks(statement: str) -> tuple[tuple[bytes, int, str], ...]:
    """The text before each mark, the index of its value, and how it is written; at last what follows, with -1."""
    found: list[tuple[bytes, int, str]] = []
    end = 0
    for mark in _MARK.finditer(statement):
        found.append((statement[end : mark.start()].encode(), int(mark[1]) - 1, mark[2] or ""))
        end = mark.end()
    return (*found, (statement[end:].encode(), -1, ""))
