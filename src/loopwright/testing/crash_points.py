"""Stopping a process at a named point: as a simulation, or really.

Owns: naming an occurrence of a point, the ambient that stops there, counting what reached the outside world.
Must not know: scenarios, journals.
Read next: `crash_matrix.py`, which stops at every point there is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..ports.ambient import Ambient, RealAmbient

How = Literal["stop", "kill", "pause"]
"""stop: raise `ProcessStopped`, from now on everywhere; kill: SIGKILL to this process; pause: SIGSTOP to it."""

CRASH_AT = "LOOPWRIGHT_CRASH_AT"
"""Environment variable of a child process: `point#n`, stop at the n-th time this point is reached."""

CRASH_HOW = "LOOPWRIGHT_CRASH_HOW"
"""Environment variable beside it: kill (default) or pause."""


class StopAt(Struct, frozen=True, order=True):
    """One occurrence of one named point."""

    point: str
    """`*` is any point: `*#5` is the fifth that is reached."""
    occurrence: int = 1
    """From 1."""

    def __str__(self) -> str:
        return f"{self.point}#{self.occurrence}"

    @classmethod
    def parse(cls, text: str) -> StopAt:
        """Reads `point#n`; `point` alone means its first occurrence. Raises `ValueError`."""
        point, mark, number = text.rpartition("#")
        return cls(point, int(number)) if mark else cls(text)


class ProcessStopped(BaseException):
    """The simulated process is dead. Not an `Exception`, so that nothing handles it as a failure of its own."""

    def __init__(self, at: StopAt) -> None:
        self.at = at
        super().__init__(f"stopped at {at}")


class CrashPoints:
    """An `Ambient` that notes every named point and can stop the process at one of them.

    After a stop every call raises `ProcessStopped`, so that whatever still unwinds in other tasks and threads cannot go on;
    `on_stop` is called once, before the first raise: give it `store.abandon`, so that nothing is written any more.
    """

    def __init__(
        self,
        inner: Ambient | None = None,
        *,
        stop_at: StopAt | None = None,
        how: How = "stop",
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        self._inner = inner or RealAmbient()
        self._stop_at = stop_at
        self._how: How = how
        self._seen: Counter[str] = Counter()
        self.on_stop = on_stop
        self.reached: list[StopAt] = []
        """Every point so far, in order."""
        self.stopped: StopAt | None = None
        """Where the process was stopped; None while it is alive."""

    @classmethod
    def from_environment(cls, inner: Ambient | None = None, environ: Mapping[str, str] = os.environ) -> CrashPoints:
        """What `LOOPWRIGHT_CRASH_AT` and `LOOPWRIGHT_CRASH_HOW` ask for; without them nothing ever stops."""
        text = environ.get(CRASH_AT)
        how: How = "pause" if environ.get(CRASH_HOW) == "pause" else "kill"
        return cls(inner, stop_at=StopAt.parse(text) if text else None, how=how)

    def alive(self) -> None:
        """Raises `ProcessStopped` when the process is dead: call it before anything that touches the world."""
        if self.stopped is not None:
            raise ProcessStopped(self.stopped)

    quiet = False

    def reach(self, point: str) -> None:
        """Notes the point and stops when it is the one."""
        self.alive()
        self._seen[point] += 1
        here = StopAt(point, self._seen[point])
        self.reached.append(here)
        self._inner.reach(point)
        if self._stop_at in (here, StopAt("*", len(self.reached))):
            self._stop(here)

    def now(self) -> float:
        """See `Ambient.now`."""
        self.alive()
        return self._inner.now()

    def monotonic(self) -> float:
        """See `Ambient.monotonic`."""
        self.alive()
        return self._inner.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Ambient.sleep`."""
        self.alive()
        await self._inner.sleep(seconds)
        self.alive()

    def random(self) -> float:
        """See `Ambient.random`."""
        self.alive()
        return self._inner.random()

    def new_id(self, prefix: str) -> str:
        """See `Ambient.new_id`."""
        self.alive()
        return self._inner.new_id(prefix)

    def token(self) -> bytes:
        """See `Ambient.token`."""
        self.alive()
        return self._inner.token()

    def _stop(self, here: StopAt) -> None:
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._how == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        self.stopped = here
        if self.on_stop is not None:
            self.on_stop()
        raise ProcessStopped(here)


class EffectLog:
    """What reached the outside world, by (tool name, idempotency key); with `path` it survives the process.

    Concurrency: from any thread; with `path` from any process.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._entries: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def add(self, name: str, key: str) -> None:
        """Notes one effect, durable before this returns when there is a file."""
        if self._path is None:
            with self._lock:
                self._entries.append((name, key))
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, f"{name} {key}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each call had its effect."""
        if self._path is None:
            with self._lock:
                return Counter(self._entries)
        if not self._path.exists():
            return Counter()
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return Counter((name, key) for name, _, key in (line.partition(" ") for line in lines))

    def totals(self) -> Counter[str]:
        """How often each tool had its effect."""
        totals: Counter[str] = Counter()
        for (name, _), times in self.counts().items():
            totals[name] += times
        return totals
