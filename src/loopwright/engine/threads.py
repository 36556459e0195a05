"""Sync handlers in threads of their own, which nobody has to wait for.

Owns: the thread per call and the count of those left behind. Must not know: what runs in them.
Why not the default executor: its few threads starve when handlers hang, and it is joined at exit.
Read next: `tool_call.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_left_behind: set[threading.Thread] = set()
_log = logging.getLogger("loopwright.threads")


def _leave(thread: threading.Thread) -> None:
    """Counts a thread that goes on, and says how many do; those that ended meanwhile count no more."""
    for ended in [one for one in _left_behind if not one.is_alive()]:
        _left_behind.discard(ended)
    _left_behind.add(thread)
    _log.warning("a sync handler goes on after its call ended; threads left behind: %d", len(_left_behind))


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a new daemon thread with this task's context variables.

    Cancel: the thread cannot be stopped; it is left behind, counted in a warning, and its result dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def body() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(work)
        except StopIteration as stop:
            error = RuntimeError(f"the handler raised StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - carried to the waiting task, which raises it
            error = raised
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:
            return  # the event loop is closed: nobody waits any more

    thread = threading.Thread(target=body, name="loopwright-tool", daemon=True)
    thread.start()
    try:
        return await done
    except asyncio.CancelledError:
        if thread.is_alive():
            _leave(thread)
        raise
