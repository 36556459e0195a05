"""What is decided between the steps of a run: how many items, which case, whether a loop is done.

Owns: looking at the values for that. Must not know: what follows (`../core/workflow_frames.py`), commits.
Read next: `workflow_values.py`.
"""

from __future__ import annotations

from typing import Any, cast

from ..core.workflow_conditions import case_key, holds, references_of_condition
from ..core.workflow_frames import ForeachFrame, Frame, LoopFrame
from ..core.workflow_state import WorkflowState
from ..core.workflow_templates import MISSING, NoOutput, references_of, render
from ..model.errors import LoopwrightError, RetryLaterError, SessionGoneError, StoreError
from ..model.workflow_spec import MAX_LEAVES
from .workflow_values import RunValues


async def decided(frame: Frame, run: WorkflowState, values: RunValues) -> Any:
    """The value of the `NodeDecided` that a frame waits for; an object with `error` where it cannot be decided."""
    try:
        if isinstance(frame, ForeachFrame):
            return await _count(frame, run, values)
        if isinstance(frame, LoopFrame):
            return await _is_done(frame, values)
        return await _case(frame, values)
    except (StoreError, RetryLaterError, SessionGoneError):
        raise
    except (LoopwrightError, TypeError, ValueError) as error:
        return {"error": str(error)[:2_000]}


async def _count(frame: ForeachFrame, run: WorkflowState, values: RunValues) -> Any:
    count = len(await values.items(frame))
    most = run.spec.max_leaves or MAX_LEAVES
    leaves = frame.plan.children[0].leaves
    if run.machine.begun + count * leaves > most:
        return {
            "error": f"{frame.path} would start {count:,} × {leaves:,} steps, and the run may start {most:,} in all,"
            f" {run.machine.begun:,} of them began before; give it fewer items"
        }
    return count


async def _is_done(frame: LoopFrame, values: RunValues) -> Any:
    until = frame.plan.spec.until
    if until is not None:
        return holds(until, await values.lookup(references_of_condition(until), frame.inner))
    assert frame.judged is not None
    verdict = await values.output("judge", frame.judged)
    if not isinstance(verdict, dict):
        return {"error": f"the judge of {frame.path} gave no verdict"}
    return bool(cast("dict[str, object]", verdict).get("done"))


async def _case(frame: Frame, values: RunValues) -> Any:
    on = frame.plan.spec.on
    if "{{" in on:
        return render(on, await values.lookup(references_of(on), frame.scope)).strip()
    value = await values.at(on, frame.scope)
    return None if value is MISSING or isinstance(value, NoOutput) else case_key(value)[:1_000]
