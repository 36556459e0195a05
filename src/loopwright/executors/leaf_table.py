"""The leaves of one executor: which run, how the others ended.

Owns: what makes `submit` idempotent, `observe` shared, a nudge a second look; forgetting. Must not know: how a leaf is run.
Read next: `in_process.py`, `subprocess.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from ..model.errors import LoopwrightError
from ..ports.executor import LeafEnd, LeafRef, gave_up

REMEMBERED: Final = 1000
"""Ends that an executor can still tell; older ones are in the journals."""


class RunningLeaf:
    """One leaf under way, and what was asked of it meanwhile."""

    def __init__(self, ref: LeafRef) -> None:
        self.ref = ref
        self.asked: Literal["cancel", "leave"] | None = None
        """The first thing that anybody asked of it to end it."""
        self.reason = ""
        self.nudged = False
        self._heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, what: Literal["cancel", "leave"], reason: str) -> None:
        """Asks it to end; a leaf that is asked to leave after it was cancelled is left at once."""
        if self.asked is None or what == "leave":
            self.asked, self.reason = what, reason
        if not self._heard.done():
            self._heard.set_result(None)

    async def asked_to_end(self) -> None:
        """Returns when somebody asked it to end. Any number of waiters, each of which may be cancelled."""
        await asyncio.shield(self._heard)


class LeafTable:
    """Carries the five verbs for an executor that can run one leaf to its end.

    `run` is awaited in a task of its own for each leaf; it returns an end, whatever happens, and within a bounded time once
    the leaf was asked to end. Concurrency: one event loop.
    """

    def __init__(self, run: Callable[[RunningLeaf], Awaitable[LeafEnd]]) -> None:
        self._run = run
        self._tasks: dict[tuple[str, str, int], asyncio.Task[LeafEnd]] = {}
        self._running: dict[tuple[str, str, int], RunningLeaf] = {}
        self._ends: dict[tuple[str, str, int], LeafEnd] = {}
        self._closed = False

    async def submit(self, ref: LeafRef) -> None:
        """See `Executor.submit`."""
        if ref.key not in self._tasks and ref.key not in self._ends:
            self._begin(ref)

    async def nudge(self, ref: LeafRef) -> None:
        """See `Executor.nudge`."""
        leaf = self._running.get(ref.key)
        if leaf is None:
            self._ends.pop(ref.key, None)
            self._begin(ref)
        else:
            leaf.nudged = True

    async def cancel(self, ref: LeafRef, reason: str) -> None:
        """See `Executor.cancel`."""
        leaf = self._running.get(ref.key)
        if leaf is not None:
            leaf.ask("cancel", reason)

    async def observe(self, ref: LeafRef) -> LeafEnd:
        """See `Executor.observe`."""
        task = self._tasks.get(ref.key)
        if task is not None:
            return await asyncio.shield(task)
        known = self._ends.get(ref.key)
        if known is not None:
            return known
        return gave_up("leaf.unknown", f"this executor knows nothing of leaf {ref.session_id!r}; submit it")

    async def aclose(self) -> None:
        """See `Executor.aclose`."""
        self._closed = True
        while self._tasks:
            for leaf in self._running.values():
                leaf.ask("leave", "the executor was closed")
            await asyncio.wait(self._tasks.values())

    def _begin(self, ref: LeafRef) -> None:
        if self._closed:
            self._remember(ref, gave_up("leaf.left", "the executor is closed; nothing was begun"))
            return
        earlier = [task for key, task in self._tasks.items() if key[:2] == ref.key[:2]]
        leaf = self._running[ref.key] = RunningLeaf(ref)
        self._tasks[ref.key] = asyncio.get_running_loop().create_task(self._to_its_end(leaf, earlier))

    async def _to_its_end(self, leaf: RunningLeaf, earlier: list[asyncio.Task[LeafEnd]]) -> LeafEnd:
        ref = leaf.ref
        try:
            if earlier:
                await asyncio.wait(earlier)
            while True:
                leaf.nudged = False
                end = await self._once(leaf)
                if not leaf.nudged or leaf.asked is not None or not end.in_journal:
                    break
        finally:
            del self._tasks[ref.key], self._running[ref.key]
        self._remember(ref, end)
        return end

    async def _once(self, leaf: RunningLeaf) -> LeafEnd:
        if leaf.asked is not None:
            reason = leaf.reason or "stopped before it began"
            return gave_up("leaf.cancelled" if leaf.asked == "cancel" else "leaf.left", reason)
        try:
            return await self._run(leaf)
        except LoopwrightError as error:
            return LeafEnd(status="failed", in_journal=False, error_code=error.code, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the top of a run: a driver or a host's code may raise anything
            return gave_up("leaf.crashed", repr(error))

    def _remember(self, ref: LeafRef, end: LeafEnd) -> None:
        self._ends[ref.key] = end
        while len(self._ends) > REMEMBERED:
            del self._ends[next(iter(self._ends))]
