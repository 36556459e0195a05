"""What a claim finds in a SQLite file: open work that nobody alive does, timers that are due.

Owns: `claimable`, and which owners that are gone left sessions behind. Must not know: threads, leases' rules.
An index of all that runs would change twice with every send, which costs a short send 2 to 3 % of its time. So only what
runs and is free is in an index; what somebody holds is found by its owner: one who lives keeps it anyway, and for one who
is gone the heads are looked through, until nothing of theirs is left.
Read next: `sqlite_statements.py`.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from ..ports.store import Claimable, ClaimQuery, DueTimer
from . import sqlite_statements as sql
from .derived import head_of, soonest, timer_names
from .sqlite_reads import Owners
from .sqlite_schema import Execute

Seen: TypeAlias = tuple[str, float, tuple[str, ...], int]
"""An owner that is gone, when its heartbeat ended, and of which agents and formats it holds nothing."""

_BEFORE: Final = ("", 0.0)
"""Stands for owners without a heartbeat, which versions before 5 could leave."""


class LeftBehind:
    """Sessions of owners that are gone. An owner without a new heartbeat takes no lease, so what was looked at once stays
    true. Concurrency: one thread at a time."""

    def __init__(self) -> None:
        self._nothing_left: set[Seen] = set()

    def exists(self, execute: Execute, owners: Owners, query: ClaimQuery) -> bool:
        """Whether an owner that is gone holds a session that is asked for."""
        asked = query.agent_names, query.max_format
        gone = {(owner, expires, *asked) for owner, expires in owners.gone()}
        if execute(sql.WAS_OLDER).fetchone():
            gone.add((*_BEFORE, *asked))
        if gone <= self._nothing_left:
            return False
        rows = execute(sql.HOLDERS, (json.dumps(query.agent_names), query.max_format)).fetchall()
        left = {owner for (owner,) in rows} - set(owners.alive())
        there = {one[:2] for one in gone}  # who is forgotten meanwhile needs no place here
        self._nothing_left = {one for one in self._nothing_left if one[:2] in there}
        self._nothing_left |= {one for one in gone if (one[0] not in left if one[0] else not left)}
        return bool(left)


def claimable(execute: Execute, query: ClaimQuery, left_behind: LeftBehind) -> Claimable:
    """See `Store.claim`."""
    owners = Owners(execute)
    names = json.dumps(query.agent_names)
    interrupted: list[tuple[Any, ...]] = []
    if not query.timers_only:
        statement = sql.INTERRUPTED_AND_LEFT if left_behind.exists(execute, owners, query) else sql.INTERRUPTED
        alive = json.dumps(owners.alive())
        interrupted = execute(statement, (names, alive, query.max_format, query.limit)).fetchall()
    due: list[DueTimer] = []
    later: list[float | None] = []
    for name in timer_names(query):
        asked = name, query.now, query.max_format, names
        due += [DueTimer(*row) for row in execute(sql.DUE, (*asked, query.limit)).fetchall()]
        later.append(execute(sql.NEXT_DUE, asked).fetchone()[0])
    heads = [head_of(row, owners.remaining_s) for row in interrupted]
    return Claimable(tuple(heads), *soonest(query, due, later))
