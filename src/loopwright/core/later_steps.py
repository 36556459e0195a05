"""Which module folds a record that not every conversation has.

Owns: that choice. Must not know: what the records mean.
Loaded with the first such record. Read next: `context_state.py`, `control_state.py`, `family_state.py`, `workflow_state.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..late import Late
from ..model.codec import CONTROL_KINDS, FAMILY_KINDS, WORKFLOW_KINDS, kind_of
from ..model.records import Record
from .state import State

if TYPE_CHECKING:
    from . import context_state, control_state, family_state, workflow_state
else:
    context_state = Late("loopwright.core.context_state")
    control_state = Late("loopwright.core.control_state")
    family_state = Late("loopwright.core.family_state")
    workflow_state = Late("loopwright.core.workflow_state")

Fold = Callable[[State, Any, float], None]


def step_of(kind: type) -> Fold:
    """What folding a record of this class does."""
    name = kind_of(kind)
    if name in FAMILY_KINDS:
        return family_state.step_of(kind)
    if name in CONTROL_KINDS:
        return control_state.step_of(kind)
    return workflow_state.step_of(kind) if name in WORKFLOW_KINDS else context_state.step_of(kind)


def hearing_of(kind: type) -> Fold:
    """The part of it that changes the window and the open calls."""
    name = kind_of(kind)
    if name in FAMILY_KINDS:
        return family_state.hearing_of(kind)
    if name in CONTROL_KINDS:
        return control_state.hearing_of(kind)
    return workflow_state.step_of(kind) if name in WORKFLOW_KINDS else context_state.hearing_of(kind)


def refusal(state: State, record: Record) -> str | None:
    """Why the record must not follow `state`; None when it may."""
    name = kind_of(type(record))
    if name in FAMILY_KINDS:
        return family_state.refusal(state, record)
    if name in CONTROL_KINDS:
        return control_state.refusal(state, record)
    return workflow_state.refusal(state, record) if name in WORKFLOW_KINDS else context_state.refusal(state, record)
