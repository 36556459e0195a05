"""Firing timers whose time has come.

Owns: how a due timer becomes an inbox item, once. Must not know: who finds due timers (`worker.py`), who arms them.
Read next: `running.py`, where the item becomes a user message.
"""

from __future__ import annotations

from ..model.codec import decode
from ..model.messages import UserMessage
from ..ports.store import DropTimer, DueTimer, Enqueued, InboxItem
from .kernel import Kernel


def wake_id(timer: DueTimer) -> str:
    """The item id of this timer at this time: whoever fires it, and however often, it is one item."""
    return f"timer:{timer.timer_id}:{timer.due_at!r}"


async def fire(kernel: Kernel, timer: DueTimer) -> Enqueued:
    """Puts what the timer says (an encoded `UserMessage`) into the session's inbox and removes the timer, in one commit.

    A second try, from any process, is a duplicate and changes nothing; so is a try whose timer was dropped or armed for
    another time since it was found. The session takes the item like a follow-up.
    Raises: `StoreCorruptError` when the body is no user message, nothing is stored then; what `Store.enqueue` raises.
    """
    decode(timer.body, UserMessage)
    item = InboxItem(wake_id(timer), "timer", timer.body, kernel.ambient.now())
    kernel.ambient.reach("inbox.before")
    queued = await kernel.store.enqueue(timer.session_id, item, (DropTimer(timer.timer_id, timer.due_at),))
    kernel.ambient.reach("inbox.after")
    return queued
