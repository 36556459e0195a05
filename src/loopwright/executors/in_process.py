"""Leaves in this very process, beside the loop that they belong to.

Owns: nothing but the hand-over: the loop lends the function that runs a session by its id. Must not know: the loop.
Read next: `leaf_table.py`; `subprocess.py` for leaves that need a process of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import structs

from ..core.result import StatefulResult
from ..ports.cancellation import CancellationToken
from ..ports.executor import LeafEnd, LeafRef, gave_up
from .beginning import end_of
from .leaf_table import LeafTable, RunningLeaf

LeafRunner: TypeAlias = Callable[[str, CancellationToken], Awaitable[StatefulResult]]
"""Begins the session of this id, or goes on with it, and returns its result; the token ends its send as cancelled.

Cancelling the task leaves the session as a closed loop would: interrupted, or its send ended as cancelled."""


class InProcessExecutor:
    """An `Executor` whose leaves are tasks of this event loop; a leaf that takes the process down takes all.

    `run_leaf`: what the loop lends at wiring. There is no time limit of its own: `LeafRef.timeout_s` is kept.
    """

    def __init__(self, run_leaf: LeafRunner) -> None:
        self._run_leaf = run_leaf
        self._leaves = LeafTable(self._run)

    @property
    def place(self) -> str:
        """See `Executor.place`: the store that the loop has."""
        return ""

    async def submit(self, ref: LeafRef) -> None:
        """See `Executor.submit`."""
        await self._leaves.submit(ref)

    async def nudge(self, ref: LeafRef) -> None:
        """See `Executor.nudge`."""
        await self._leaves.nudge(ref)

    async def cancel(self, ref: LeafRef, reason: str) -> None:
        """See `Executor.cancel`."""
        await self._leaves.cancel(ref, reason)

    async def observe(self, ref: LeafRef) -> LeafEnd:
        """See `Executor.observe`."""
        return await self._leaves.observe(ref)

    async def aclose(self) -> None:
        """See `Executor.aclose`; to leave sessions interrupted, close the loop first: here runs end as cancelled."""
        await self._leaves.aclose()

    async def _run(self, leaf: RunningLeaf) -> LeafEnd:
        token = CancellationToken()
        run = asyncio.ensure_future(self._run_leaf(leaf.ref.session_id, token))
        asked = asyncio.ensure_future(leaf.asked_to_end())
        try:
            await asyncio.wait({run, asked}, timeout=leaf.ref.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            timed_out = not run.done() and leaf.asked is None
            if not run.done():
                token.cancel("its time was over" if timed_out else leaf.reason)
            await asyncio.wait({run})
        finally:
            asked.cancel()
            run.cancel()
        if run.cancelled():
            return gave_up("leaf.left", "its loop was closed")
        end = end_of(run.result())
        if timed_out and end.status == "cancelled":
            return structs.replace(end, fault="leaf.timed_out")
        return end
