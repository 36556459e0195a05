"""Racing work against stop, deadline and the caller's own cancellation.

Owns: `race`, the only place where the engine waits for foreign code. Must not know: what the work is.
Read next: `model_call.py`, `tool_call.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ..ports.cancellation import CancellationToken
from .deadlines import Deadlines
from .eager import start

T = TypeVar("T")

_abandoned: set[asyncio.Task[Any]] = set()
"""Strong references to work that did not wind down in time, until it does."""


class Won(Generic[T]):
    """The work finished; `value` is its result (an exception of the work is raised by `race` itself)."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


class Stopped:
    """The token was cancelled first; `abandoned` says that the work is still winding down somewhere."""

    __slots__ = ("abandoned", "reason")

    def __init__(self, reason: str, abandoned: bool) -> None:
        self.reason = reason
        self.abandoned = abandoned


class TimedOut:
    """The time was over first."""

    __slots__ = ("abandoned",)

    def __init__(self, abandoned: bool) -> None:
        self.abandoned = abandoned


class _Contest(Generic[T]):
    """Whoever is first completes one future: waiting for the task itself would take another turn of the loop."""

    __slots__ = ("_first", "_loop", "due", "outcome")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._first: asyncio.Future[Won[T] | str | None] | None = None
        self.outcome: Won[T] | BaseException | None = None
        """How the work ended, once it did."""
        self.due = 0.0

    def wait(self) -> asyncio.Future[Won[T] | str | None]:
        """The work's `Won` or error, the reason of a stop, or None when the time was over."""
        self._first = self._loop.create_future()
        return self._first

    def end(self, outcome: Won[T] | BaseException) -> None:
        """The work is over."""
        self.outcome = outcome
        if self._first is None or self._first.done():
            return
        if isinstance(outcome, Won):
            self._first.set_result(outcome)
        else:
            self._first.set_exception(outcome)

    def stop(self, reason: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._settle, reason)

    def expire(self) -> None:
        """The time is over."""
        self._settle(None)

    def _settle(self, verdict: str | None) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(verdict)


async def race(
    work: Coroutine[Any, Any, T],
    token: CancellationToken,
    deadlines: Deadlines,
    *,
    timeout_s: float | None,
    grace_s: float,
) -> Won[T] | Stopped | TimedOut:
    """Runs `work` in a task of its own until it ends, the token is cancelled or `timeout_s` is over.

    The loser is cancelled and gets `grace_s` to wind down; then it is left behind and its result dropped.
    Raises: what the work raised. Cancel: the work is cancelled likewise, then the cancellation goes on.
    """
    if token.cancelled:
        work.close()
        return Stopped(token.reason, abandoned=False)
    loop = asyncio.get_running_loop()
    contest: _Contest[T] = _Contest(loop)
    task = start(loop, _carry(work, contest))
    if isinstance(contest.outcome, Won):
        return contest.outcome
    if contest.outcome is not None:
        raise contest.outcome

    first = contest.wait()
    unsubscribe = token.on_cancel(contest.stop)
    if timeout_s is not None:
        contest.due = loop.time() + timeout_s
        deadlines.add(loop, contest)
    watcher = loop.create_task(token.wait()) if token.polled else None
    try:
        verdict = await first
    except asyncio.CancelledError:
        await _wind_down(task, grace_s)
        raise
    finally:
        unsubscribe()
        deadlines.discard(contest)
        if watcher is not None:
            watcher.cancel()
    # Work that was done before the stop was heard keeps its result: what was paid for is not thrown away.
    return verdict if isinstance(verdict, Won) else await _verdict(verdict, task, grace_s)


async def _verdict(reason: str | None, task: asyncio.Task[None], grace_s: float) -> Stopped | TimedOut:
    abandoned = await _wind_down(task, grace_s)
    return TimedOut(abandoned) if reason is None else Stopped(reason, abandoned)


async def _carry(work: Coroutine[Any, Any, T], contest: _Contest[T]) -> None:
    """Does the work and tells how it ended."""
    try:
        won = Won(await work)
    except asyncio.CancelledError:
        contest.end(RuntimeError("the work cancelled itself"))
        raise
    except BaseException as error:  # noqa: BLE001 - carried to the waiting task, which raises it
        contest.end(error)
        return
    contest.end(won)


async def _wind_down(task: asyncio.Task[Any], grace_s: float) -> bool:
    """Cancels the task and waits at most `grace_s`; True when it is still running."""
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_forget)
    if not task.done():
        await asyncio.wait([task], timeout=grace_s)
    return not task.done()


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # read, so that the event loop does not report what nobody waits for
