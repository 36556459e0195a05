"""Journals that begin in another session: where a fork's records lie.

Owns: which session of a line of forks has which positions, once for all stores. Must not know: where anything is kept.
Read next: `ports/store.py` (`ForkPoint`), then `memory_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from ..model.errors import SessionMovedError, StoreCorruptError
from ..ports.store import ForkPoint

K = TypeVar("K")


class JournalPlace(Struct, Generic[K], frozen=True):
    """Where a session's own records are."""

    key: K
    """By which the store finds them."""
    position: int
    """Of its head."""
    base: ForkPoint | None


class JournalPart(Struct, Generic[K], frozen=True):
    """Positions that lie in one session."""

    key: K
    start: int
    stop: int
    """The first one behind them."""


def rooted(base: ForkPoint, find: Callable[[str], JournalPlace[K]]) -> ForkPoint:
    """The session that itself has the last record before the fork, found along the chain from `base`.

    So each session of the line adds a record at least. `find` raises for a session that is not there. Raises
    `SessionMovedError` when the base is shorter.
    """
    place = find(base.session_id)
    if not 0 < base.position <= place.position:
        raise SessionMovedError(base.session_id, expected=base.position, actual=place.position)
    while place.base is not None and base.position <= place.base.position:
        base = ForkPoint(place.base.session_id, base.position)
        place = find(base.session_id)
    return base


def parts(
    own: JournalPlace[K], start: int, stop: int, find: Callable[[str], JournalPlace[K] | None]
) -> list[JournalPart[K]]:
    """Where the positions from `start` to before `stop` lie, in order. Raises `StoreCorruptError` when a base is gone."""
    found: list[JournalPart[K]] = []
    place = own
    while place.base is not None and start < place.base.position:
        base = place.base
        if base.position < stop:
            found.append(JournalPart(place.key, base.position, stop))
            stop = base.position
        next_ = find(base.session_id)
        if next_ is None or next_.position < base.position:
            raise StoreCorruptError(
                f"session {base.session_id!r} has not the records before position {base.position} that a fork reads of"
                " it; restore a backup"
            )
        place = next_
    found.append(JournalPart(place.key, start, stop))
    found.reverse()
    return found
