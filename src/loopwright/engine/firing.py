"""Due timers that one process fires, side by side.

Owns: `Firings`, and which agents have somebody in this process who fires their timers. Must not know: how a timer fires
(`timers.py`), what becomes of the sessions (`worker.py`, `timer_service.py`).
Read next: `timers.py`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from ..model.errors import (
    LoopwrightError,
    RetryLaterError,
    SessionGoneError,
    SessionNotFoundError,
    StoreCorruptError,
)
from ..ports.store import DueTimer
from . import timers
from .actor import outside_of_turns
from .kernel import Kernel
from .set_aside import SetAside
from .timers import Firing

_log = logging.getLogger("loopwright.timers")

AT_ONCE = 50
"""Timers that one process fires side by side; a hook that takes its time keeps one of these places."""

REMEMBERED = 1000

_served: Counter[tuple[str, str]] = Counter()
"""How many in this process fire the timers of (store identity, agent name)."""
_mutex = threading.Lock()


def is_served(kernel: Kernel) -> bool:
    """True while somebody in this process fires the timers of this store and agent."""
    return _served[_of(kernel)] > 0


class Firings:
    """The firings of one worker or service."""

    def __init__(self, kernel: Kernel, on_fired: Callable[[Firing], None], *, set_aside_s: float = 60.0) -> None:
        """`on_fired` hears of each timer that this process dealt with."""
        self._kernel = kernel
        self._on_fired = on_fired
        self._set_aside_s = set_aside_s
        self._aside = SetAside(remembered=REMEMBERED)
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._counted = False
        self.missed: RetryLaterError | None = None
        """Why a firing did not reach the store; for whoever looks next, who takes it."""

    def __len__(self) -> int:
        """How many due timers a look finds and `offer` does not start."""
        return len(self._under_way) + len(self._aside)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The firings under way."""
        return list(self._under_way.values())

    def open(self) -> None:
        """From now on the timers of this agent are served here."""
        with _mutex:
            _served[_of(self._kernel)] += not self._counted
            self._counted = True

    def offer(self, due: Iterable[DueTimer]) -> int:
        """Starts what is not under way or left alone, as far as there is room; answers how many."""
        now, started = self._kernel.ambient.monotonic(), 0
        for timer in due:
            key = timer.session_id, timer.timer_id
            if len(self._under_way) >= AT_ONCE:
                break
            if key in self._under_way or self._aside.holds(_name(timer), now=now):
                continue
            work = self._fire(timer)
            self._under_way[key] = asyncio.get_running_loop().create_task(work, context=outside_of_turns())
            self._under_way[key].add_done_callback(functools.partial(self._done, timer))
            started += 1
        return started

    async def close(self, within_s: float) -> None:
        """Gives back what waits for hooks, waits for the commits, and is not serving any more."""
        with _mutex:
            _served[_of(self._kernel)] -= self._counted
            self._counted = False
        for task in self.tasks:
            task.cancel()
        if tasks := self.tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def _fire(self, timer: DueTimer) -> None:
        try:
            fired = await timers.fire(self._kernel, timer)
        except (SessionGoneError, SessionNotFoundError):
            return
        except RetryLaterError as error:
            self.missed = error
            self._leave_alone(timer, 1.0)
            return
        except LoopwrightError as error:
            what = "read" if isinstance(error, StoreCorruptError) else "fired"
            _log.warning("timer %s of session %s cannot be %s: %s", timer.timer_id, timer.session_id, what, error)
            self._leave_alone(timer)
            return
        if fired is None:  # should it still be there, it is not asked about again and again
            self._leave_alone(timer)
            return
        if fired.outcome == "error":
            text = "timer %s of session %s could not be fired, it is tried again: %s"
            _log.warning(text, timer.timer_id, timer.session_id, fired.error)
        self._on_fired(fired)

    def _leave_alone(self, timer: DueTimer, first_s: float | None = None) -> None:
        wait_s = self._set_aside_s if first_s is None else first_s
        self._aside.put(_name(timer), now=self._kernel.ambient.monotonic(), first_s=wait_s)

    def _done(self, timer: DueTimer, task: asyncio.Task[None]) -> None:
        self._under_way.pop((timer.session_id, timer.timer_id), None)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, Exception):
                return  # the process is going down
            _log.error("timer %s of session %s could not be fired", timer.timer_id, timer.session_id, exc_info=error)
            self._leave_alone(timer)


def _of(kernel: Kernel) -> tuple[str, str]:
    return kernel.store.identity, kernel.config.agent_name


def _name(timer: DueTimer) -> str:
    # With its time: one that was armed for another time is not left alone.
    return f"{timer.session_id}:{timer.timer_id}:{timer.due_at!r}"
