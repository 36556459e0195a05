"""Work in the caller's own task that a stop or a time limit interrupts.

Owns: `interruptible`. Must not know: what the work is.
`stopping.race` gives work a task of its own and can leave it behind; that is for tool handlers, which may do anything.
A model call answers to cancellation and is on the path of every turn, so it is spared the task: it is interrupted the way
`asyncio.timeout` does it, by a cancellation of the caller's task that ends here.
Read next: `model_call.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..ports.cancellation import CancellationToken
from .deadlines import Deadlines
from .stopping import Stopped, TimedOut

T = TypeVar("T")

_log = logging.getLogger("loopwright.run")


class _Interruption:
    """Cancels a task until its work gives in; exists while the work runs."""

    __slots__ = ("_grace_s", "_loop", "_task", "_timer", "due", "ended", "sent", "verdict")

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[object], grace_s: float) -> None:
        self._loop = loop
        self._task = task
        self._grace_s = grace_s
        self._timer: asyncio.TimerHandle | None = None
        self.due = 0.0
        self.ended = False
        self.sent = 0
        """Cancellations of the task that are ours."""
        self.verdict: Stopped | TimedOut | None = None

    def stop(self, reason: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._interrupt, Stopped(reason, abandoned=False))

    def expire(self) -> None:
        """The time is over."""
        self._interrupt(TimedOut(abandoned=False))

    def end(self) -> None:
        """The work is over: nothing of this reaches the task any more."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(self.sent):
            self._task.uncancel()

    def _interrupt(self, verdict: Stopped | TimedOut) -> None:
        if self.ended or self.verdict is not None:
            return
        self.verdict = verdict
        self._insist()

    def _insist(self) -> None:
        if self.sent == 1:
            _log.warning("a model service goes on after it was cancelled; it is cancelled again until it ends")
        self.sent += 1
        self._task.cancel()
        self._timer = self._loop.call_later(self._grace_s, self._insist)


async def interruptible(
    work: Coroutine[Any, Any, T],
    token: CancellationToken,
    deadlines: Deadlines,
    *,
    timeout_s: float | None,
    grace_s: float,
) -> T | Stopped | TimedOut:
    """The result of `work`, or what interrupted it: `token` was cancelled, or `timeout_s` was over.

    Interrupted work is cancelled, and again every `grace_s` as long as it goes on; a result that it ends with after all is
    kept, because it was paid for. Raises: what the work raised; `RuntimeError` when it cancelled itself.
    Cancel: reaches the work, then the caller.
    """
    if token.cancelled:
        work.close()
        return Stopped(token.reason, abandoned=False)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    interruption = _Interruption(loop, task, grace_s)
    if timeout_s is not None:
        interruption.due = loop.time() + timeout_s
        deadlines.add(loop, interruption)
    unsubscribe = token.on_cancel(interruption.stop)
    watcher = loop.create_task(token.wait()) if token.polled else None
    before = task.cancelling()
    try:
        return await work
    except asyncio.CancelledError as cancelled:
        ours, theirs = interruption.sent, task.cancelling()
        if theirs - ours > before or (not ours and theirs):
            raise
        if interruption.verdict is None:
            raise RuntimeError("the work cancelled itself") from cancelled
        return interruption.verdict
    finally:
        interruption.end()
        unsubscribe()
        deadlines.discard(interruption)
        if watcher is not None:
            watcher.cancel()
