"""The end of steps that wait outside: their records, and what becomes of their children.

Owns: stopping what does no work here. Must not know: commits, leaves that work (`workflow_leaves.py`).
Loaded with the first run. Read next: `wakes.py`.
"""

from __future__ import annotations

from ..core.state import State
from ..core.workflow_frames import Leaf
from ..core.workflow_state import call_id_of
from ..model.agent_spec import SubagentLifecycle
from ..model.codec import encode
from ..model.records import Record
from ..model.wake_bodies import Wake
from ..model.workflow_records import StepFinished
from ..ports.store import DropSession, DropTimer, InboxItem, Op, PutItem
from . import wakes
from .children import STOPPED


def timer_of(leaf: Leaf) -> str:
    """The timer of a leaf that waits."""
    return wakes.timer_id(call_id_of(leaf.path, leaf.attempt))


def lifecycle_of(leaf: Leaf) -> SubagentLifecycle:
    """How long the child of a leaf lives."""
    spec = getattr(leaf.plan.spec, "spec", None)
    return SubagentLifecycle.LINKED if spec is None else spec.lives(SubagentLifecycle.LINKED)


def stopped_child(state: State, leaf: Leaf, at: float) -> tuple[Op, ...]:
    """Operations that end the child of a leaf, wherever it runs or waits."""
    if leaf.child_id is None:
        return ()
    if lifecycle_of(leaf) is SubagentLifecycle.EPHEMERAL:
        return (DropSession(leaf.child_id),)
    here = f"{state.facts.session_id}:{state.position}"
    stop = InboxItem(f"stop:{here}", "stop", STOPPED.encode(), at)
    # The wake says nothing: it makes a child that waits claimable, so that somebody takes the stop.
    wake = InboxItem(f"stop:{here}:wake", "wake", encode(Wake()), at)
    return PutItem(leaf.child_id, stop), PutItem(leaf.child_id, wake)


def stopped(state: State, leaf: Leaf, reason: str, at: float) -> tuple[StepFinished, tuple[Op, ...]]:
    """The end of a leaf that waits outside; one with an open call is answered instead."""
    ops = stopped_child(state, leaf, at)
    if leaf.waits is not None and leaf.waits.until is not None:
        ops = (*ops, DropTimer(timer_of(leaf)))
    end = StepFinished(
        path=leaf.path, attempt=leaf.attempt, outcome="cancelled", child_id=leaf.child_id, error_message=reason
    )
    return end, ops


def all_stopped(state: State, reason: str, at: float) -> tuple[list[Record], tuple[Op, ...]]:
    """The end of all leaves of a run that is ended at once where nothing of it works."""
    run = state.workflow
    assert run is not None
    records: list[Record] = []
    ops: list[Op] = []
    for leaf in run.machine.running.values():
        if call_id_of(leaf.path, leaf.attempt) not in run.calls:
            end, more = stopped(state, leaf, reason, at)
            records.append(end)
            ops += more
    return records, tuple(ops)
