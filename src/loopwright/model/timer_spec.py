"""What a durable timer is: the body that stores keep for it, and what a host sees.

Owns: `TimerBody`, `Timer`, `TimerOutcome`. Must not know: when a timer is due, who fires it.
Loaded with the first timer. Read next: `../core/timer_rules.py`, `../engine/timers.py`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

TimerKind: TypeAlias = Literal["message", "wake"]
"""message: it says its note to the session; wake: it ends the waiting of an open call."""

TimerOutcome: TypeAlias = Literal["delivered", "queued", "skipped", "cancelled", "postponed", "error"]
"""What became of one firing. delivered: the session was idle and is run with it; queued: it takes it when it comes to it;
skipped, cancelled, postponed: a hook wanted that; error: a hook raised or the next time could not be found, it is tried
again."""


class TimerBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of an armed timer beside its id and its time, as JSON."""

    kind: TimerKind
    note: str = ""
    """What it says; "" for a wake."""
    every_s: float | None = None
    """It is armed again this many seconds after each firing."""
    cron: str | None = None
    """It is armed again for the next time of this expression of five fields."""
    tz: str | None = None
    """Name of the time zone in which `cron` is meant; None is UTC."""
    call_id: str | None = None
    """Of a wake: the call that waits for it."""
    fire_count: int = 0
    """How often it has fired, skipped firings included."""
    last_fired_at: float | None = None
    """UTC epoch seconds."""
    armed_at: float | None = None
    """UTC epoch seconds; None where nobody wrote it down."""
    firing_for: float | None = None
    """The time it was due, while somebody fires it; the time that it is stored under is then until when others wait."""


class Timer(Struct, frozen=True, kw_only=True):
    """An armed timer of a session."""

    id: str
    """Unique in its session."""
    session_id: str
    due_at: float
    """UTC epoch seconds."""
    note: str
    kind: TimerKind = "message"
    every_s: float | None = None
    cron: str | None = None
    tz: str | None = None
    fire_count: int = 0
    last_fired_at: float | None = None
    armed_at: float | None = None
    call_id: str | None = None
    status: Literal["armed", "firing"] = "armed"
    """firing: its time has come, and the hooks of some process are asked about it."""

    @property
    def recurring(self) -> bool:
        """True when it is armed again after each firing."""
        return self.every_s is not None or self.cron is not None
