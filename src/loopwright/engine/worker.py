"""A worker: finds sessions that nobody alive runs, and runs them.

Owns: `WorkerLoop`: looking at the store in intervals, how many run at once, what is left alone for a while, draining.
Must not know: how a session is continued (`admission.py`), how a lease is kept (`keeper.py`).
Nothing is locked by looking: of several workers that find the same session, the first commit decides who runs it.
Read next: `admission.py`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from msgspec import Struct

from ..config import WorkerSettings
from ..core.result import StatefulResult
from ..model.codec import CURRENT_FORMAT
from ..model.errors import (
    LoopwrightError,
    RetryLaterError,
    SessionBusyError,
    SessionFencedError,
    SessionGoneError,
    SessionLeftError,
    SessionMovedError,
    SessionNotFoundError,
    StoreFullError,
    StoreUnavailableError,
)
from ..ports.cancellation import CancellationToken
from ..ports.store import ClaimQuery, Head
from ..ports.wake_source import WakeSource
from . import handback
from .actor import ACTORS
from .admission import Admission
from .firing import Firings
from .kernel import Kernel
from .set_aside import SetAside
from .stop_signals import stop_signals
from .timers import Firing
from .turn import Turn

_log = logging.getLogger("loopwright.worker")

LEAVE_S = 5.0
"""Longest wait for runs that were told to leave, and then for their leases to be given back."""


class SessionNews(Struct, frozen=True, kw_only=True):
    """What a worker says about one session."""

    what: Literal["taken", "ended", "left"]
    """taken: it is run here now; ended: its send ended or pauses, see `result`; left: it is for others, see `error`."""
    session_id: str
    result: StatefulResult | None = None
    error: LoopwrightError | None = None


class WorkDone(Struct, frozen=True, kw_only=True):
    """What one `serve` did."""

    taken: int = 0
    """Sessions that were run here, each time counted."""
    ended: int = 0
    """Runs that came to an end or a pause, whatever its outcome."""
    left: int = 0
    """Runs that were left in the middle, and sessions that could not be run here."""
    timers: int = 0
    """Due timers whose items this worker delivered."""


class WorkerOrder(Struct, frozen=True, kw_only=True):
    """What a worker was asked to do."""

    settings: WorkerSettings
    once: bool
    handle_signals: bool
    on_session: Callable[[SessionNews], None] | None
    accepts: Callable[[str], Awaitable[bool]] | None


async def serve(kernel: Kernel, admission: Admission, order: WorkerOrder, stop: CancellationToken) -> WorkDone:
    """See `StatefulAgentLoop.serve`."""
    worker = WorkerLoop(kernel, admission, order, stop)
    if not order.handle_signals:
        return await worker.run()
    with stop_signals(stop.cancel, worker.hurry.cancel):
        return await worker.run()


class Work:
    """One session that this worker tries to run."""

    __slots__ = ("_leaving", "_turn", "on_taken", "session_id", "taken")

    def __init__(self, session_id: str, on_taken: Callable[[], None]) -> None:
        self.session_id = session_id
        self.on_taken = on_taken
        self.taken = False
        self._turn: Turn | None = None
        self._leaving = ""

    def take(self, turn: Turn) -> None:
        """The session is ours; one that was to be left before is left at once."""
        self._turn = turn
        self.taken = True
        self.on_taken()
        if self._leaving:
            turn.leave(self._leaving)

    def leave(self, reason: str) -> None:
        """Leaves the run in the middle, now or when it begins."""
        self._leaving = reason
        if self._turn is not None:
            self._turn.leave(reason)


class WorkerLoop:
    """One call of `serve`."""

    def __init__(self, kernel: Kernel, admission: Admission, order: WorkerOrder, stop: CancellationToken) -> None:
        self.kernel = kernel
        self.hurry = CancellationToken()
        """Cancelled: what runs is left at once instead of at the end of the drain time."""
        self._admission = admission
        self._order = order
        self._stop = stop
        self._running: dict[str, tuple[Work, asyncio.Task[None]]] = {}
        self._aside = SetAside()
        self._firings = Firings(kernel, self._fired, set_aside_s=order.settings.set_aside_s)
        self._pause_s = order.settings.poll_min_s
        self._away_since: float | None = None
        """When the store was first missed, by the monotonic clock."""
        self._fault: BaseException | None = None
        self._counts = dict.fromkeys(("taken", "ended", "left", "timers"), 0)

    async def run(self) -> WorkDone:
        """Works until it is told to stop, drains, leaves the rest; at the end nothing of it runs any more."""
        told = asyncio.ensure_future(self._stop.wait())
        hurried = asyncio.ensure_future(self.hurry.wait())
        self._firings.open()
        try:
            await self._work(told)
            await self._drain(hurried)
        finally:  # a cancelled task and a broken store included: what runs is for others, it was not stopped by anybody
            told.cancel()
            hurried.cancel()
            await self._leave()
        if self._fault is not None:
            raise self._fault
        return WorkDone(**self._counts)

    async def _work(self, told: asyncio.Future[str]) -> None:
        settings = self._order.settings
        while self._goes_on():
            try:
                found = await self._look()
            except LoopwrightError:
                if self._goes_on():
                    raise
                return  # the store may be closed by whoever stops us
            if self._order.once and not found and not self._running and not self._firings.tasks:
                return
            self._pause_s = settings.poll_min_s if found else min(self._pause_s * 2, settings.poll_max_s)
            full = len(self._running) >= settings.max_sessions
            firings = self._firings.tasks
            if (self._running and full) or (self._order.once and (self._running or firings)):
                await self._wait(settings.poll_max_s, told, *self._tasks(), *firings)
                self._pause_s = settings.poll_min_s
            await self._wait(self._pause_s, told)

    def _goes_on(self) -> bool:
        return not self._stop.cancelled and self._fault is None

    async def _look(self) -> bool:
        """Looks at the store once: fires what is due, starts what there is room for; True when there was something."""
        kernel, settings = self.kernel, self._order.settings
        query = ClaimQuery(
            agent_names=(kernel.config.agent_name,),
            max_format=CURRENT_FORMAT,
            now=kernel.ambient.now(),
            # Those that are running here or left alone must not hide the others, and workers should not all try the same.
            limit=settings.max_sessions * 2 + len(self._aside) + len(self._firings),
        )
        try:
            found = await kernel.store.claim(query)
        except RetryLaterError as error:
            self._away(error)
            return False
        if self._firings.missed is not None:
            missed, self._firings.missed = self._firings.missed, None
            self._away(missed)
        else:
            self._back()
        firings = self._firings.offer(found.timers) > 0
        return self._start(found.interrupted) or firings

    def _start(self, heads: Iterable[Head]) -> bool:
        """Starts as many as there is room for, by chance among the oldest."""
        now = self.kernel.ambient.monotonic()
        free = [h for h in heads if not self._aside.holds(h.session_id, now=now) and not self._runs_here(h.session_id)]
        room = self._order.settings.max_sessions - len(self._running)
        chosen = sorted(free, key=lambda _: self.kernel.ambient.random())[: max(room, 0)]
        for head in chosen:
            work = Work(head.session_id, functools.partial(self._tell, "taken", head.session_id))
            task = asyncio.get_running_loop().create_task(self._run(work, head))
            self._running[head.session_id] = work, task
            task.add_done_callback(self._done)
        return bool(chosen)

    def _runs_here(self, session_id: str) -> bool:
        """True while this very process has the session, as another worker or as a send of the host."""
        actor = ACTORS.find(self.kernel.store.identity, session_id)
        return session_id in self._running or (actor is not None and actor.busy)

    async def _run(self, work: Work, head: Head) -> None:
        sid = work.session_id
        try:
            if self._order.accepts is not None and not await self._order.accepts(sid):
                self._put_aside(sid)
                self._tell("left", sid)
                return
            result = await self._admission.recover(sid, wait_s=0.0, taken=work.take)
            if result is not None and (work.taken or result.status == "failed"):
                await self._heard(work, head, result)
            elif result is not None:  # it waits for a person: what reached it is taken when that person answered
                self._put_aside(sid)
        except (
            SessionBusyError,
            SessionMovedError,
            SessionFencedError,
            SessionGoneError,
            SessionNotFoundError,
        ) as error:
            _log.debug("session %s is not for this worker: %s", sid, error)
        except SessionLeftError as error:
            self._tell("left", sid, error=error)
        except (StoreUnavailableError, StoreFullError) as error:
            self._note_away(error)
            self._put_aside(sid, self._order.settings.poll_min_s)
        except LoopwrightError as error:
            level = logging.INFO if isinstance(error, RetryLaterError) else logging.WARNING
            _log.log(level, "session %s cannot be run here: %s", sid, error)
            self._put_aside(sid)
            self._tell("left", sid, error=error)

    async def _heard(self, work: Work, head: Head, result: StatefulResult) -> None:
        """A run came to its end. One that failed before it took what it was started for would be found for ever."""
        sid = work.session_id
        if not work.taken:  # poisoned: it ended instead of being run
            self._tell("taken", sid)
        self._tell("ended", sid, result=result)
        if result.ok or head.status != "idle":
            self._aside.forget(sid)
            return
        waiting = (await self.kernel.store.lookup(sid)).waiting
        if any(item.seq <= head.inbox_seq for item in waiting):
            _log.warning("session %s failed before it took its inbox: %s", sid, result.error_message)
            self._put_aside(sid)

    def _fired(self, firing: Firing) -> None:
        if firing.outcome in ("delivered", "queued"):
            self._counts["timers"] += 1

    # --- how it goes ------------------------------------------------------------------------------------------------

    def _done(self, task: asyncio.Task[None]) -> None:
        for sid in [sid for sid, (_, own) in self._running.items() if own is task]:
            del self._running[sid]
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):  # a fault of ours or of `accepts`: one session must not stop the others
                _log.error("session %s could not be run", sid, exc_info=error)
                self._put_aside(sid)
            elif error is not None:
                self._fault = error

    def _tell(
        self,
        what: Literal["taken", "ended", "left"],
        session_id: str,
        *,
        result: StatefulResult | None = None,
        error: LoopwrightError | None = None,
    ) -> None:
        self._counts[what] += 1
        if self._order.on_session is None:
            return
        try:
            self._order.on_session(SessionNews(what=what, session_id=session_id, result=result, error=error))
        except Exception:  # noqa: BLE001 - the observer boundary: who looks on cannot stop the work
            _log.exception("on_session raised; the work goes on")

    def _put_aside(self, session_id: str, first_s: float | None = None) -> None:
        wait_s = self._order.settings.set_aside_s if first_s is None else first_s
        self._aside.put(session_id, now=self.kernel.ambient.monotonic(), first_s=wait_s)

    def _note_away(self, error: RetryLaterError) -> float:
        """Says once that the store is away; answers for how long it has been."""
        now = self.kernel.ambient.monotonic()
        if self._away_since is None:
            self._away_since = now
            _log.warning("the store is away, this worker waits for it: %s", error)
        return now - self._away_since

    def _away(self, error: RetryLaterError) -> None:
        """A look failed. Raises the error when that has lasted too long, or nobody waits."""
        limit_s = self._order.settings.away_limit_s
        gone_s = self._note_away(error)
        if self._order.once or (limit_s is not None and gone_s >= limit_s):
            raise error

    def _back(self) -> None:
        if self._away_since is not None:
            self._away_since = None
            _log.info("the store is back")

    # --- waiting and ending -----------------------------------------------------------------------------------------

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for _, task in self._running.values()]

    async def _wait(self, longest_s: float, *ends_early: asyncio.Future[str] | asyncio.Task[None]) -> None:
        """Waits for between half and all of that time, or until one of these is done or the store wakes us."""
        sleeper = asyncio.get_running_loop().create_task(
            self._sleep(longest_s * (0.5 + self.kernel.ambient.random() / 2))
        )
        try:
            anything: list[asyncio.Future[str] | asyncio.Task[None]] = [sleeper, *ends_early]
            await asyncio.wait(anything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()

    async def _sleep(self, seconds: float) -> None:
        store, sleep = self.kernel.store, self.kernel.ambient.sleep
        if isinstance(store, WakeSource) and self._away_since is None:
            await sleep(at_least := min(seconds, self._order.settings.poll_min_s))  # however often it is woken
            seconds -= at_least
            try:
                await store.wait_for_work(seconds)
            except RetryLaterError as error:
                _log.debug("the store cannot wake this worker now: %s", error)
            else:
                return
        await sleep(seconds)

    async def _drain(self, hurried: asyncio.Future[str]) -> None:
        """Lets what runs come to its end, for a while."""
        limit_s, ttl_s = self._order.settings.drain_timeout_s, self.kernel.config.lease_ttl_s
        over = asyncio.get_running_loop().create_task(
            self.kernel.ambient.sleep(min(10.0, ttl_s * 2 / 3) if limit_s is None else limit_s)
        )
        try:
            while self._running and not over.done() and not hurried.done():
                anything: list[asyncio.Future[str] | asyncio.Task[None]] = [over, hurried, *self._tasks()]
                await asyncio.wait(anything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()

    async def _leave(self) -> None:
        """Leaves what still runs as it is, with its lease given back, so that others go on at once."""
        await self._firings.close(LEAVE_S)
        for work, _ in self._running.values():
            work.leave("this worker stops; another one goes on")
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=LEAVE_S)
        await handback.handed_back(LEAVE_S)
