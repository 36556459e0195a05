"""An open loop that fires the timers of its own agent, and runs the sessions that they wake.

Owns: `TimerService`: when it looks at the store, what it runs, how it ends. Must not know: how a timer fires
(`timers.py`), how a session is continued (`admission.py`).
It is no worker: of what is open it takes only what a timer, a wake or a signal reached; what a dead process left in the
middle is for `recover` and `serve`. Read next: `firing.py`, `worker.py`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Iterable
from typing import Final

from ..model.codec import CURRENT_FORMAT
from ..model.errors import (
    LoopwrightError,
    RetryLaterError,
    SessionGoneError,
    SessionLeftError,
    SessionNotFoundError,
    UsageError,
)
from ..ports.store import ClaimQuery, Head
from . import handback
from .actor import ACTORS, outside_of_turns
from .admission import Admission
from .firing import Firings
from .kernel import Kernel
from .set_aside import SetAside
from .timers import Firing
from .worker import LEAVE_S, Work

_log = logging.getLogger("loopwright.timers")

LOOK_S: Final = 5.0
"""Longest pause between two looks: other processes arm timers, too."""
WHOLE_LOOK_S: Final = 30.0
"""How often it also looks for sessions that a timer, wake or signal reached and nobody ran: whoever fired it may be gone."""
AWAY_S: Final = 30.0
"""What the pause grows to while the store is away."""
SET_ASIDE_S: Final = 60.0
"""How long a session is left alone that cannot be run here, doubled each time."""
MAX_SESSIONS: Final = 16
"""Sessions that it runs at once; further ones wait for their place, their timers fire nevertheless."""
MAX_TIMERS: Final = 50

WAKING: Final = frozenset({"timer", "wake", "signal"})
"""Kinds of inbox items that it runs a session for."""


def begun(kernel: Kernel) -> TimerService | None:
    """The service of this loop, at work; None where the loop leaves timers to others or is being closed.

    From a running event loop; the service works in it until the loop object is closed.
    """
    if not kernel.config.serve_timers or kernel.closing:
        return None
    if kernel.timer_service is None:
        kernel.timer_service = TimerService(kernel)
    kernel.timer_service.begin()
    return kernel.timer_service


class TimerService:
    """One loop object's own timers. Concurrency: everything from the event loop that it was begun in."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._admission = Admission(kernel)
        self._firings = Firings(kernel, self._fired)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._next_look = 0.0
        """Wall time of the look that it sleeps until."""
        self._whole_look = 0.0
        """Monotonic time of the next look at sessions, too."""
        self._away_s = 0.0
        self._wanted: dict[str, None] = {}
        """Sessions that wait for a place, in order."""
        self._running: dict[str, tuple[Work, asyncio.Task[None]]] = {}
        self._aside = SetAside()
        self._closed = False

    def begin(self) -> None:
        """Begins to look, unless it does so already or was closed."""
        if self._closed or (self._task is not None and not _is_over(self._task)):
            return
        if self._task is not None and self._task.get_loop().is_closed():  # whatever ran there went down with it
            self._running, self._firings = {}, Firings(self._kernel, self._fired)
        self._news = asyncio.Event()
        self._firings.open()
        self._task = asyncio.get_running_loop().create_task(self._serve(), context=outside_of_turns())
        self._task.add_done_callback(_said_why)

    def armed(self, due_at: float) -> None:
        """A timer was armed here: it is looked for in time."""
        if due_at < self._next_look:
            self._news.set()

    def woken(self, session_id: str) -> None:
        """Runs a session that something was put into the inbox of; nothing happens when there is nothing to run."""
        if self._closed:
            return
        self._wanted[session_id] = None
        self._start()

    def close(self) -> None:
        """No more looks, firings and new runs; what runs goes on. Safe to call twice."""
        self._closed = True
        self._wanted.clear()
        if self._task is not None and not _is_over(self._task):
            self._task.cancel()

    async def ended(self, timeout_s: float) -> None:
        """After `close`: gives firings back and waits for the runs; what still runs then is left to the next process."""
        if self._task is None or self._task.get_loop() is not asyncio.get_running_loop():
            return
        await asyncio.wait([self._task])
        await self._firings.close(LEAVE_S)
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=timeout_s)
        for work, _ in self._running.values():
            work.leave("the loop is closed; the next process goes on")
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=LEAVE_S)
            await handback.handed_back(LEAVE_S)

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while not self._closed:
            self._next_look = math.inf  # what is armed during the look, it may not have seen
            wait_s = await self._look()
            self._next_look = self._kernel.ambient.now() + wait_s
            await self._pause(wait_s)

    async def _look(self) -> float:
        """Fires what is due; answers after how many seconds to look again."""
        kernel = self._kernel
        now, whole = kernel.ambient.now(), kernel.ambient.monotonic() >= self._whole_look
        query = ClaimQuery(
            agent_names=(kernel.config.agent_name,),
            max_format=CURRENT_FORMAT,
            now=now,
            limit=MAX_TIMERS + len(self._firings) + (len(self._aside) if whole else 0),
            timers_only=not whole,
        )
        try:
            found = await kernel.store.claim(query)
            if whole:
                await self._run_reached(found.interrupted)
                self._whole_look = kernel.ambient.monotonic() + WHOLE_LOOK_S
        except RetryLaterError as error:
            return self._away(error)
        self._back()
        self._firings.offer(found.timers)
        # So that the loops of many processes do not look in step.
        pause_s = LOOK_S * (0.5 + kernel.ambient.random() / 2)
        return pause_s if found.next_timer_at is None else min(pause_s, max(found.next_timer_at - now, 0.0))

    async def _run_reached(self, heads: Iterable[Head]) -> None:
        now = self._kernel.ambient.monotonic()
        for head in heads:
            sid = head.session_id
            if head.status == "running" or sid in self._running or self._aside.holds(sid, now=now):
                continue
            try:
                waiting = (await self._kernel.store.lookup(sid)).waiting
            except (SessionGoneError, SessionNotFoundError):
                continue
            if any(item.kind in WAKING for item in waiting):
                self.woken(sid)
            else:
                self._put_aside(sid)  # it is for workers; whoever sends to it is not kept from it

    async def _pause(self, wait_s: float) -> None:
        """Sleeps for that long, or until something is armed or a firing is done while more may be due."""
        here = asyncio.get_running_loop()
        sleeper, news = here.create_task(self._kernel.ambient.sleep(wait_s)), here.create_task(self._news_came())
        full = self._firings.tasks if len(self._firings.tasks) >= MAX_TIMERS else []
        try:
            await asyncio.wait([sleeper, news, *full], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            news.cancel()
        self._news.clear()

    async def _news_came(self) -> None:
        await self._news.wait()

    def _away(self, error: RetryLaterError) -> float:
        if not self._away_s:
            _log.warning("the store is away, timers wait for it: %s", error)
        self._away_s = min(max(1.0, self._away_s * 2), AWAY_S)
        return self._away_s * (0.5 + self._kernel.ambient.random() / 2)

    def _back(self) -> None:
        if self._away_s:
            self._away_s = 0.0
            _log.info("the store is back")

    # --- running ----------------------------------------------------------------------------------------------------

    def _fired(self, firing: Firing) -> None:
        """A session that nobody runs is run with what it was told; one that runs takes it at its next boundary."""
        if firing.outcome == "delivered" or (firing.outcome == "queued" and not self._runs_here(firing)):
            self.woken(firing.session_id)
        if firing.next_due_at is not None:
            self.armed(firing.next_due_at)

    def _runs_here(self, firing: Firing) -> bool:
        actor = ACTORS.find(self._kernel.store.identity, firing.session_id)
        return firing.running and actor is not None and actor.busy

    def _start(self) -> None:
        """Begins as many of the wanted as there is room for; one that runs here is begun again behind its run."""
        for sid in [sid for sid in self._wanted if sid not in self._running]:
            if len(self._running) >= MAX_SESSIONS:
                return
            del self._wanted[sid]
            work = Work(sid, _nothing)
            task = asyncio.get_running_loop().create_task(self._run(sid, work), context=outside_of_turns())
            self._running[sid] = work, task
            task.add_done_callback(functools.partial(self._done, sid))

    async def _run(self, sid: str, work: Work) -> None:
        try:
            result = await self._admission.recover(sid, wait_s=0.0, taken=work.take)
        except (SessionGoneError, SessionNotFoundError, SessionLeftError):
            return
        except RetryLaterError as error:
            _log.debug("session %s is not run here now: %s", sid, error)
            self._put_aside(sid)  # another process has it, or lacks nothing to run it
        except LoopwrightError as error:
            _log.warning("session %s cannot be run here: %s", sid, error)
            self._put_aside(sid)
        else:
            if result is not None and (not work.taken or not result.ok):
                self._put_aside(sid)  # it waits for a person, or failed before it took its inbox

    def _done(self, sid: str, task: asyncio.Task[None]) -> None:
        self._running.pop(sid, None)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            _log.error("session %s could not be run", sid, exc_info=error)
            self._put_aside(sid)
        if not self._closed:
            self._start()

    def _put_aside(self, sid: str) -> None:
        self._aside.put(sid, now=self._kernel.ambient.monotonic(), first_s=SET_ASIDE_S)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for _, task in self._running.values()]


def _is_over(task: asyncio.Task[None]) -> bool:
    """Done, or of an event loop that is closed."""
    return task.done() or task.get_loop().is_closed()


def _said_why(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, UsageError):
        _log.debug("timers are not fired here any more: %s", error)  # the store was closed by whoever owns it
    elif isinstance(error, Exception):
        _log.error("timers are not fired here any more", exc_info=error)


def _nothing() -> None:
    return
