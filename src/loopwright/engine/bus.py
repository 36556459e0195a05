"""Events to whoever listens; observers cannot hurt a run.

Owns: subscription, delivery, isolation. Must not know: what events mean.
Read next: `model/events.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..model.errors import ConfigError
from ..model.event_types import AgentEventType

if TYPE_CHECKING:
    from ..model.events import AgentEvent

Subscriber: TypeAlias = "Callable[[AgentEvent], Awaitable[None] | None]"
"""Takes each event; a coroutine function runs in a task of its own, in order of its events."""

_log = logging.getLogger("loopwright.events")


class AgentEventBus:
    """Delivers events to subscribers by type.

    Guarantees: events of one session arrive in order at plain subscribers; a raising subscriber is logged and
    changes nothing; async subscribers never delay a run: each has a queue of `queue_size` events whose oldest
    are dropped (and counted in `dropped`) when it cannot follow.
    Concurrency: publish and subscribe from the event loop's thread.
    """

    def __init__(self, *, queue_size: int = 1000) -> None:
        self._all: list[Subscriber] = []
        self._by_type: dict[AgentEventType, list[Subscriber]] = {}
        self._queues: dict[Subscriber, _Queue] = {}
        self._queue_size = queue_size
        self.wanted: frozenset[AgentEventType] = frozenset()
        """Types somebody listens to; an event of another type need not be made."""
        self.dropped = 0
        self._screen: Callable[[AgentEvent], Sequence[AgentEvent]] | None = None
        self._needed: frozenset[AgentEventType] = frozenset()

    def subscribe(self, handler: Subscriber, event_type: AgentEventType | str | None = None) -> Callable[[], None]:
        """Adds a subscriber for one type or, without it, all; returns how to unsubscribe.

        Raises: `ConfigError` for a type that does not exist.
        """
        kind = None if event_type is None else _kind(event_type)
        group = self._all if kind is None else self._by_type.setdefault(kind, [])
        group.append(handler)
        self._update()

        def unsubscribe() -> None:
            if handler in group:
                group.remove(handler)
                self._update()

        return unsubscribe

    def screen_with(
        self, screen: Callable[[AgentEvent], Sequence[AgentEvent]] | None, needs: Iterable[AgentEventType] = ()
    ) -> None:
        """Lets `screen` say what is delivered in place of each event; None: every event as it is.

        `needs`: types that it has to see whoever listens. An event on which it raises is logged and not delivered.
        """
        self._screen, self._needed = screen, frozenset(needs)
        self._update()

    def publish(self, event: AgentEvent) -> None:
        """Hands the event to everybody who wants it; never raises."""
        if self._screen is None:
            return self._deliver(event)
        try:
            instead = self._screen(event)
        except Exception:  # noqa: BLE001 - the observer boundary: what could not be screened is not shown
            _log.exception("the screen of events raised; the event is not delivered, the run is not affected")
            return None
        for one in instead:
            self._deliver(one)
        return None

    def _deliver(self, event: AgentEvent) -> None:
        for handler in (*self._all, *self._by_type.get(event.type, ())):
            try:
                queue = self._queues.get(handler)
                if queue is not None:
                    self.dropped += queue.put(event)
                    continue
                waiting = handler(event)
                if waiting is not None and hasattr(waiting, "__await__"):
                    self._queues[handler] = _Queue(handler, waiting, self._queue_size)
            except Exception:  # noqa: BLE001 - the observer boundary: a subscriber cannot hurt a run
                _log.exception("an event subscriber raised; the run is not affected")

    async def drain(self, timeout_s: float = 5.0) -> None:
        """Waits until async subscribers have caught up, at most `timeout_s`."""
        tasks = [q.task for q in self._queues.values() if not q.task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    def _update(self) -> None:
        kinds = {kind for kind, group in self._by_type.items() if group}
        if kinds:
            kinds |= self._needed
        self.wanted = frozenset(AgentEventType) if self._all else frozenset(kinds)


class _Queue:
    """The backlog of one async subscriber and the task that works it off."""

    def __init__(self, handler: Subscriber, first: Awaitable[None], size: int) -> None:
        self.handler = handler
        self.size = size
        self.backlog: list[AgentEvent] = []
        self.task: asyncio.Task[None] = asyncio.ensure_future(self._work(first))

    def put(self, event: AgentEvent) -> int:
        """Queues an event; answers how many old ones had to go."""
        self.backlog.append(event)
        gone = max(len(self.backlog) - self.size, 0)
        del self.backlog[:gone]
        if self.task.done():
            self.task = asyncio.ensure_future(self._work(None))
        return gone

    async def _work(self, first: Awaitable[Any] | None) -> None:
        pending = first
        while pending is not None or self.backlog:
            try:
                made = pending if pending is not None else self.handler(self.backlog.pop(0))
                pending = None
                if made is not None:
                    await made
            except Exception:  # noqa: BLE001 - the observer boundary: a subscriber cannot hurt a run
                _log.exception("an event subscriber raised; the run is not affected")


def _kind(name: AgentEventType | str) -> AgentEventType:
    try:
        return AgentEventType(name)
    except ValueError as error:
        raise ConfigError(f"unknown event type {name!r}; there are {', '.join(AgentEventType)}") from error
