"""Forks in an encrypted store: whose each record is that a fork reads.

A record opens as that of the session that wrote it, wherever it is kept: in the base, or in the fork once it was copied
there. So a fork's first own record carries, sealed with it and bound to its place, the fork's *lineage*: which sessions have
the records before it. Nothing else is believed, since whoever can write to the database can change what a head says.
Owns: the lineage, how it is found. Must not know: ciphers, any particular store.
Read next: `encrypted_values.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from ..ports.store import ForkPoint, Head, StoredRecord

Lineage: TypeAlias = tuple[ForkPoint, ...]
"""Oldest first: each session has the records before its position and behind those of the one before it. Empty: no fork."""

Lineages: TypeAlias = Mapping[str, Lineage]
"""Those of the sessions that are to be forked, by id."""

Search: TypeAlias = Generator[int, StoredRecord, Lineage]
"""Yields positions, wants their records, returns the lineage."""

_KNOWN: Final = 1024
"""Forks whose lineage is remembered; it never changes."""


class LineageReader(Protocol):
    """What can say of a stored record whose it is."""

    def is_own(self, session_id: str, row: StoredRecord) -> bool:
        """True when it is one of this session's, and not the first of a fork."""
        ...

    def lineage_in(self, session_id: str, row: StoredRecord) -> Lineage:
        """The lineage that it carries when it is the first own record of this session; empty when it is not."""
        ...


def owner_at(lineage: Lineage, session_id: str, position: int) -> str:
    """The session whose record stands at this position of a fork."""
    return next((one.session_id for one in lineage if position < one.position), session_id)


def begins_at(lineage: Lineage, position: int) -> bool:
    """True when the record at this position is the first own one of its session."""
    return any(one.position == position for one in lineage)


def lineage_from(lineage: Lineage, base: ForkPoint) -> Lineage:
    """The lineage of a fork that leaves a session of this lineage here."""
    found: list[ForkPoint] = []
    for one in lineage:
        found.append(ForkPoint(one.session_id, min(one.position, base.position)))
        if one.position >= base.position:
            return tuple(found)
    return (*found, base)


def lineage_search(reader: LineageReader, session_id: str, start: int, end: int) -> Search:
    """Finds the lineage of a session of `end` records, of which those before `start` are not its own.

    The first own record is at `start`, unless the session that was the base is deleted and its records were copied: then
    those at the beginning are still another's, and the first own one is found by halving.
    """
    if start >= end:
        return ()
    row = yield start
    if (lineage := reader.lineage_in(session_id, row)) or reader.is_own(session_id, row):
        return lineage
    while end - start > 1:
        middle = (start + end) // 2
        row = yield middle
        if found := reader.lineage_in(session_id, row):
            return found
        if reader.is_own(session_id, row):
            end = middle
        else:
            start = middle
    return ()


def lineage_among(reader: LineageReader, session_id: str, rows: Sequence[StoredRecord]) -> Lineage:
    """The lineage of a session of which all records are at hand."""
    search = lineage_search(reader, session_id, 0, len(rows))
    try:
        position = next(search)
        while True:
            position = search.send(rows[position])
    except StopIteration as done:
        lineage: Lineage = done.value
    return lineage


class StoredLineages:
    """The lineages of stored sessions."""

    def __init__(self, reader: LineageReader, read: Callable[[str, int], Awaitable[Sequence[StoredRecord]]]) -> None:
        """`read(session_id, position)` answers one stored record, or none."""
        self._reader = reader
        self._read = read
        self._found: dict[str, Lineage] = {}

    def known(self, session_id: str) -> Lineage:
        """The lineage if it is remembered; empty otherwise."""
        return self._found.get(session_id, ())

    async def find(self, head: Head) -> Lineage:
        """The lineage of this session. Cost: one record is read; of a fork whose base was deleted some more, once."""
        sid = head.session_id
        if known := self.known(sid):
            return known
        start = 0 if head.base is None else head.base.position
        search = lineage_search(self._reader, sid, start, head.position)
        try:
            position = next(search)
            while rows := await self._read(sid, position):
                position = search.send(rows[0])
            return ()
        except StopIteration as done:
            lineage: Lineage = done.value
        if lineage:
            if len(self._found) >= _KNOWN:
                del self._found[next(iter(self._found))]
            self._found[sid] = lineage
        return lineage
