"""Artifacts in rows of 256 KiB: which rows hold which bytes.

Owns: the slicing, the same in every SQL store. Must not know: any database.
Read next: `sqlite_artifacts.py`, `server_reads.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..model.errors import StoreCorruptError

SLICE_BYTES: Final = 256 * 1024


def damage_of(artifact_id: str, size: object, rows: int, held: int) -> tuple[str, str]:
    """What `check` says of an artifact whose rows are not those of its size, and what to do."""
    what = f"artifact {artifact_id} has {size} bytes, and its {rows} rows hold {held}: some are missing or changed"
    return what, "put the same bytes into the session again, which writes them anew, or restore a backup"


def slices(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of each row."""
    for n, start in enumerate(range(0, len(data), SLICE_BYTES)):
        yield n, data[start : start + SLICE_BYTES]


def rows_of(size: int, offset: int, limit: int | None) -> range:
    """The numbers of the rows that hold `limit` bytes from `offset` of an artifact; empty past its end."""
    stop = _stop(size, offset, limit)
    return range(offset // SLICE_BYTES, (stop - 1) // SLICE_BYTES + 1) if offset < stop else range(0)


def bytes_of(artifact_id: str, parts: Sequence[Sequence[Any]], *, size: int, offset: int, limit: int | None) -> bytes:
    """Those bytes, from the (number, bytes) of `rows_of`. Raises `StoreCorruptError` when a row is missing or short."""
    rows, stop = rows_of(size, offset, limit), _stop(size, offset, limit)
    data = b"".join([bytes(part) for _, part in parts])
    skipped = rows.start * SLICE_BYTES
    # Counted first: a size that was changed may stand for more rows than fit into memory.
    if len(parts) != len(rows) or [n for n, _ in parts] != list(rows) or len(data) < stop - skipped:
        raise StoreCorruptError(
            f"artifact {artifact_id!r} lacks some of its rows {rows.start} to {rows.stop - 1}; restore a backup"
        )
    return data[offset - skipped : stop - skipped]


def _stop(size: int, offset: int, limit: int | None) -> int:
    return size if limit is None else min(size, offset + limit)
