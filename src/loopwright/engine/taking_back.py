"""Taking a session's state back to its journal, after a refusal that does not end the run.

Owns: what follows when the work inside a commit failed. Must not know: what is written instead.
Read next: `journal.py`.
"""

from __future__ import annotations

import asyncio

from ..ports.settling import settled
from .journal import Journal, opened_state


async def take_back(journal: Journal) -> None:
    """Reads the state anew, under the lease that is still held; until it is there, the other calls of the batch see the one
    before, and nothing is written.

    Raises what the store raises; then there is no state. Cancel: it is read first. A cancellation that came during the
    refused commit was not passed on, as an error had come of it; it is now.
    """
    try:
        _, cancelled = await settled(_read(journal))
    except BaseException:
        journal.actor.forget()
        raise
    task = asyncio.current_task()
    if cancelled is not None or (task is not None and task.cancelling()):
        raise asyncio.CancelledError


async def _read(journal: Journal) -> None:
    store = journal.kernel.store
    head = (await store.lookup(journal.session_id)).head
    journal.actor.state = await opened_state(store, head)
