"""The seam to a session's timers, as a tool's handler sees them.

Owns: `TimerBook`, and `TimedSession`, which a tool context is where a run lets its tools set timers. Must not know: stores,
the rules of what may be armed.
Read next: `tool.py`, `../core/timer_rules.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, runtime_checkable

from ..model.timer_spec import Timer, TimerBody
from .cron_reader import CronReader


class TimerBook(Protocol):
    """The timers of a session, as a handler sees and changes them. From the handler's task."""

    @property
    def cron(self) -> CronReader:
        """Reads cron expressions."""
        ...

    def now(self) -> float:
        """Wall time, UTC epoch seconds."""
        ...

    def armed(self) -> Awaitable[Sequence[Timer]]:
        """The armed timers by due time: the stored ones with the changes of this call and of calls that run beside it."""
        ...

    def arm(self, timer_id: str, due_at: float, body: TimerBody) -> None:
        """Arms a timer, or arms it anew; stored in the commit that records this call's result, or not at all."""
        ...

    def cancel(self, timer_id: str) -> None:
        """Takes a timer away; likewise. Nothing happens when there is none."""
        ...


@runtime_checkable
class TimedSession(Protocol):
    """What a `ToolContext` is besides, where the run lets its tools set timers."""

    @property
    def timers(self) -> TimerBook:
        """The session's timers."""
        ...
