"""Leaves that an executor runs: handing them over, and hearing from their journals how they ended.

Owns: `run_placed`, and who may go on with a leaf that somebody else began. Must not know: where and how an executor runs anything (`ports/executor.py` says what can be asked).
The journal is the truth: whatever an executor says, or fails to say, the leaf's own session is looked into.
Loaded by runs of a loop with an executor. Read next: `workflow_leaves.py`, `../ports/executor.py`.
"""

from __future__ import annotations

import asyncio
import functools

from msgspec.structs import replace

from ..core.calls import text_of
from ..core.result import StatefulResult
from ..core.state import State
from ..core.workflow_frames import Leaf
from ..model.errors import LoopwrightError, SessionBusyError, SessionLeftError
from ..model.family_errors import LeafElsewhereError
from ..model.usage import NO_USAGE
from ..model.workflow_spec import AgentNode, Judge
from ..ports.executor import Executor, LeafEnd, LeafRef, gave_up
from . import answers, inspection, wakes
from .actor import ACTORS
from .children import ENDED
from .kernel import Kernel
from .running import RunContext

BUSY_SLEEP_S = 0.1
"""Between two looks at a session whose process has ended, and whose lease has not yet."""

_cancelling: set[asyncio.Task[None]] = set()


def place_of(kernel: Kernel) -> str:
    """Where the journals of leaves that run here are."""
    return "" if kernel.executor is None else kernel.executor.place


def check_places(kernel: Kernel, state: State) -> None:
    """Raises `LeafElsewhereError` when a leaf of the run is under way and its journal is where nobody looks from here.

    From the store alone it would begin anew, and do once more what stands in that journal. One that waits is home.
    """
    assert state.workflow is not None
    here = place_of(kernel)
    for leaf in state.workflow.machine.running.values():
        if leaf.waits is None and leaf.child_id is not None and is_placed(leaf) and leaf.place != here:
            raise LeafElsewhereError(state.facts.session_id, leaf.path, leaf.child_id, leaf.place, here)


def is_placed(leaf: Leaf) -> bool:
    """True for what an executor runs; workflows within run where their run does."""
    return isinstance(leaf.plan.spec, AgentNode | Judge)


async def run_placed(executor: Executor, ref: LeafRef, run: RunContext) -> StatefulResult | None:
    """Has a leaf run by the executor; its result from its journal, or that it waits. None while somebody else runs it.

    A leaf that its executor gave up (a crash, its time, no process at all) is ended in its journal and answered as failed,
    with the executor's word for it as code. Raises: `SessionLeftError` when the parent's own run is left to others.
    """
    kernel, session_id = run.kernel, ref.session_id
    before = await inspection.newest_result(kernel.store, session_id)
    if before is not None and (before.status in ENDED or not await _is_woken(kernel, session_id)):
        return before
    ACTORS.drop(kernel.store.identity, session_id)  # whoever runs it writes more than this process knows
    unsubscribe = run.token.on_cancel(functools.partial(_stop, executor, ref, run))
    try:
        end = await _ended(executor, ref, nudged=before is not None)
    finally:
        unsubscribe()
    after = await inspection.newest_result(kernel.store, session_id)
    if after is not None and after.status == "cancelled" and end.fault == "leaf.timed_out":
        # It stopped in order, and was only asked to because its time was over: no less a failure than one that was killed.
        return replace(after, status="failed", error_code=end.fault, error_message=end.reason or "its time was over")
    if after is not None:
        return after
    if run.journal.left or end.fault == "leaf.left":
        raise SessionLeftError(f"leaf {session_id!r} was left in the middle of its run; whoever runs it next goes on")
    if end.error_code == SessionBusyError.code:
        return None
    return await _given_up(kernel, session_id, end)


async def _ended(executor: Executor, ref: LeafRef, *, nudged: bool) -> LeafEnd:
    try:
        await (executor.nudge(ref) if nudged else executor.submit(ref))
        return await executor.observe(ref)
    except LoopwrightError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary to an executor of the host: the leaf fails, not the run
        return gave_up("leaf.unknown", f"{type(error).__name__}: {text_of(error)}")


def _stop(executor: Executor, ref: LeafRef, run: RunContext, reason: str) -> None:
    """The parent stops: so does the leaf, unless the parent was only left to another process."""
    if run.journal.left or run.journal.lease is None:
        return
    task = asyncio.ensure_future(executor.cancel(ref, reason))
    _cancelling.add(task)
    task.add_done_callback(_cancelling.discard)


async def _is_woken(kernel: Kernel, session_id: str) -> bool:
    found = await kernel.store.lookup(session_id)
    return any(item.kind in wakes.WAKING for item in found.waiting)


async def _given_up(kernel: Kernel, session_id: str, end: LeafEnd) -> StatefulResult:
    """Ends the leaf's send in its journal, so that no worker goes on with it after its step has failed."""
    assert kernel.admission is not None
    ways_in = answers.Answers(kernel, kernel.admission)
    reason = end.reason or end.fault or "its executor gave it up"
    deadline = kernel.ambient.monotonic() + 2 * kernel.config.lease_ttl_s
    while True:
        try:
            await ways_in.abort_pending(session_id, reason)
            break
        except SessionBusyError:  # its process is gone, where that cannot be seen
            if kernel.ambient.monotonic() >= deadline:
                raise
            await kernel.ambient.sleep(BUSY_SLEEP_S)
    state = await inspection.newest_result(kernel.store, session_id)
    return StatefulResult(
        session_id=session_id,
        status="cancelled" if end.status == "cancelled" else "failed",
        usage=NO_USAGE if state is None else state.usage,
        error_code=end.fault or end.error_code,
        error_message=reason,
    )
