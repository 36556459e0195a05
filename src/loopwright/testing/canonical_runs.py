"""The part of `canonical` that reads workflow runs.

Owns: in which order records of steps are compared, and which of them may differ. Must not know: lines of other records.
Steps that run side by side end in any order, so their records stand by path. Read next: `canonical.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from ..model.records import (
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendFinished,
    SendPaused,
    StateCheckpointed,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
)
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, StepWoken

_DROPPED = (RunResumed, SendPaused, StateCheckpointed, StepWaits, StepWoken)
"""What depends on who was there when: whether a step waited, whether the run did."""


def run_lines(records: Iterable[Record], line: Callable[[Record, str], str]) -> list[str]:
    """Lines of a run's journal: those of steps by path, in each step's own order, before the end of the send."""
    lines: list[str] = []
    steps: dict[str, list[str]] = {}
    asked: dict[str, str] = {}
    for record in records:
        if isinstance(record, _DROPPED):
            continue
        if isinstance(record, StepStarted) and record.place:
            record = structs.replace(record, place="")  # who ran it where is not what it did
        path = _path_of(record, asked)
        if path is not None:
            steps.setdefault(path, []).append(line(record, f" {path}"))
            continue
        if isinstance(record, SendFinished):
            lines += [one for name in sorted(steps) for one in steps[name]]
            steps = {}
        lines.append(line(record, ""))
    return lines + [one for name in sorted(steps) for one in steps[name]]


def _path_of(record: Record, asked: dict[str, str]) -> str | None:
    """The step that a record is of; None for those of the run."""
    match record:
        case StepStarted() | StepFinished() | NodeDecided():
            return record.path
        case ToolStarted() | ToolFinished() | ToolAbandoned():
            return record.call_id.rpartition("#")[0]
        case QuestionAsked():
            asked[record.interaction.id] = record.interaction.call_id.rpartition("#")[0]
            return asked[record.interaction.id]
        case QuestionAnswered():
            return asked.get(record.interaction_id, "")
        case _:
            return None
