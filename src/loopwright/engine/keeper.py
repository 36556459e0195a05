"""Keeps this process's leases alive, from a thread of its own.

Owns: renewal, the lease deadline, noticing a takeover or an inbox item from elsewhere. Must not know: runs.
A blocking tool cannot starve a lease, because the thread does not need the event loop; an event loop that stands
still for `loop_stall_s` loses its leases on purpose, because it could not stop its runs either.
Read next: `journal.py`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from ..model.errors import LoopwrightError
from ..ports.store import Store

_log = logging.getLogger("loopwright.lease")

INTERVAL_S = 0.5
"""Longest time between two looks at the store: bounds how late a stop from another process is seen."""

MARGIN = 0.1
"""Part of the lease time before its end in which nothing new is begun."""

IDLE_LOOKS = 20
"""Looks with no lease held after which the thread sleeps until one is."""


class Held(Struct):
    """A lease that this process holds, and whom to tell about it."""

    epoch: int
    inbox_seq: int
    on_fenced: Callable[[], None]
    on_inbox: Callable[[int], None]
    loop: asyncio.AbstractEventLoop


class LeaseKeeper:
    """One heartbeat for all leases of one store object; starts with the first lease, ends with `stop`."""

    def __init__(self, store: Store, *, ttl_s: float, loop_stall_s: float) -> None:
        self._store = store
        self._ttl_s = ttl_s
        self._stall_s = loop_stall_s
        self._held: dict[str, Held] = {}
        self._deadline = 0.0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._sleeping = False
        self._ticks: dict[asyncio.AbstractEventLoop, float] = {}

    @property
    def ttl_s(self) -> float:
        """Seconds that one renewal lasts."""
        return self._ttl_s

    def alive(self, session_id: str) -> bool:
        """True while the session's lease is surely valid, with a margin."""
        return session_id in self._held and time.monotonic() < self._deadline - MARGIN * self._ttl_s

    async def renew_now(self, session_id: str) -> int:
        """Renews at once, from the event loop; answers the session's epoch, or -1 when it is gone.

        The leases were late: an expired one that nobody took is good again, one that was taken is not; so all are looked at.
        """
        held = dict(self._held)
        asked_at = time.monotonic()
        seen = await self._store.renew((*held, session_id), self._ttl_s)
        self._tell(held, seen)
        self._deadline = max(self._deadline, asked_at + self._ttl_s)
        return seen.get(session_id, (-1, 0))[0]

    def hold(self, session_id: str, held: Held, *, asked_at: float) -> None:
        """Begins to keep a lease that was asked for at monotonic `asked_at`."""
        self._held[session_id] = held
        self._deadline = max(self._deadline, asked_at + self._ttl_s)
        self._ticks[held.loop] = asked_at
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="loopwright-lease", daemon=True)
            self._thread.start()
        elif self._sleeping:
            self._wake.set()

    def release(self, session_id: str) -> None:
        """Stops keeping a lease."""
        self._held.pop(session_id, None)

    def stop(self) -> None:
        """Ends the thread; leases still held run out."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _keep(self) -> None:
        runner: asyncio.AbstractEventLoop | None = None
        idle = 0
        try:
            while not self._stop.wait(min(self._ttl_s / 3, INTERVAL_S)):
                idle = 0 if self._held else idle + 1
                if self._held:
                    runner = runner or asyncio.new_event_loop()
                    self._look(runner)
                elif idle > IDLE_LOOKS:
                    self._sleeping = True
                    self._ticks.clear()
                    if not self._held:
                        self._wake.wait()
                    self._wake.clear()
                    self._sleeping = False
                    idle = 0
        finally:
            if runner is not None:
                runner.close()

    def _look(self, runner: asyncio.AbstractEventLoop) -> None:
        held = dict(self._held)
        if not self._loops_turn({h.loop for h in held.values()}):
            return
        asked_at = time.monotonic()
        try:
            seen = runner.run_until_complete(_awaited(self._store, tuple(held), self._ttl_s))
        except LoopwrightError as error:
            _log.warning("leases could not be renewed: %s", error)
            return
        self._tell(held, seen)
        self._deadline = asked_at + self._ttl_s

    def _tell(self, held: dict[str, Held], seen: dict[str, tuple[int, int]]) -> None:
        """Tells the runs whose lease was taken, which stop being kept, and those that something arrived for."""
        for session_id, lease in held.items():
            epoch, inbox_seq = seen.get(session_id, (-1, 0))
            try:
                if epoch != lease.epoch:
                    if self._held.get(session_id) is lease:
                        self._held.pop(session_id, None)
                    lease.loop.call_soon_threadsafe(lease.on_fenced)
                elif inbox_seq > lease.inbox_seq:
                    lease.inbox_seq = inbox_seq
                    lease.loop.call_soon_threadsafe(lease.on_inbox, inbox_seq)
            except RuntimeError:
                self._held.pop(session_id, None)  # its event loop is closed: nobody runs this session any more

    def _loops_turn(self, loops: set[asyncio.AbstractEventLoop]) -> bool:
        """Asks every loop for a sign of life; False when one has not given any for too long."""
        now = time.monotonic()
        for loop in loops:
            if now - self._ticks.get(loop, now) > self._stall_s:
                _log.warning("an event loop has not turned for %.0f s; its leases are not renewed", self._stall_s)
                return False
            try:
                loop.call_soon_threadsafe(self._tick, loop)
            except RuntimeError:
                self._bury(loop)
        return True

    def _bury(self, closed: asyncio.AbstractEventLoop) -> None:
        """A closed event loop runs nothing any more: its leases are let go, so that others can take the sessions."""
        self._ticks.pop(closed, None)
        for session_id in [i for i, held in dict(self._held).items() if held.loop is closed]:
            self._held.pop(session_id, None)
            _log.warning("the event loop that ran session %s was closed; its lease is not kept", session_id)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticks[loop] = time.monotonic()


async def _awaited(store: Store, session_ids: tuple[str, ...], ttl_s: float) -> dict[str, tuple[int, int]]:
    return await store.renew(session_ids, ttl_s)
