"""How long an awaited child may take.

Owns: the time limit of a spec: stopping the child when it is over, saying so to its parent. Must not know: calls.
The limit is of a child's whole life by the wall clock, waiting for people and for processes that died included; so a call
that waits for a child waits for that time as well. Loaded with the first child that has a limit. Read next: `children.py`.
"""

from __future__ import annotations

import asyncio
import copy

import msgspec

from ..core.result import StatefulResult
from ..model.family_errors import ChildTimedOutError
from . import children, tree_stops
from .running import RunContext


class ChildLimit:
    """The time limit of one child."""

    def __init__(self, run: RunContext, child_id: str, began: float, limit_s: float) -> None:
        """`began`: when the child was made, UTC epoch seconds."""
        self.until = began + limit_s
        """UTC epoch seconds."""
        self.due = 0.0
        self._run = run
        self._child_id = child_id
        self._error = ChildTimedOutError(child_id, limit_s)
        self._token = run.token.child()

    @property
    def is_over(self) -> bool:
        """True once the time is up."""
        return self._run.kernel.ambient.now() >= self.until

    async def run_child(self) -> StatefulResult | None:
        """As `children.run_child`, stopped when the time is over; one that was is answered as failed."""
        run, kernel = self._run, self._run.kernel
        if self.is_over:
            await tree_stops.stop_tree(kernel, self._child_id, str(self._error))
        own = copy.copy(run)
        own.token = self._token
        loop = asyncio.get_running_loop()
        self.due = loop.time() + max(self.until - kernel.ambient.now(), 0.0)
        kernel.deadlines.add(loop, self)
        try:
            result = await children.run_child(own, self._child_id)
        finally:
            kernel.deadlines.discard(self)
        timed_out = result is not None and result.status == "cancelled" and result.error_message == str(self._error)
        if result is None or not timed_out:
            return result
        return msgspec.structs.replace(
            result, status="failed", error_code=self._error.code, error_message=str(self._error), error=self._error
        )

    def expire(self) -> None:
        """The time is over."""
        self._token.cancel(str(self._error))
