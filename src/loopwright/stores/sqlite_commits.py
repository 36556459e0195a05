"""A batch of writes as one transaction, and what happens when one of them fails.

Owns: begin, commit, rollback, savepoints, the log's length. Must not know: event loops, threads, what a write does.
Read next: `sqlite_writes.py` for the writes, `sqlite_group.py` for where batches come from.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw
import msgspec

from ..late import Late
from ..model.errors import InvariantError, LoopwrightError
from ..ports.store import Committed, RunInside, Transition
from . import sqlite_statements as sql
from .sqlite_faults import NATIVE_FAULTS, translate
from .sqlite_schema import DatabaseFile, shut, statements
from .sqlite_writes import SqliteWrites

if TYPE_CHECKING:
    from . import sqlite_work
else:
    sqlite_work = Late("loopwright.stores.sqlite_work")

CHECKPOINT_PAGES: Final = 1000
"""Pages in the write-ahead log after which the writer thread copies them into the file. A commit takes longer the more
versions of its pages are in the log: SQLite's index of the log walks over all of them."""

RESTART_PAGES: Final = 4 * CHECKPOINT_PAGES
"""Pages after which it also waits until the log can start from its beginning: a busy loop would let it grow for ever."""

RESTART_WAIT_S: Final = 0.5
"""How long the thread tries to get between two commits for that."""


class Offer:
    """One write that somebody waits for."""

    __slots__ = ("args", "future", "risky", "size", "sync", "write")

    def __init__(
        self,
        write: Callable[..., Any],
        args: tuple[Any, ...],
        future: asyncio.Future[Any],
        *,
        sync: bool = False,
        size: int = 0,
        risky: bool = False,
    ) -> None:
        self.write = write
        """A method of `SqliteWrites`, unbound: which connection does it is decided later."""
        self.args = args
        self.future = future
        self.sync = sync
        """Must be on the disk before it is acknowledged."""
        self.size = size
        """Bytes, roughly."""
        self.risky = risky
        """May be refused after it has changed rows."""


Outcome: TypeAlias = Any
"""The result of a write, or the error to raise where it is awaited."""


class CommitConnection:
    """A connection that commits batches; one for the loop, one for the writer thread."""

    def __init__(self, file: DatabaseFile, owner: str, connection: apsw.Connection | None = None) -> None:
        self._file = file
        self.connection = connection or file.connect()
        self.execute = statements(self.connection)
        """The only cursor of this connection, so that a statement which was not read to its end is ended by the next
        one. Left open on a second cursor (held by a traceback, say) it would pin an old snapshot, and every later write
        would find the file busy."""
        self._writes = SqliteWrites(self.execute, owner, self._run_inside)
        self._synced = file.durability == "full"
        self._log_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self.log_is_long = False
        """True when it is time for a checkpoint."""
        self.connection.set_wal_hook(self._note_log)

    def commit(self, transition: Transition) -> Committed:
        """One transition in a transaction of its own, not synced. Raises its refusal or a native fault; then nothing was
        written."""
        if self._synced:
            self._set_synced(False)
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        try:
            done = self._writes.commit(transition)
            execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return done

    def run(self, offers: Sequence[Offer], *, sync: bool) -> list[Outcome]:
        """Commits all in one transaction; one outcome each, in order.

        A refused write fails alone. Raises a native fault when nothing at all was written: `apsw.BusyError` at the
        begin, anything else after everything was rolled back.
        """
        if sync is not self._synced:
            self._set_synced(sync)
        self.execute("BEGIN IMMEDIATE")
        try:
            if len(offers) == 1:
                return [self._run_single(offers[0])]
            outcomes = [self._run_one(offer) for offer in offers]
            self.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return outcomes

    def run_each(self, offers: Sequence[Offer], *, sync: bool) -> list[Outcome]:
        """Commits each alone, waiting for the lock: after a fault that may be one's and must not be everybody's."""
        outcomes: list[Outcome] = []
        for offer in offers:
            try:
                outcomes += self._file.retrying(functools.partial(self.run, [offer], sync=sync))
            except BaseException as error:  # noqa: BLE001 - raised where the write is awaited; the next one is not at fault
                outcomes.append(told(error, self._file.path))
        return outcomes

    def close(self, *, as_killed: bool = False) -> None:
        """Closes the connection; `as_killed` leaves the log as a killed process leaves it."""
        shut(self.connection, as_killed=as_killed)

    def close_whole(self) -> None:
        """Closes after copying the whole log into the file, where no other process reads it just now."""
        try:
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error:
            # Somebody else has the file open: the log stays beside it and is as durable as the file.
            pass
        self.close()

    def finish_artifact(self, id_: int) -> None:
        """The last commit of an artifact, synced like every promise unless durability is "relaxed"."""
        self.be_durable()
        self.execute(sql.FINISH_ARTIFACT, (id_,))

    def be_durable(self) -> None:
        """The next commit is synced like every promise, unless durability is "relaxed"."""
        self._set_synced(self._file.durability != "relaxed")

    def checkpoint_begun(self) -> int:
        """Pages in the log; it counts as long again only after as many more as make it long."""
        self.log_is_long = False
        # Pages written during a checkpoint keep the log from starting anew, so it may still be long afterwards.
        self._checkpoint_at = self._log_pages + CHECKPOINT_PAGES
        return self._log_pages

    def checkpoint(self, pages: int) -> None:
        """Copies the log of that many pages into the file as far as nobody stands in the way."""
        patient = msgspec.structs.replace(self._file, busy_wait_s=min(RESTART_WAIT_S, self._file.busy_wait_s))
        mode = apsw.SQLITE_CHECKPOINT_RESTART if pages >= RESTART_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            patient.retrying(lambda: self.connection.wal_checkpoint(mode=mode))
        except apsw.Error:
            # Whatever it is, the commits tell: a checkpoint only moves what is safe already.
            pass

    def _set_synced(self, sync: bool) -> None:
        if sync is not self._synced:
            self.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            self._synced = sync

    def _run_single(self, offer: Offer) -> Outcome:
        try:
            outcome = offer.write(self._writes, *offer.args)
        except LoopwrightError as error:
            self._roll_back()
            return error
        self.execute("COMMIT")
        return outcome

    def _run_one(self, offer: Offer) -> Outcome:
        if offer.risky:
            self.execute("SAVEPOINT one")
        try:
            outcome = offer.write(self._writes, *offer.args)
        except LoopwrightError as error:
            if offer.risky:
                self.execute("ROLLBACK TO one")
                self.execute("RELEASE one")
                self._writes.forget_heartbeat()
            elif self._writes.touched:
                raise
            return error
        if offer.risky:
            self.execute("RELEASE one")
        return outcome

    def _run_inside(self, op: RunInside) -> None:
        sqlite_work.run_inside(self.connection, op)

    def _roll_back(self) -> None:
        self._writes.forget_heartbeat()
        if self.connection.in_transaction:
            try:
                self.execute("ROLLBACK")
            except apsw.Error:
                # SQLite rolled back by itself; an open transaction is all that matters here.
                pass

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._log_pages:
            self._checkpoint_at = CHECKPOINT_PAGES
        self._log_pages = pages
        if pages >= self._checkpoint_at:
            self.log_is_long = True
        return apsw.SQLITE_OK


def told(error: BaseException, path: str) -> Exception:
    """What to raise, later and elsewhere, where a write is awaited that ended with this error.

    A fault of ours stays what it is, unless a future or a task would take it for a message to itself.
    """
    if isinstance(error, LoopwrightError):
        return error
    if isinstance(error, NATIVE_FAULTS):
        known = translate(error, path)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    else:
        known = InvariantError(f"a write to {path} was ended by {type(error).__name__}; nothing of it was written")
    known.__cause__ = error
    return known


def release(batch: Sequence[Offer], outcomes: Sequence[Outcome]) -> None:
    """Tells everybody what became of their write; those who were cancelled meanwhile are not waiting."""
    if len(batch) == 1:
        _tell(batch[0].future, outcomes[0])
        return
    for offer, outcome in zip(batch, outcomes, strict=True):
        _tell(offer.future, outcome)


def _tell(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
