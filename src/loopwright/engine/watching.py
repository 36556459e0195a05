"""A run as an iterator over its events, for hosts that prefer pulling.

Owns: the queue between bus and consumer, and stopping the run when the consumer goes. Must not know: how runs work.
Read next: `bus.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable

from ..core.result import StatefulResult
from ..model.events import AgentEvent
from .bus import AgentEventBus

_watched: contextvars.ContextVar[object] = contextvars.ContextVar("loopwright_watched", default=None)
"""Set in the task of a watched run and inherited by its tools: tells its events from those of other runs."""


async def watch(bus: AgentEventBus, start: Callable[[], Awaitable[StatefulResult]]) -> AsyncIterator[AgentEvent]:
    """Starts a run and yields its events in order until it has ended; nothing is dropped.

    Raises what the run raises. Closing the iterator cancels the run and waits for its end.
    """
    events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
    mark = object()

    def take(event: AgentEvent) -> None:
        if _watched.get() is mark:
            events.put_nowait(event)

    async def marked() -> StatefulResult:
        _watched.set(mark)
        return await start()

    unsubscribe = bus.subscribe(take)
    task = asyncio.get_running_loop().create_task(marked())
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        unsubscribe()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
