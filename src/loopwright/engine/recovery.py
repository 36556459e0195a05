"""Finding and continuing what other processes left behind.

Owns: `recover`. Must not know: how a session is continued (`admission.py`).
Read next: `admission.py`.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from ..core.result import StatefulResult
from ..model.codec import CURRENT_FORMAT
from ..model.errors import LoopwrightError, RetryLaterError
from ..ports.store import ClaimQuery
from .admission import Admission
from .kernel import Kernel

AT_ONCE = 16
"""Sessions that one `recover` continues side by side."""


class Recovered(Struct, frozen=True):
    """One session that was interrupted, and what became of it here."""

    session_id: str
    result: StatefulResult | None = None
    error: LoopwrightError | None = None
    """Why it could not be continued; it stays as it was."""


async def recover(kernel: Kernel, admission: Admission, limit: int) -> list[Recovered]:
    """Continues up to `limit` interrupted sessions of this agent; one that somebody else took meanwhile is left out."""
    query = ClaimQuery(
        agent_names=(kernel.config.agent_name,), max_format=CURRENT_FORMAT, now=kernel.ambient.now(), limit=limit
    )
    found = await kernel.store.claim(query)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(session_id: str) -> Recovered | None:
        async with slots:
            try:
                result = await admission.recover(session_id)
                return Recovered(session_id, result) if result is not None else None
            except RetryLaterError:
                return None
            except LoopwrightError as error:
                return Recovered(session_id, None, error)

    done = await asyncio.gather(*[one(head.session_id) for head in found.interrupted])
    return [r for r in done if r is not None]
