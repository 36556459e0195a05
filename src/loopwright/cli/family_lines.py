"""Records of children, waiting, signals and workflow steps in a few words each.

Owns: their short form. Must not know: terminals.
Read next: `journal_lines.py`.
"""

from __future__ import annotations

from typing import assert_never

from ..model.codec import encode
from ..model.family_records import (
    CallWaits,
    CallWoken,
    ChildFinished,
    ChildStarted,
    FamilyRecord,
    HandedOff,
    SessionSpawned,
    SignalReceived,
    SignalTaken,
)
from ..model.workflow_records import (
    NodeDecided,
    StepFinished,
    StepStarted,
    StepWaits,
    WorkflowRecord,
    WorkflowStarted,
)


def family_words(record: FamilyRecord | WorkflowRecord) -> str:
    """What the record says."""
    match record:
        case SessionSpawned():
            return f"{record.persona.name}, spawned by {record.by} of {record.parent_id}"
        case ChildStarted():
            return f"{record.name} is {record.child_id}, {record.lifecycle}"
        case ChildFinished():
            return f"{record.child_id} {record.outcome}"
        case CallWaits() | StepWaits():
            return _waits(record)
        case CallWoken():
            return f"{record.call_id}: {record.why}"
        case SignalReceived():
            return f"{record.name} {encode(record.payload).decode()}"
        case SignalTaken():
            return f"{record.name} by {record.by}"
        case HandedOff():
            return f"to {record.persona.name} {record.reason}".rstrip()
        case WorkflowStarted():
            return str(record.spec.get("name", ""))
        case StepStarted():
            again = f", attempt {record.attempt}" if record.attempt > 1 else ""
            return f"{record.path}{again}" + (f" is {record.child_id}" if record.child_id else "")
        case StepFinished():
            return f"{record.path} {record.outcome}: {record.error_message or record.text}"
        case NodeDecided():
            return f"{record.path}: {encode(record.value).decode()}"
        case _:
            assert_never(record)


def _waits(record: CallWaits | StepWaits) -> str:
    what = record.call_id if isinstance(record, CallWaits) else record.path
    names = {"child": record.child_id, "signal": record.signal, "time": None}
    return f"{what} waits for {record.on} {names[record.on] or ''}".rstrip()
