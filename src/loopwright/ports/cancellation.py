"""The seam through which anybody asks a run to stop.

Owns: the token and its tree. Must not know: what is being stopped.
Read next: `tool.py` (handlers get a token), `engine/stopping.py` (how it races work).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TypeAlias

from ..model.errors import ConfigError

_log = logging.getLogger("loopwright.run")

POLL_S = 0.05
"""How often a `threading.Event` or a predicate is looked at; it bounds the delay of a stop from a thread."""


class CancellationToken:
    """A one-way flag with children: cancelling a token cancels everything derived from it, never its parent.

    Thread-safe: `cancel` may be called from any thread; callbacks run in the thread that cancels.
    """

    __slots__ = ("_callbacks", "_complained", "_lock", "_reason", "_source")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._callbacks: dict[int, Callable[[str], None]] = {}
        self._source: Callable[[], bool] | None = None
        self._complained = False

    @property
    def cancelled(self) -> bool:
        """True from the first `cancel` on; a raising predicate counts as not cancelled."""
        if self._reason is None and self._source is not None:
            try:
                if self._source():
                    self.cancel("stop event was set")
            except Exception:  # noqa: BLE001 - a host's predicate is an observer: it cannot hurt a run
                if not self._complained:  # it is asked again and again
                    _log.exception("a stop predicate raised; as long as it does, nothing is stopped")
                self._complained = True
                return False
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it was cancelled; "" while it is not."""
        return self._reason or ""

    @property
    def polled(self) -> bool:
        """True when its source can only be looked at: somebody must read `cancelled` now and then."""
        return self._source is not None and self._reason is None

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancels this token and its children; later calls change nothing."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback(reason)

    def on_cancel(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Calls `callback(reason)` once when cancelled, at once if it already is; returns how to unsubscribe."""
        key = id(callback)
        with self._lock:
            if self._reason is None:
                self._callbacks[key] = callback
                return lambda: self._callbacks.pop(key, None) and None
        callback(self._reason)
        return lambda: None

    def child(self) -> CancellationToken:
        """A token that is cancelled with this one, and alone without it."""
        child = CancellationToken()
        if self.polled:
            child._source = lambda: self.cancelled
        self.on_cancel(child.cancel)
        return child

    async def wait(self) -> str:
        """Returns the reason once cancelled."""
        if self.polled:
            while not self.cancelled:
                await asyncio.sleep(POLL_S)
            return self.reason
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def settle(reason: str) -> None:
            if not done.done():
                done.set_result(reason)

        def wake(reason: str) -> None:
            loop.call_soon_threadsafe(settle, reason)

        unsubscribe = self.on_cancel(wake)
        try:
            return await done
        finally:
            unsubscribe()

    @classmethod
    def from_any(cls, source: Stop) -> CancellationToken:
        """A token from a token (the same), an `asyncio.Event`, a `threading.Event`, a predicate or None (never).

        Raises: `ConfigError` for anything else.
        """
        if isinstance(source, CancellationToken):
            return source
        token = cls()
        if isinstance(source, asyncio.Event | threading.Event):
            token._source = source.is_set
        elif callable(source):
            token._source = source
        elif source is not None:
            raise ConfigError(
                f"stop must be a CancellationToken, an event or a function without arguments, not {source!r}"
            )
        return token


Stop: TypeAlias = CancellationToken | asyncio.Event | threading.Event | Callable[[], bool] | None
"""Everything that `stop=` accepts."""
