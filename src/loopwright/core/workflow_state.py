"""What records of `workflow_records.py` make of the state of a run.

Owns: `WorkflowState`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `workflow_machine.py`, `engine/workflow_run.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..model.messages import ToolCall
from ..model.records import Record, ToolFinished
from ..model.workflow_records import NodeDecided, StepFinished, StepOutcome, StepStarted, StepWaits, WorkflowStarted
from ..model.workflow_spec import ApproveNode, ToolNode, WorkflowSpec
from .state import OpenCall, State
from .workflow_machine import WorkflowMachine
from .workflow_plan import planned

ASK = "approve"
"""The name that a question of a run stands under, where others have a tool's."""

_STEP_OUTCOMES: dict[str, StepOutcome] = {"finished": "completed", "answered": "completed", "aborted": "cancelled"}
"""What the status of a tool step comes to; every other is a failure."""


class WorkflowState:
    """A run as of one position."""

    __slots__ = ("calls", "machine", "position", "spec", "started")

    def __init__(self, started: WorkflowStarted, position: int) -> None:
        self.started = started
        self.position = position
        """Where it is; part of the keys of its tool steps."""
        self.spec = msgspec.convert(started.spec, WorkflowSpec)
        self.machine = WorkflowMachine(planned(self.spec))
        self.calls: dict[str, OpenCall] = {}
        """Tool steps and questions under way, by call id: path, "#" and attempt."""

    def tool_finished(self, state: State, record: ToolFinished, at: float) -> None:
        """A tool step or a question ended."""
        call = self.calls.pop(record.call_id)
        outcome = _STEP_OUTCOMES.get(record.status, "failed")
        self.machine.finished(call.path, outcome, state.position, at)


def call_id_of(path: str, attempt: int) -> str:
    """Under which id a tool step or a question stands among the calls of its run."""
    return f"{path}#{attempt}"


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
        case StepWaits():
            return None if record.path in machine.running else f"step {record.path!r} does not run"
        case _:
            return None


def _workflow_started(state: State, record: WorkflowStarted, at: float) -> None:
    state.workflow = WorkflowState(record, state.position)


def _started(state: State, record: StepStarted, at: float) -> None:
    if (run := state.workflow) is None:
        return
    run.machine.started(record.path, record.attempt)
    leaf = run.machine.running.get(record.path)
    if leaf is not None and isinstance(leaf.plan.spec, ToolNode | ApproveNode):
        spec = leaf.plan.spec
        call_id = call_id_of(record.path, record.attempt)
        call = ToolCall(call_id, spec.tool if isinstance(spec, ToolNode) else ASK, "{}")
        run.calls[call_id] = OpenCall(call, 0, run.position, path=record.path)


def _waits(state: State, record: StepWaits, at: float) -> None:
    if (run := state.workflow) is not None:
        run.machine.waits(record.path, record)


def _step_finished(state: State, record: StepFinished, at: float) -> None:
    if (run := state.workflow) is None:
        return
    if (send := state.active) is not None:
        send.usage += record.child_usage
        send.paused = False
    run.machine.finished(record.path, record.outcome, state.position, at)


def _decided(state: State, record: NodeDecided, at: float) -> None:
    if (run := state.workflow) is not None:
        run.machine.decided(record.path, record.value, state.position)


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    WorkflowStarted: _workflow_started,
    StepStarted: _started,
    StepWaits: _waits,
    StepFinished: _step_finished,
    NodeDecided: _decided,
}


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]
