"""Group commit: what is offered in one event-loop tick becomes one transaction.

Owns: batches, and whether the loop itself or the writer thread commits them. Must not know: what a write does.
Read next: `sqlite_commits.py` for a batch's transaction, `sqlite_worker.py` for the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import apsw

from ..model.errors import LoopwrightError
from ..ports.settling import Settled
from ..ports.store import Committed, Transition
from .sqlite_commits import CommitConnection, Offer, release, told
from .sqlite_faults import NATIVE_FAULTS
from .sqlite_schema import DatabaseFile
from .sqlite_worker import SqliteWorker

INLINE_BYTES: Final = 256 * 1024
"""A larger batch would hold the event loop for milliseconds."""

_NOTHING: Final = Committed(0, 0, 0, 0)

SHARED_BATCH: Final = 64
"""How many writes one transaction may hold while other owners want the file too."""


class GroupCommit:
    """Collects what one event loop offers and hands each batch to the loop's own connection or to the writer thread."""

    def __init__(
        self, file: DatabaseFile, own: CommitConnection, worker: SqliteWorker, others: Callable[[], bool]
    ) -> None:
        self._file = file
        self._own = own
        self._worker = worker
        self._others_are_alive = others
        self._syncs, self._syncs_all = file.durability == "barrier", file.durability == "full"
        self._offered: list[Offer] = []
        self._newest: str | None = None
        """The session that wrote last."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def commit_at_once(self, transition: Transition, size: int) -> Settled[Committed] | None:
        """Commits what the session that wrote last writes again; None when it has to be offered instead.

        A session that is alone in the file never waits for company. As soon as another one writes, both are in a batch:
        each commit by a different session than the one before it ends with its tick.
        """
        if transition.session_id != self._newest or self._offered or transition.ops:
            return None
        if self._worker.is_busy or self._needs_thread(transition.sync, size):
            return None
        try:
            done = Settled(self._own.commit(transition))
        except LoopwrightError as error:
            return Settled(_NOTHING, error)
        except apsw.BusyError:
            return None  # the thread can wait for the file
        except NATIVE_FAULTS as error:
            return Settled(_NOTHING, told(error, self._file.path))
        if self._own.log_is_long:
            self._checkpoint()
        return done

    def offer(self, loop: asyncio.AbstractEventLoop, offer: Offer, session_id: str | None = None) -> None:
        """Joins the batch of this tick."""
        self._loop = loop
        self._newest = session_id
        if not self._offered:
            loop.call_soon(self._flush)
        self._offered.append(offer)

    def forget(self) -> None:
        """Drops what was offered on a loop that is closed by now."""
        self._offered.clear()
        self._newest = None

    def take_offered(self) -> list[Offer]:
        """What nobody began with yet; it is no longer offered."""
        offered = [offer for offer in self._offered if not offer.future.done()]
        self._offered.clear()
        return offered

    def flush_to_worker(self) -> None:
        """Hands everything to the writer thread, for closing."""
        offered = self.take_offered()
        if offered:
            self._hand_over(offered)

    def _flush(self) -> None:
        # A task that was cancelled before its tick ended has cancelled its future: then the write never happens.
        batch = self.take_offered()
        if not batch:
            return
        if len(batch) > SHARED_BATCH and self._others_are_alive():
            self._offered = batch[SHARED_BATCH:]
            batch = batch[:SHARED_BATCH]
            if self._loop is not None:
                self._loop.call_soon(self._flush)
        sync, size = False, 0
        for offer in batch:
            sync = sync or offer.sync
            size += offer.size
        if self._worker.is_busy or self._needs_thread(sync, size):
            self._hand_over(batch)
            return
        self._commit_here(batch)

    def _commit_here(self, batch: list[Offer]) -> None:
        try:
            outcomes = self._own.run(batch, sync=False)
        except Exception as error:  # noqa: BLE001 - a fault of ours is raised where it is awaited
            if len(batch) > 1 or isinstance(error, apsw.BusyError):
                self._hand_over(batch)
                return
            outcomes = [told(error, self._file.path)]
        except BaseException as error:
            release(batch, [told(error, self._file.path)] * len(batch))
            raise
        release(batch, outcomes)
        if self._own.log_is_long:
            self._checkpoint()

    def _checkpoint(self) -> None:
        pages = self._own.checkpoint_begun()
        if self._loop is not None:
            self._worker.submit(self._loop, lambda writer: writer.checkpoint(pages))

    def _needs_thread(self, sync: bool, size: int) -> bool:
        return (sync and self._syncs) or self._syncs_all or size > INLINE_BYTES

    def _hand_over(self, batch: list[Offer]) -> None:
        if self._loop is not None:
            self._worker.submit_batch(self._loop, batch)
