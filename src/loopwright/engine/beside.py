"""Work beside the runs of a loop: children in the background, parents that are woken.

Owns: such tasks: who refers to them, and what becomes of their errors. Must not know: what they do.
`StatefulAgentLoop.aclose` ends them: a run among them is left for the next process, not cancelled.
Read next: `children.py`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..model.errors import LoopwrightError, RetryLaterError, SessionLeftError
from . import draining
from .actor import outside_of_turns
from .kernel import Kernel

if TYPE_CHECKING:
    from .turn import Turn

_log = logging.getLogger("loopwright.beside")

LEAVING = "the loop is closed; another one goes on"


def run_beside(kernel: Kernel, session_id: str) -> None:
    """Runs what waits for a session; when that fails here, or the process dies, it is for the workers."""
    task = asyncio.get_running_loop().create_task(_run(kernel, session_id), context=outside_of_turns())
    kernel.background.add(task)
    task.add_done_callback(kernel.background.discard)


async def _run(kernel: Kernel, session_id: str) -> None:
    admission = kernel.admission
    assert admission is not None

    def taken(turn: Turn) -> None:
        kernel.left_on_close[session_id] = turn
        if kernel.closing:
            turn.leave(LEAVING)

    try:
        if not kernel.closing:
            await admission.recover(session_id, taken=taken)
    except (RetryLaterError, SessionLeftError) as error:
        _log.debug("session %s is for others: %s", session_id, error)
    except LoopwrightError as error:
        _log.warning("session %s could not be run here: %s", session_id, error)
    finally:
        kernel.left_on_close.pop(session_id, None)


def closing(kernel: Kernel) -> None:
    """The loop closes: nothing begins beside it any more, and what runs there is left in the middle, its leases given back."""
    kernel.closing = True
    if kernel.timer_service is not None:
        kernel.timer_service.close()
    for turn in list(kernel.left_on_close.values()):
        turn.leave(LEAVING)


async def closed(kernel: Kernel, timeout_s: float) -> None:
    """Waits until nothing runs beside the loop any more; what does after `timeout_s` is cancelled."""
    if kernel.timer_service is not None:
        await kernel.timer_service.ended(timeout_s)
    if kernel.background:
        await draining.ended(kernel.background, timeout_s)
