"""Time limits that are nearly never reached, at the price of a set's entry each.

Owns: `Deadlines`. Must not know: what is limited.
Why: a timer of the event loop costs as much as a good part of a turn, and nearly every model call and tool call ends long before its
limit. Here one timer, set for the earliest, looks after all of them.
Read next: `stopping.py`.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Protocol


class Limited(Protocol):
    """What can run out of time."""

    due: float
    """In seconds of the event loop's clock."""

    def expire(self) -> None:
        """Called once, on the event loop, when the time is over."""
        ...


class Deadlines:
    """The time limits of one event loop at a time. Concurrency: from the event loop's thread."""

    __slots__ = ("_at", "_limited", "_loop", "_timer")

    def __init__(self) -> None:
        self._limited: set[Limited] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        """When the timer fires; means nothing without one."""

    def add(self, loop: asyncio.AbstractEventLoop, limited: Limited) -> None:
        """Calls `limited.expire()` when it is due, unless it is discarded before."""
        if loop is not self._loop:  # the one before is closed: nothing is under way on it
            self._limited.clear()
            self._loop, self._timer = loop, None
        self._limited.add(limited)
        if self._timer is None or limited.due < self._at:
            self._set(loop, limited.due)

    def discard(self, limited: Limited) -> None:
        """Ends a limit. The timer stays: it finds out when it fires."""
        self._limited.discard(limited)

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        # In no context of its own: it must not keep alive what the send that happened to set it carries around.
        self._timer = loop.call_at(at, self._look, loop, context=Context())

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = self._at
        for limited in [one for one in self._limited if one.due <= now]:
            self._limited.discard(limited)
            limited.expire()
        if self._limited:
            self._set(loop, min(one.due for one in self._limited))
