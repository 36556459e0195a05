"""What an operator does to a database: deleting in batches, looking for damage, closing.

Owns: deletion and its sweep, the check, giving up leases. Must not know: threads, event loops.
Read next: `sqlite_deletion.py` (`bury`), `sqlite_statements.py`.
"""

from __future__ import annotations

import json

import apsw

from ..model.errors import SessionGoneError, SessionNotFoundError
from ..ports.store_admin import StoreProblem
from . import ownership
from . import sqlite_statements as sql
from .budget_guard import budget_problem
from .slices import damage_of
from .sqlite_commits import CommitConnection
from .sqlite_deletion import bury


def delete(own: CommitConnection, session_id: str, *, cascade: bool, copy_to_forks: bool) -> int:
    """Fences and tombstones in one commit; the rows are left to `sweep`."""
    execute = own.execute
    execute("BEGIN IMMEDIATE")
    try:
        if execute(sql.KEY_AND_POSITION, (session_id,)).fetchone() is None:
            gone = execute(sql.IS_GONE, (session_id,)).fetchone()
            raise SessionGoneError(session_id) if gone else SessionNotFoundError(session_id)
        count = bury(execute, session_id, cascade=cascade, copy_to_forks=copy_to_forks)
        execute("COMMIT")
    except BaseException:
        _roll_back(own)
        raise
    return count


def sweep(own: CommitConnection) -> bool:
    """Removes one batch of rows of a deleted session; False when nothing is left to remove.

    A process that stops in between leaves the rest to the next sweep of anybody.
    """
    execute = own.execute
    found = execute(sql.UNSWEPT).fetchone()
    if found is None:
        return False
    session_id, key = found
    execute("BEGIN IMMEDIATE")
    try:
        changed = 0
        for statement in sql.SWEEP:
            before = own.connection.total_changes()
            execute(statement, (key,)).fetchall()
            changed += own.connection.total_changes() - before
        if not changed:
            execute(sql.SWEPT, (session_id,))
        execute("COMMIT")
    except BaseException:
        _roll_back(own)
        raise
    return True


def give_up(own: CommitConnection, owner: str) -> None:
    """Releases this owner's leases, its heartbeat, and rows of owners that died and hold nothing."""
    execute = own.execute
    execute("BEGIN IMMEDIATE")
    try:
        execute(sql.RELEASE, (owner,))
        execute(sql.FORGET_OWNER, (owner,))
        now = ownership.monotonic()
        rows = [ownership.OwnerRow(*row) for row in execute(sql.OWNERS).fetchall()]
        dead = [row.owner for row in rows if ownership.remaining_s(row, now) <= 0]
        if dead:
            execute(sql.FORGET_OWNERS, (json.dumps(dead),))
        execute("COMMIT")
    except BaseException:
        _roll_back(own)
        raise


def problems(own: CommitConnection) -> list[StoreProblem]:
    """Damage in pages, in journals' numbering, in heads, in artifacts; reads everything."""
    restore = "restore a backup, or save what can be read with the sqlite3 shell's .recover"
    found: list[StoreProblem] = []
    try:
        for (line,) in own.execute("PRAGMA quick_check"):
            if line != "ok":
                found.append(StoreProblem(None, str(line), restore))
        for session_id, position, count, first, last in own.execute(sql.GAPS):
            what = f"the head is at position {position}, the journal has {count} records from {first} to {last}"
            found.append(StoreProblem(session_id, what, "export what can be read, then delete the session"))
        for (session_id,) in own.execute(sql.HEADS_ASTRAY):
            what = "window start, checkpoint or inbox count of the head do not fit its journal"
            found.append(StoreProblem(session_id, what, "export what can be read, then delete the session"))
        for session_id, base_id, base_position in own.execute(sql.FORKS_ASTRAY):
            what = f"it is a fork, and session {base_id} has not the records before {base_position} that it reads of it"
            found.append(StoreProblem(session_id, what, restore))
        for session_id, *artifact in own.execute(sql.ARTIFACTS_ASTRAY, (None,)):
            found.append(StoreProblem(session_id, *damage_of(*artifact)))
        for key, held, open_ in own.execute(sql.BUDGETS_ASTRAY):
            found.append(StoreProblem(None, *budget_problem(key, held, open_)))
        for (count,) in own.execute(sql.STRAYS):
            if count:
                what = f"{count} records belong to no session"
                found.append(
                    StoreProblem(None, what, "they do no harm; copy the sessions to a new database to lose them")
                )
    except (apsw.CorruptError, apsw.NotADBError) as error:
        found.append(StoreProblem(None, str(error), restore))
    return found


def _roll_back(own: CommitConnection) -> None:
    if own.connection.in_transaction:
        own.execute("ROLLBACK")
