"""What records of `workflow_records.py` make of the state of a run.

Owns: `WorkflowState`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `engine/workflow_run.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model.records import Record, ToolFinished
from ..model.wake_bodies import Signal, Wake
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, WorkflowStarted
from .state import OpenCall, State


class WorkflowState:
    """A run as of one position."""

    def __init__(self, started: WorkflowStarted, position: int) -> None:
        self.started = started
        self.position = position
        self.calls: dict[str, OpenCall] = {}
        """Tool steps under way, by call id: path, "#" and attempt."""

    def tool_finished(self, record: ToolFinished, position: int) -> None:
        """A tool step ended."""
        self.calls.pop(record.call_id, None)

    def waiting(self) -> list[StepWaits]:
        """Of every step that waits outside: what it waits for."""
        return []


def woken(state: State, wake: Wake) -> list[Record]:
    """Records of what a wake does to a run."""
    return []


def signalled(state: State, signal: Signal, item_id: str) -> list[Record]:
    """Records of a signal that reaches a run."""
    return []


def refusal(state: State, record: Record) -> str | None:
    """Why a record of these kinds must not follow; None when it may."""
    if isinstance(record, WorkflowStarted):
        return "it is a run already" if state.workflow is not None else None
    return None if state.workflow is not None else "this session is no workflow run"


def _started(state: State, record: WorkflowStarted, at: float) -> None:
    state.workflow = WorkflowState(record, state.position)


def _nothing(state: State, record: Record, at: float) -> None:
    return


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    WorkflowStarted: _started,
    StepStarted: _nothing,
    StepWaits: _nothing,
    StepFinished: _nothing,
    NodeDecided: _nothing,
}


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]
