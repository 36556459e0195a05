"""The thread for what the event loop must not wait for: syncs, a busy file, large batches, long reads.

Owns: the thread, its connection, its queue and the order in it. Must not know: what a job does.
Read next: `sqlite_commits.py`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import apsw

from ..model.errors import LoopwrightError, StoreUnavailableError
from .sqlite_commits import CommitConnection, Offer, Outcome, release, told
from .sqlite_schema import DatabaseFile

T = TypeVar("T")

MERGED_WRITES: Final = 64
"""Batches that wait in the queue are merged up to this many writes: one sync for all of them."""

Job: TypeAlias = Callable[[CommitConnection], Any]


class _Batch:
    """Writes of one or more ticks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, offers: list[Offer]) -> None:
        self.loop = loop
        self.offers = offers
        self.parts = 1


class _Task:
    """A job with its waiting future."""

    def __init__(self, loop: asyncio.AbstractEventLoop, job: Job, future: asyncio.Future[Any]) -> None:
        self.loop = loop
        self.job = job
        self.future = future


class SqliteWorker:
    """One thread with one connection, both made at the first use. Works in the order of submission."""

    def __init__(self, name: str, file: DatabaseFile, connect: Callable[[], CommitConnection]) -> None:
        self._name = name
        self._file = file
        self._connect = connect
        self._connection: CommitConnection | None = None
        # Not `queue`: loading it takes as long as two of our modules, and a new process waits for this one.
        self._queue: deque[_Batch | _Task | None] = deque()
        self._queued = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._killed = False
        # Each counter has one writing thread, so neither needs a lock.
        self._submitted = 0
        self._completed = 0

    @property
    def is_busy(self) -> bool:
        """True while a batch is under way: later ones must queue behind it, or order would be lost."""
        return self._submitted != self._completed

    def submit_batch(self, loop: asyncio.AbstractEventLoop, offers: list[Offer]) -> None:
        """Commits a batch in the thread and releases its results on the loop."""
        self._submitted += 1
        self._put(_Batch(loop, offers))

    def submit(self, loop: asyncio.AbstractEventLoop, job: Callable[[CommitConnection], T]) -> asyncio.Future[T]:
        """Runs `job` in the thread, again while the file is locked; cancelling the future does not stop it."""
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Task(loop, job, future))
        return future

    def stop(self) -> None:
        """Ends the thread after everything submitted was done, and closes the connection; blocks until then."""
        if self._thread is not None:
            self._put(None)
            self._thread.join()
            self._thread = None
        if self._connection is not None:
            self._connection.close(as_killed=self._killed)
            self._connection = None

    def kill(self) -> None:
        """Ends the thread without doing what is queued; nobody is told, as if the process had been killed."""
        self._killed = True
        self.stop()

    def _put(self, item: _Batch | _Task | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._queue.append(item)
        self._queued.release()

    def _get(self) -> _Batch | _Task | None:
        self._queued.acquire()
        return self._queue.popleft()

    def _work(self) -> None:
        item = self._get()
        while item is not None:
            following: _Batch | _Task | None = None
            if isinstance(item, _Batch):
                following, has_following = self._merge(item)
                self._commit(item)
                self._completed += item.parts
            else:
                has_following = False
                self._run(item)
            item = following if has_following else self._get()

    def _merge(self, batch: _Batch) -> tuple[_Batch | _Task | None, bool]:
        """Adds batches that wait already; answers the first other thing that was taken from the queue."""
        while len(batch.offers) < MERGED_WRITES:
            if not self._queued.acquire(blocking=False):
                return None, False
            item = self._queue.popleft()
            if not isinstance(item, _Batch) or item.loop is not batch.loop:
                return item, True
            batch.offers += item.offers
            batch.parts += 1
        return None, False

    def _commit(self, batch: _Batch) -> None:
        if self._killed:
            return
        outcomes = self._outcomes(batch.offers)
        _call(batch.loop, release, batch.offers, outcomes)
        if self._connection is not None and self._connection.log_is_long:
            self._connection.checkpoint(self._connection.checkpoint_begun())

    def _outcomes(self, offers: list[Offer]) -> list[Outcome]:
        durability = self._file.durability
        sync = durability == "full" or (durability == "barrier" and any(offer.sync for offer in offers))
        try:
            connection = self._connected()
            return self._file.retrying(lambda: self._unless_killed(connection).run(offers, sync=sync))
        except (LoopwrightError, apsw.BusyError) as error:
            return [told(error, self._file.path)] * len(offers)
        except BaseException as error:  # noqa: BLE001 - a fault of ours is raised where it is awaited, and the thread goes on
            if len(offers) > 1 and self._connection is not None:
                return self._connection.run_each(offers, sync=sync)
            return [told(error, self._file.path)] * len(offers)

    def _run(self, task: _Task) -> None:
        if self._killed:
            return
        outcome: Outcome
        try:
            connection = self._connected()
            outcome = self._file.retrying(lambda: task.job(self._unless_killed(connection)))
        except BaseException as error:  # noqa: BLE001 - see `_outcomes`
            outcome = told(error, self._file.path)
        _call(task.loop, _settle, task.future, outcome)

    def _connected(self) -> CommitConnection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _unless_killed(self, connection: CommitConnection) -> CommitConnection:
        if self._killed:
            raise StoreUnavailableError(f"store {self._file.path} was abandoned")
        return connection


def _settle(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        # The loop was closed with this call under way: whoever waited is gone, what was committed stays.
        pass
