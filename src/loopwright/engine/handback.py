"""Giving back a lease whose run ended without a last commit.

Owns: the retries of that. Must not know: why the run ended.
Why: a lease lives as long as its owner's heartbeat. A process that goes on with other sessions would keep a session
that it will never run again.
Read next: `keeper.py`.
"""

from __future__ import annotations

import asyncio
import logging

from ..model.errors import LoopwrightError, SessionFencedError, UsageError
from ..ports.store import HeadChange, Lease, Transition
from .kernel import Kernel

_log = logging.getLogger("loopwright.lease")

FIRST_WAIT_S = 0.1
LAST_WAIT_S = 30.0

_tasks: set[asyncio.Task[None]] = set()


def hand_back_later(kernel: Kernel, session_id: str, lease: Lease) -> None:
    """Tries to release the lease until the store takes it, somebody else has it, or the store is closed."""
    task = asyncio.get_running_loop().create_task(_hand_back(kernel, session_id, lease))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def handed_back(within_s: float) -> None:
    """Waits until the leases that this event loop is giving back are given back, or the time is over."""
    here = asyncio.get_running_loop()
    under_way = [task for task in _tasks if task.get_loop() is here]
    if under_way:
        await asyncio.wait(under_way, timeout=within_s)


async def _hand_back(kernel: Kernel, session_id: str, lease: Lease) -> None:
    wait_s = FIRST_WAIT_S
    while True:
        try:
            head = (await kernel.store.lookup(session_id)).head
            if head.epoch != lease.epoch or head.owner != kernel.store.owner:
                return
            release = Transition(
                session_id=session_id, expect=head.position, lease=lease, head=HeadChange(progress=False), release=True
            )
            await kernel.store.commit(release)
            return
        except (SessionFencedError, UsageError):
            return  # somebody else has it, the session is gone, or the store was closed: nothing is left to give back
        except LoopwrightError as error:
            _log.info("the lease of session %s cannot be given back yet: %s", session_id, error)
        await kernel.ambient.sleep(wait_s)
        wait_s = min(wait_s * 2, LAST_WAIT_S)
