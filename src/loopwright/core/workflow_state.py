"""What records of `workflow_records.py` make of the state of a run.

Owns: `WorkflowState`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `workflow_machine.py`, `engine/workflow_run.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..model.family_records import SignalReceived, SignalTaken
from ..model.messages import ToolCall
from ..model.records import Record, ToolFinished
from ..model.wake_bodies import Signal, Wake
from ..model.workflow_records import (
    NodeDecided,
    StepFinished,
    StepOutcome,
    StepStarted,
    StepWaits,
    StepWoken,
    WorkflowStarted,
)
from ..model.workflow_spec import ApproveNode, ToolNode, WaitNode, WorkflowSpec
from . import waking
from .state import OpenCall, State
from .workflow_frames import Leaf
from .workflow_machine import WorkflowMachine
from .workflow_plan import ids_of, planned

ASK = "approve"
"""The name that a question of a run stands under, where others have a tool's."""

BACKGROUND_TOOL = "background_tool"
"""In the metadata of a run that is the call of one tool: its name."""

_STEP_OUTCOMES: dict[str, StepOutcome] = {"finished": "completed", "answered": "completed", "aborted": "cancelled"}
"""What the status of a tool step comes to; every other is a failure."""

FOR_GOOD = frozenset({"uncertain", "refused", "invalid"})
"""What another attempt would not make better, or must not be made of: a `once` call may have had its effect."""

NOT_AGAIN = frozenset({"workflow.rendered_too_large", "workflow.too_many_leaves", "spawn.refused", "cancelled"})
"""Codes of failures that come again with every attempt, or are what somebody wanted: an agent that was stopped."""

TIMED_OUT = "workflow.timed_out"
"""The code of a step that took longer than it may."""


class WorkflowState:
    """A run as of one position."""

    __slots__ = ("calls", "ids", "machine", "position", "spec", "started")

    def __init__(self, started: WorkflowStarted, position: int) -> None:
        self.started = started
        self.position = position
        """Where it is; part of the keys of its tool steps."""
        self.spec = msgspec.convert(started.spec, WorkflowSpec)
        plan = planned(self.spec)
        self.ids = ids_of(plan)
        """Of all nodes that can be referred to."""
        self.machine = WorkflowMachine(plan)
        self.calls: dict[str, OpenCall] = {}
        """Tool steps and questions under way, by call id: path, "#" and attempt."""

    def tool_finished(self, state: State, record: ToolFinished, at: float) -> None:
        """A tool step or a question ended."""
        call = self.calls.pop(record.call_id)
        outcome = _STEP_OUTCOMES.get(record.status, "failed")
        self.machine.finished(call.path, outcome, state.position, at, for_good=record.status in FOR_GOOD)

    def waiting(self) -> list[StepWaits]:
        """Of every step that waits outside: what it waits for."""
        return [leaf.waits for leaf in self.machine.running.values() if leaf.waits is not None]


def call_id_of(path: str, attempt: int) -> str:
    """Under which id a tool step or a question stands among the calls of its run, and under which its timer wakes it."""
    return f"{path}#{attempt}"


def woken(state: State, wake: Wake) -> list[Record]:
    """Records of what a wake does to a run; none when nothing waits for it any more."""
    run = state.workflow
    assert run is not None
    if wake.child_id is not None:
        for leaf in run.machine.running.values():
            if leaf.waits is not None and leaf.waits.child_id == wake.child_id:
                return [StepWoken(leaf.path, "child")]
    elif wake.call_id is not None:
        path, _, attempt = wake.call_id.rpartition("#")
        found = run.machine.running.get(path)
        if found is not None and str(found.attempt) == attempt and (records := _time_has_come(found)):
            return records
    return waking.woken(state, wake)


def _time_has_come(leaf: Leaf) -> list[Record]:
    """Records of a time that a step waited for, or of the end of its time."""
    waits = leaf.waits
    if isinstance(leaf.plan.spec, ApproveNode):
        return [ToolFinished(call_id_of(leaf.path, leaf.attempt), ASK, "timed_out", "<nobody answered in time>")]
    if waits is None or waits.until is None:
        return []
    if waits.on == "time":
        return [StepFinished(path=leaf.path, attempt=leaf.attempt, outcome="completed")]
    if waits.on == "child":
        return [StepWoken(leaf.path, "time")]
    return [timed_out(leaf)]


def timed_out(leaf: Leaf, child_id: str | None = None) -> StepFinished:
    """The end of a step that took longer than it may."""
    limit = leaf.plan.spec.timeout_s
    return StepFinished(
        path=leaf.path,
        attempt=leaf.attempt,
        outcome="failed",
        child_id=child_id,
        error_code=TIMED_OUT,
        error_message=f"it took longer than {limit:g} s",
    )


def signalled(state: State, signal: Signal, item_id: str, taken: Sequence[Record] = ()) -> list[Record]:
    """Records of a signal that reaches a run: taken by the first step or call that waits for it, else kept.

    `taken`: records of the same commit, whose steps and calls wait no longer.
    """
    run = state.workflow
    assert run is not None
    gone = {record.path for record in taken if isinstance(record, StepFinished | StepWoken)}
    for leaf in run.machine.running.values():
        if leaf.waits is not None and leaf.waits.signal == signal.name and leaf.path not in gone:
            return [SignalReceived(signal.name, signal.payload, item_id), *took(leaf, signal.name, signal.payload)]
    return waking.signalled(state, signal, item_id, taken)


def took(leaf: Leaf, name: str, payload: Any) -> list[Record]:
    """Records of a step that takes the signal it waits for."""
    text = payload if isinstance(payload, str) else ""
    end = StepFinished(path=leaf.path, attempt=leaf.attempt, outcome="completed", text=text, data=payload)
    return [SignalTaken(name, leaf.path), end]


def left_alone(state: State) -> bool:
    """True when a tool step of a run that paused waits for nothing: somebody has to go on with it."""
    run = state.workflow
    assert run is not None
    return any(call.waits is None and not call.waits_for_person for call in run.calls.values())


def beginning(leaf: Leaf, waits: StepWaits, kept: SignalReceived | None) -> list[Record]:
    """Records of a wait step that begins; with a kept signal it ends at once."""
    assert isinstance(leaf.plan.spec, WaitNode)
    return [waits] if kept is None else took(leaf, kept.name, kept.payload)


def refusal(state: State, record: Record) -> str | None:
    """Why a record of these kinds must not follow; None when it may."""
    run = state.workflow
    if isinstance(record, WorkflowStarted):
        return "it is a run already" if run is not None else None
    if run is None:
        return "this session is no workflow run"
    if state.active is None:
        return "no send is open"
    machine = run.machine
    match record:
        case StepStarted():
            return machine.refusal(record.path, record.attempt, start=True)
        case StepFinished():
            if call_id_of(record.path, record.attempt) in run.calls:
                return f"step {record.path!r} ends with the result of its call"
            return machine.refusal(record.path, record.attempt)
        case NodeDecided():
            return machine.refusal(record.path, None)
        case StepWaits() | StepWoken():
            return None if record.path in machine.running else f"step {record.path!r} does not run"
        case _:
            return None


def _workflow_started(state: State, record: WorkflowStarted, at: float) -> None:
    state.workflow = WorkflowState(record, state.position)


def _started(state: State, record: StepStarted, at: float) -> None:
    if (run := state.workflow) is None:
        return
    run.machine.started(record.path, record.attempt, child_id=record.child_id, place=record.place, at=at)
    leaf = run.machine.running.get(record.path)
    if leaf is not None and isinstance(leaf.plan.spec, ToolNode | ApproveNode):
        spec = leaf.plan.spec
        call_id = call_id_of(record.path, record.attempt)
        call = ToolCall(call_id, spec.tool if isinstance(spec, ToolNode) else ASK, "{}")
        run.calls[call_id] = OpenCall(call, 0, run.position, path=record.path)


def _waits(state: State, record: StepWaits, at: float) -> None:
    if (run := state.workflow) is not None:
        run.machine.waits(record.path, record)


def _woken(state: State, record: StepWoken, at: float) -> None:
    if (run := state.workflow) is not None:
        run.machine.waits(record.path, None, place=record.place)
        if (send := state.active) is not None:
            send.paused = False


def _step_finished(state: State, record: StepFinished, at: float) -> None:
    if (run := state.workflow) is None:
        return
    if (send := state.active) is not None:
        send.usage += record.child_usage
        send.paused = False
    for_good = record.error_code in NOT_AGAIN
    run.machine.finished(record.path, record.outcome, state.position, at, for_good=for_good)


def _decided(state: State, record: NodeDecided, at: float) -> None:
    if (run := state.workflow) is not None:
        run.machine.decided(record.path, record.value, state.position)


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    WorkflowStarted: _workflow_started,
    StepStarted: _started,
    StepWaits: _waits,
    StepWoken: _woken,
    StepFinished: _step_finished,
    NodeDecided: _decided,
}


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]
