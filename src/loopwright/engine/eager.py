"""Tasks whose first step is done at once.

Owns: `start`. Must not know: what the tasks do.
Work that need not wait then costs no turn of the event loop: a third of what a model call or tool call costs us. From
Python 3.12 on asyncio does this itself (`eager_start`). For 3.11 the same is put together from what asyncio offers to
those who write event loops: `_leave_task` and `_enter_task` (docs.python.org/3.11/library/asyncio-extending.html).
Read next: `stopping.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

if sys.version_info >= (3, 12):

    def start(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of `loop`, the running one, that has gone as far as its first wait."""
        return asyncio.Task(work, loop=loop, eager_start=True)

else:
    _Call = tuple[Callable[..., Any], tuple[Any, ...], Context | None]

    def start(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of `loop`, the running one, that has gone as far as its first wait; on loops in C it waits for its turn."""
        current = asyncio.current_task(loop)
        own = getattr(loop, "__dict__", None)
        if current is None or own is None or "call_soon" in own:
            return loop.create_task(work)
        calls: list[_Call] = []

        def call_soon(callback: Callable[..., Any], *args: Any, context: Context | None = None) -> None:
            calls.append((callback, args, context))

        # A new task asks its loop for its first step. For that moment the loop takes the wish down instead of queueing it.
        own["call_soon"] = call_soon
        try:
            task = asyncio.Task(work, loop=loop)
        finally:
            del own["call_soon"]
        for callback, args, context in calls:
            if getattr(callback, "__self__", None) is task and context is not None:
                _step(loop, current, callback, context)
            else:  # somebody else's, from a finalizer that ran in between
                loop.call_soon(callback, *args, context=context)
        return task

    def _step(
        loop: asyncio.AbstractEventLoop, current: asyncio.Task[Any], step: Callable[[], Any], context: Context
    ) -> None:
        asyncio.tasks._leave_task(loop, current)  # noqa: SLF001 - private in name only, see above
        try:
            context.run(step)
        finally:
            asyncio.tasks._enter_task(loop, current)  # noqa: SLF001
