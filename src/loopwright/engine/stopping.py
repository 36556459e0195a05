"""Racing work against stop, deadline and the caller's own cancellation.

Owns: `race`, the only place where the engine waits for foreign code. Must not know: what the work is.
Read next: `model_call.py`, `tool_calls.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ..ports.cancellation import CancellationToken

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


async def race(
    work: Coroutine[Any, Any, T], token: CancellationToken, *, timeout_s: float | None, grace_s: float
) -> Won[T] | Stopped | TimedOut:
    """Runs `work` in a task of its own until it ends, the token is cancelled or `timeout_s` is over.

    The loser is cancelled and gets `grace_s` to wind down; then it is left behind and its result dropped.
    Raises: what the work raised. Cancel: the work is cancelled likewise, then the cancellation goes on.
    """
    if token.cancelled:
        work.close()
        return Stopped(token.reason, abandoned=False)
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    wake: asyncio.Future[None] = loop.create_future()
    verdict: list[str] = []

    def settle(_: object = None) -> None:
        if not wake.done():
            wake.set_result(None)

    def stop(reason: str) -> None:
        verdict.append(reason)
        loop.call_soon_threadsafe(settle)

    task.add_done_callback(settle)
    unsubscribe = token.on_cancel(stop)
    timer = loop.call_later(timeout_s, settle) if timeout_s is not None else None
    watcher = loop.create_task(token.wait()) if token.polled else None
    try:
        await wake
    except asyncio.CancelledError:
        await _wind_down(task, grace_s)
        raise
    finally:
        unsubscribe()
        if timer is not None:
            timer.cancel()
        if watcher is not None:
            watcher.cancel()
    if task.done() and not verdict:
        if not task.cancelled():
            return Won(task.result())
        raise RuntimeError("the work cancelled itself")
    abandoned = await _wind_down(task, grace_s)
    return Stopped(verdict[0], abandoned) if verdict else TimedOut(abandoned)


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
