"""A session's timers as the handler of one call sees and changes them.

Owns: `TimerDraft`: what a call armed and cancelled, until its result is stored or it failed. Must not know: the rules of
what may be armed (`core/timer_rules.py`).
What is changed rides as operations in the commit of the call's result: a call that is made again after a crash has armed
nothing yet, and one whose result is durable is not made again. Read next: `../ports/timer_book.py`, `tool_call.py`.
"""

from __future__ import annotations

from typing import TypeAlias

from ..core import timer_rules
from ..model.codec import encode
from ..model.errors import UsageError
from ..model.timer_spec import Timer, TimerBody
from ..ports.store import DropTimer, Op, PutTimer
from . import arming
from .running import RunContext
from .timers import CRON

TimerChange: TypeAlias = "tuple[str, Timer | None, Op]"
"""(timer id, what it is then or None, what is done in the commit)."""


class TimerDraft:
    """What one call of a handler does to timers."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._changes: list[TimerChange] = []
        self._is_over = False
        self.cron = CRON

    def now(self) -> float:
        """See `TimerBook.now`."""
        return self._run.kernel.ambient.now()

    async def armed(self) -> list[Timer]:
        """See `TimerBook.armed`."""
        run, settled = self._run, -1
        found: dict[str, Timer] = {}
        # What another call stored while the store was asked may be missing in the answer, and is a draft no longer.
        while settled != run.timers_settled:
            settled = run.timers_settled
            found = {timer.id: timer for timer in await arming.armed_timers(run.kernel, run.session_id)}
        for timer_id, timer, _ in [change for draft in run.timer_drafts for change in draft.changes]:
            if timer is None:
                found.pop(timer_id, None)
            else:
                found[timer_id] = timer
        return sorted(found.values(), key=lambda timer: (timer.due_at, timer.id))

    def arm(self, timer_id: str, due_at: float, body: TimerBody) -> None:
        """See `TimerBook.arm`. Raises: `UsageError` after the handler has ended."""
        timer = timer_rules.shown_timer(self._run.session_id, timer_id, due_at, body)
        self._change(timer_id, timer, PutTimer(timer_id, due_at, encode(body)))

    def cancel(self, timer_id: str) -> None:
        """See `TimerBook.cancel`. Raises: `UsageError` after the handler has ended."""
        self._change(timer_id, None, DropTimer(timer_id))

    @property
    def changes(self) -> tuple[TimerChange, ...]:
        """In the order in which they were made."""
        return tuple(self._changes)

    def close(self) -> tuple[Op, ...]:
        """The handler has returned: what is to be done with its result."""
        self._is_over = True
        return tuple([op for _, _, op in self._changes])

    def drop(self) -> None:
        """It is stored, or will never be."""
        self._is_over = True
        self._run.timer_drafts = tuple([draft for draft in self._run.timer_drafts if draft is not self])
        self._run.timers_settled += 1

    def announce(self) -> None:
        """It was stored: whoever fires timers learns of those that are armed."""
        for timer_id, timer, _ in self._changes:
            if timer is not None:
                arming.announce(self._run.kernel, self._run.session_id, timer_id, timer.due_at)

    def _change(self, timer_id: str, timer: Timer | None, op: Op) -> None:
        if self._is_over:
            raise UsageError("timers came after the handler had ended; nothing was changed")
        if self not in self._run.timer_drafts:
            self._run.timer_drafts = (*self._run.timer_drafts, self)
        self._changes.append((timer_id, timer, op))
