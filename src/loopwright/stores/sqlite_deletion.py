"""Which sessions go from a SQLite file, and what others get of them first.

Owns: tombstones, families, forks of what goes, artifacts that somebody else holds. Must not know: transactions, threads.
Read next: `sqlite_forks.py`, `sqlite_upkeep.py` (the rows that are left behind).
"""

from __future__ import annotations

from ..model.archive_errors import SessionReferencedError
from . import sqlite_statements as sql
from .sqlite_forks import finder, let_have
from .sqlite_money import spend_of
from .sqlite_schema import Execute


def bury(execute: Execute, session_id: str, *, cascade: bool, copy_to_forks: bool = False) -> int:
    """Tombstones a session and, with `cascade`, its descendants that are not detached; answers how many went.

    The head row is gone with this transaction, and with it every lease: that is the fence. Raises
    `SessionReferencedError` before anything is written; see `StoreAdmin.delete`.
    """
    going, freed = [session_id], list[str]()
    for parent in going:
        for child, lifecycle in execute(sql.CHILDREN, (parent,)).fetchall():
            if cascade and lifecycle != "detached":
                if child not in going:
                    going.append(child)
            else:
                freed.append(child)
    _free_forks(execute, session_id, going, copy=copy_to_forks)
    for child in freed:
        execute(sql.ORPHAN, (child,))
    find = finder(execute)
    keys = [find(gone).key for gone in going]
    for key in keys:
        execute(sql.DROP_SHARES, (key,))
    for gone, key in zip(going, keys, strict=True):
        for id_, heir, heir_id in execute(sql.HEIRS, (key,)).fetchall():
            execute(sql.PASS_ON, (id_, heir, heir_id))
            execute(sql.DROP_SHARE, (id_, heir))
        spend_of(execute, gone)
        execute(sql.BURY, (gone,))
        execute(sql.DELETE_SESSION, (gone,))
    return len(going)


def _free_forks(execute: Execute, session_id: str, going: list[str], *, copy: bool) -> None:
    staying = sorted(
        fork for gone in going for _, fork, _ in execute(sql.FORKS, (gone,)).fetchall() if fork not in going
    )
    if staying and not copy:
        raise SessionReferencedError(session_id, staying)
    find = finder(execute)
    for fork in staying:
        place = find(fork)
        # The base of the base may go as well.
        while place.base is not None and place.base.session_id in going:
            place = let_have(execute, place, find(place.base.session_id))
