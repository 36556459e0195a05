"""Arming, listing and cancelling the timers of a session, for the host.

Owns: these three, and telling whoever fires timers here. Must not know: the rules (`core/timer_rules.py`), how a timer fires.
Read next: `timer_draft.py`, which is the same for tools.
"""

from __future__ import annotations

from ..core import timer_rules
from ..core.timer_rules import TimerWish
from ..model.codec import encode
from ..model.event_types import AgentEventType
from ..model.timer_spec import Timer
from ..ports.store import DropTimer, DueTimer, PutTimer
from . import firing, timer_service, timers
from .journal import check_known
from .kernel import Kernel

_TRIES = 20
"""How often a timer that is fired or armed anew at the same time is looked at again."""


async def schedule(kernel: Kernel, session_id: str, wish: TimerWish) -> Timer:
    """See `SessionAccess.schedule_timer`."""
    check_known((await kernel.store.lookup(session_id)).head, kernel.config.agent_name)
    due_at, body = timer_rules.armed_by(wish, kernel.ambient.now(), timer_rules.FOR_HOSTS, timers.CRON)
    timer_id = wish.timer_id or kernel.ambient.new_id("timer")
    kernel.ambient.reach("timer.before")
    await kernel.store.enqueue(session_id, None, (PutTimer(timer_id, due_at, encode(body)),))
    kernel.ambient.reach("timer.after")
    announce(kernel, session_id, timer_id, due_at)
    return timer_rules.shown_timer(session_id, timer_id, due_at, body)


async def armed_timers(kernel: Kernel, session_id: str) -> list[Timer]:
    """See `SessionAccess.list_timers`."""
    found = [shown(stored) for stored in await kernel.store.timers(session_id)]
    return sorted(found, key=lambda timer: (timer.due_at, timer.id))


async def cancel(kernel: Kernel, session_id: str, timer_id: str) -> bool:
    """See `SessionAccess.cancel_timer`."""
    for _ in range(_TRIES):
        of_id = [stored for stored in await kernel.store.timers(session_id) if stored.timer_id == timer_id]
        if not of_id or shown(of_id[0]).kind == "wake":
            return False
        kernel.ambient.reach("timer.before")
        done = await kernel.store.enqueue(session_id, None, (DropTimer(timer_id, of_id[0].due_at),))
        kernel.ambient.reach("timer.after")
        if not done.duplicate:
            return True
    return False


def shown(stored: DueTimer) -> Timer:
    """A stored timer as a host sees it. Raises: `StoreCorruptError` when its body cannot be read."""
    body, _ = timers.read_body(stored)
    return timer_rules.shown_timer(stored.session_id, stored.timer_id, stored.due_at, body)


def announce(kernel: Kernel, session_id: str, timer_id: str, due_at: float) -> None:
    """Tells who fires the timers of this loop; says so when nobody in this process does."""
    service = timer_service.begun(kernel)
    if service is not None:
        service.armed(due_at)
    elif not firing.is_served(kernel):
        kernel.emit(session_id, AgentEventType.TIMER_UNSERVED, timer_id, due_at, kernel.config.agent_name)
