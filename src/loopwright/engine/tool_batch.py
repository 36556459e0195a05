"""The calls of one reply, side by side.

Owns: the limit on how many run at once, batch hooks, skipping. Must not know: what one call does (`tool_call.py`).
Read next: `tool_call.py`.
"""

from __future__ import annotations

import asyncio

from ..core.calls import as_content
from ..core.state import OpenCall
from ..model.records import ToolFinished
from ..ports.hook import BatchContext, DecideContext, HookDirective, HookPoint
from .running import RunContext
from .tool_call import ToolRun


class BatchResult:
    """What is left of a batch: calls only the host can answer, and whether a hook ended the send."""

    __slots__ = ("ended", "held")

    def __init__(self, held: frozenset[str] = frozenset(), ended: bool = False) -> None:
        self.held = held
        self.ended = ended


async def run_batch(run: RunContext, calls: tuple[OpenCall, ...]) -> BatchResult:
    """Runs the calls, at most `max_parallel_tools` at once; each result is durable as soon as it is there.

    Raises what ends the run; calls still running are then stopped and waited for, none is left unobserved.
    """
    hooks = run.kernel.hooks
    asked = tuple([c.call for c in calls])
    if hooks.has(HookPoint.ROUND_DECIDE):
        reply = run.state.messages[-1]
        decide = DecideContext(
            session_id=run.session_id, round_index=run.round, tool_calls=asked, text=getattr(reply, "text", "")
        )
        await hooks.run(HookPoint.ROUND_DECIDE, decide)
        if decide.directive in (HookDirective.SKIP, HookDirective.BREAK):
            await _skip(run, calls, decide.output)
            return BatchResult(ended=decide.directive is HookDirective.BREAK)
    batch = BatchContext(session_id=run.session_id, round_index=run.round, tool_calls=asked)
    if hooks.has(HookPoint.TOOLS_BATCH_BEFORE):
        await hooks.run(HookPoint.TOOLS_BATCH_BEFORE, batch)
        if batch.directive is HookDirective.SKIP:
            await _skip(run, calls, batch.output)
            return BatchResult()
    run.kernel.ambient.reach("batch.before")
    held = await _run_all(run, calls)
    run.kernel.ambient.reach("batch.after")
    if hooks.has(HookPoint.TOOLS_BATCH_AFTER):
        await hooks.run(HookPoint.TOOLS_BATCH_AFTER, batch)
    return BatchResult(held)


async def _run_all(run: RunContext, calls: tuple[OpenCall, ...]) -> frozenset[str]:
    if len(calls) == 1:
        only = ToolRun(run, calls[0])
        await only.run()
        return frozenset([only.call.call.id]) if only.held else frozenset()
    slots = asyncio.Semaphore(run.kernel.config.max_parallel_tools)
    runs = [ToolRun(run, call) for call in calls]
    try:
        async with asyncio.TaskGroup() as group:
            for one in runs:
                group.create_task(_in_slot(run, one, runs, slots))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return frozenset([r.call.call.id for r in runs if r.held])


async def _in_slot(run: RunContext, one: ToolRun, runs: list[ToolRun], slots: asyncio.Semaphore) -> None:
    async with slots:
        if any(other.broke for other in runs):
            await one.answer("skipped", "[skipped: a hook ended this batch]")
        elif run.token.cancelled:
            await one.answer("aborted", f"<aborted: {run.token.reason}>")
        else:
            await one.run()


async def _skip(run: RunContext, calls: tuple[OpenCall, ...], output: str) -> None:
    text = as_content(output or "[skipped by a hook]")
    await run.journal.append([ToolFinished(c.call.id, c.call.name, "skipped", text) for c in calls])
