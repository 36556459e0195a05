"""The part of the public handle that sets timers.

Owns: the words of these methods, and that an open loop begins to fire its timers. Must not know: any rule.
Read next: `loop.py`, `engine/timer_service.py`, `docs/timers.md`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .late import Late

if TYPE_CHECKING:
    from .core import timer_rules
    from .engine import arming, timer_service
    from .engine.draining import InFlight
    from .engine.kernel import Kernel
    from .model.timer_spec import Timer
else:
    InFlight = Any
    timer_rules = Late("loopwright.core.timer_rules")
    arming = Late("loopwright.engine.arming")
    timer_service = Late("loopwright.engine.timer_service")

FIRST_LOOK_S = 1.0
"""From the first use of a loop until it first looks for due timers: a short-lived process never does."""


class SessionTimers:
    """Methods of `StatefulAgentLoop` about timers, which need no turn."""

    _kernel: Kernel
    _timed = False
    """True once it is settled whether and how this loop fires timers."""

    def _counted(self) -> InFlight:
        raise NotImplementedError

    async def schedule_timer(
        self,
        session_id: str,
        *,
        note: str,
        delay_s: float | None = None,
        due_at: float | None = None,
        cron: str | None = None,
        every_s: float | None = None,
        tz: str | None = None,
        timer_id: str | None = None,
    ) -> Timer:
        """Arms a durable timer that says `note` to the session when it is due, whatever process is alive then.

        One of `delay_s` (0 to 366 days), `due_at` (UTC epoch seconds; one that has passed fires at once) and `cron` (five
        fields, in time zone `tz`, by default UTC; extra `cron`) says when. `every_s` (1 or more) arms it again that long
        after each firing, and alone is the first delay, too. `note`: 1 to 2,000 characters. `timer_id`: arming one that is
        armed moves it; the same id and time never fire twice.
        It is fired by open loops and workers of this agent. Where this process has none, `timer_unserved` is emitted.
        Raises: `SpecValidationError` with everything that is wrong, `ImportError` without the extra; nothing is stored then.
        """
        wish = timer_rules.TimerWish(
            note=note, delay_s=delay_s, due_at=due_at, cron=cron, every_s=every_s, tz=tz, timer_id=timer_id
        )
        with self._counted():
            return await arming.schedule(self._kernel, session_id, wish)

    async def cancel_timer(self, session_id: str, timer_id: str) -> bool:
        """Takes an armed timer away; False when there is none. One that is being fired does not reach the session any more.

        What it has put into the inbox stays. The wake of a call that waits is no timer of the host: it stays, too.
        """
        with self._counted():
            return await arming.cancel(self._kernel, session_id, timer_id)

    async def list_timers(self, session_id: str) -> list[Timer]:
        """The armed timers of a session by due time, those that are being fired included; paused ones of imports not."""
        with self._counted():
            return await arming.armed_timers(self._kernel, session_id)

    def _watch_timers(self) -> None:
        """With the first use of a loop: timers are looked for a little later."""
        self._timed = True
        # Where points have names a test counts them and moves the clock: there the first timer that is armed begins it.
        if self._kernel.config.serve_timers and self._kernel.ambient.quiet:
            asyncio.get_running_loop().call_later(FIRST_LOOK_S, self._begin_timers)

    def _begin_timers(self) -> None:
        timer_service.begun(self._kernel)
