"""Forks in a SQLite file: finding the links of a chain, and giving a fork what it reads of its base.

Owns: rows of other sessions that belong to a fork. Must not know: threads, event loops, leases.
Read next: `forks.py`, `sqlite_deletion.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from ..model.errors import SessionGoneError, SessionNotFoundError
from ..ports.store import ForkPoint
from . import sqlite_statements as sql
from .forks import JournalPart, JournalPlace, parts
from .references import artifact_ids_in
from .sqlite_schema import Execute


def place_of(execute: Execute, session_id: str) -> JournalPlace[int] | None:
    """Where a session's own records are; None when it is not there."""
    row = execute(sql.KEY_AND_POSITION, (session_id,)).fetchone()
    return None if row is None else as_place(*row)


def as_place(key: int, position: int, base_id: str | None, base_position: int) -> JournalPlace[int]:
    """The place that a row of `KEY_AND_POSITION` says."""
    return JournalPlace(key, position, None if base_id is None else ForkPoint(base_id, base_position))


def finder(execute: Execute) -> Callable[[str], JournalPlace[int]]:
    """`place_of` that raises `SessionGoneError` or `SessionNotFoundError` for a session that is not there."""

    def find(session_id: str) -> JournalPlace[int]:
        place = place_of(execute, session_id)
        if place is None:
            gone = execute(sql.IS_GONE, (session_id,)).fetchone()
            raise SessionGoneError(session_id) if gone else SessionNotFoundError(session_id)
        return place

    return find


def parts_of(execute: Execute, own: JournalPlace[int], start: int, stop: int) -> list[JournalPart[int]]:
    """Where these positions lie."""
    return parts(own, start, stop, lambda session_id: place_of(execute, session_id))


def names_before(execute: Execute, own: JournalPlace[int]) -> set[str]:
    """Ids of artifacts that stand in the records which a fork reads of its base."""
    if own.base is None:
        return set()
    return _names(execute, parts_of(execute, own, 0, own.base.position))


def let_have(execute: Execute, fork: JournalPlace[int], base: JournalPlace[int]) -> JournalPlace[int]:
    """Gives a fork the own records of its base that it reads, and a hold on the artifacts in them; answers the fork's
    new place: it reads on where the base does, or has everything now."""
    assert fork.base is not None
    first, stop = (0 if base.base is None else base.base.position), fork.base.position
    execute(sql.COPY_RECORDS, (fork.key, base.key, first, stop))
    share(execute, fork.key, _names(execute, [JournalPart(base.key, first, stop)]))
    further = (None, None) if base.base is None else (base.base.session_id, base.base.position)
    execute(sql.REBASE, (fork.key, *further))
    return JournalPlace(fork.key, fork.position, base.base)


def share(execute: Execute, key: int, names: Iterable[str]) -> None:
    """From now on this session holds these artifacts as well, where they are another session's."""
    execute(sql.SHARE_ARTIFACTS, (key, json.dumps(sorted(names))))


def _names(execute: Execute, parts: Iterable[JournalPart[int]]) -> set[str]:
    named: set[str] = set()
    for part in parts:
        first = part.key << 32
        for (body,) in execute(sql.NAMING_ARTIFACTS, (first | part.start, first | part.stop)):
            named |= artifact_ids_in(body)
    return named
