"""Stopping a child or a run from outside, with everything below it.

Owns: which way a stop takes: to who runs it, to what waits, to what has not begun. Must not know: how a run hears of it.
Loaded with the first such stop. Read next: `answers.py`, `child_entry.py`.
"""

from __future__ import annotations

import logging

from ..model.errors import RetryLaterError, UsageError
from .answers import Answers
from .kernel import Kernel

_log = logging.getLogger("loopwright.children")


async def stop_tree(kernel: Kernel, session_id: str, reason: str) -> bool:
    """Stops a child or run whether it runs, waits or has not begun; one that has not is ended at once where nobody begins it."""
    admission = kernel.admission
    assert admission is not None
    ways_in = Answers(kernel, admission)
    unbegun = not (await kernel.store.lookup(session_id)).head.sends
    if await ways_in.stop(session_id, reason, unbegun=unbegun):
        if unbegun:
            await _ended_unbegun(kernel, session_id)
        return True
    head = (await kernel.store.lookup(session_id)).head
    if head.status != "waiting":
        return False
    await ways_in.abort_pending(session_id, reason)
    return True


async def _ended_unbegun(kernel: Kernel, session_id: str) -> None:
    """Takes the stop that is stored for a session that has not begun; where that cannot be done here, whoever begins it does."""
    assert kernel.admission is not None
    try:
        await kernel.admission.recover(session_id, wait_s=0.0)
    except (RetryLaterError, UsageError) as error:
        _log.debug("session %s is ended by whoever begins it: %s", session_id, error)
