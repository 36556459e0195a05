"""How a leaf is begun: the one place that knows.

Owns: `begin`, and what of a result goes back. Must not know: where it runs, who asked.
Read next: `leaf_worker.py`.
"""

from __future__ import annotations

from typing import Protocol

from ..core.result import StatefulResult
from ..ports.cancellation import CancellationToken, Stop
from ..ports.executor import LeafEnd
from ..ports.store_admin import SessionStore
from ..ports.tool import ToolSource


class LeafLoop(Protocol):
    """What a leaf needs of a `StatefulAgentLoop`."""

    @property
    def store(self) -> SessionStore:
        """Where its sessions are."""
        ...

    async def resume(self, session_id: str, *, tools: ToolSource | None = None, stop: Stop = None) -> StatefulResult:
        """See `StatefulAgentLoop.resume`."""
        ...

    async def get_result(self, session_id: str) -> StatefulResult | None:
        """See `StatefulAgentLoop.get_result`."""
        ...

    async def aclose(self, *, drain_timeout_s: float = 30.0) -> None:
        """See `StatefulAgentLoop.aclose`."""
        ...


async def begin(loop: LeafLoop, session_id: str, stop: CancellationToken) -> StatefulResult:
    """Runs what waits for a session or was interrupted, to its end; one with nothing left to do gives its stored result.

    So it may be called again and again, by anybody. Raises what `resume` raises; a session that another process runs is
    `SessionBusyError` after the loop's `lease_wait_s`.
    """
    found = await loop.store.lookup(session_id)
    if found.head.status == "idle" and found.head.sends and all(item.kind == "stop" for item in found.waiting):
        ended = await loop.get_result(session_id)
        if ended is not None:
            return ended
    return await loop.resume(session_id, stop=stop)


def end_of(result: StatefulResult) -> LeafEnd:
    """What of a result an executor tells."""
    return LeafEnd(
        status=result.status,
        in_journal=True,
        reason=result.error_message or "",
        error_code=result.error_code,
        usage=result.usage,
    )
