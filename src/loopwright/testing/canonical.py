"""A journal without what may differ between two runs that mean the same.

Owns: what is dropped, renamed and reordered before journals are compared (DESIGN invariant 5). Must not know: stores, runs.
Read next: `crash_matrix.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ..model.codec import decode_record
from ..model.context_records import (
    CostReserved,
    CostSettled,
    FoldFailed,
    FoldMade,
    NoteWritten,
    SendProjected,
    TodoWritten,
    TokensCalibrated,
)
from ..model.control_records import PermissionDecided, PermissionGranted, ToolsRevealed
from ..model.family_records import (
    CallWaits,
    CallWoken,
    ChildFinished,
    ChildStarted,
    HandedOff,
    SignalReceived,
    SignalTaken,
)
from ..model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    ChainLinked,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendPaused,
    SendStarted,
    StateCheckpointed,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
)
from ..model.workflow_records import WorkflowStarted
from ..ports.store import StoredRecord
from .canonical_runs import run_lines

_DROPPED = (
    AttemptFailed,
    RunResumed,
    StateCheckpointed,
    ChainLinked,
    FoldFailed,
    TokensCalibrated,
    CostReserved,
    CostSettled,
)
_OF_A_CALL = (
    ToolStarted,
    ToolFinished,
    ToolAbandoned,
    QuestionAsked,
    QuestionAnswered,
    ChildStarted,
    ChildFinished,
    CallWaits,
    CallWoken,
    SignalTaken,
    HandedOff,
    PermissionDecided,
    PermissionGranted,
    ToolsRevealed,
)
_OF_A_RESULT = (NoteWritten, TodoWritten)
"""Written with the result that comes next."""
_NOTE = re.compile(r"\bn[0-9a-f]{6,64}\b")
_SESSION = re.compile(r"\bsess_[0-9a-f]{24}\b")
_ARTIFACT = re.compile(r"art_[0-9a-f]{32}")
_LABEL = re.compile(r"#(\d+)")
_WAKEUP = re.compile(r"\bt[0-9a-f]{10}\b")
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FIELDS = frozenset(
    {
        "kind",
        "session_id",
        "parent_id",
        "base_id",
        "base_position",
        "send_id",
        "key",
        "usage",
        "artifact_id",
        "call_id",
        "interaction_id",
        "tokens_before",
        "tokens_after",
        "item_id",
        "until",
        "by",
        "child_id",
        "child_usage",
        "root_id",
    }
)


def canonical(records: Iterable[Record | StoredRecord]) -> list[str]:
    """One line of text a record; two journals that mean the same give equal lists.

    Dropped: ids, times, keys, usage, money, token counts, failed attempts and folds, notes of recovery, checkpoints, links.
    Calls are named `1.0` (first reply with calls, first call in it), artifacts `artifact-1`, sends in folds and projections
    `send-1`, notes whose id is made from a key `note-1.0`, wakeups `wakeup-1`; times in texts of timers are left out, and
    sessions that the engine named. The records of a batch stand in call order, pauses behind them; records of a run's steps
    by path (`canonical_runs.py`). Whether a call waited for a child that ran elsewhere, or the send paused with it, is not
    told: that depends on who was there when.
    """
    reading = _Reading()
    records = list(records)
    read = [decode_record(one.kind, one.version, one.body) if isinstance(one, StoredRecord) else one for one in records]
    if any(isinstance(record, WorkflowStarted) for record in read[:4]):
        return run_lines([record for record in read if not isinstance(record, _DROPPED)], reading.line)
    for count, (given, record) in enumerate(zip(records, read, strict=True)):
        if isinstance(record, SendStarted):
            reading.begin(given.position if isinstance(given, StoredRecord) else count)
        if not isinstance(record, _DROPPED):
            reading.take(record)
    reading.close_batch()
    return reading.lines


class _Reading:
    """The lines so far and the batch that is open; an object because names given earlier are needed later."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._replies = 0
        self._calls: dict[str, int] = {}
        """Index of each call of the open batch by its id."""
        self._questions: dict[str, str] = {}
        self._artifacts: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self._wakeups: dict[str, str] = {}
        self._riding: list[NoteWritten | TodoWritten] = []
        self._batch: list[tuple[int, str]] = []
        self._behind: list[str] = []
        self._open = 0
        self._children: dict[str, str] = {}
        """Call that started each child, by the child's id."""
        self._outside: set[str] = set()
        """Calls of the open batch that wait outside."""
        self._sends: dict[int, str] = {}
        """By label, which is a position and so another one where records were written twice."""

    def begin(self, label: int) -> None:
        """A send starts at this position."""
        self._sends[label] = f"send-{len(self._sends) + 1}"

    def take(self, record: Record) -> None:
        """Adds one record."""
        if isinstance(record, _OF_A_RESULT) and self._open > 0:
            self._riding.append(record)
            return
        if isinstance(record, _OF_A_CALL):
            self._wait(record)
            if (
                isinstance(record, CallWaits | CallWoken)
                and getattr(record, "on", getattr(record, "why", "")) == "child"
            ):
                return
            if isinstance(record, ToolFinished):
                self._batch += self._ridden(record)
            index, line = self._of_call(record)
            # The intent of a call that waited is written again each time its handler runs.
            if not (isinstance(record, ToolStarted) and (index, line) in self._batch):
                self._batch.append((index, line))
            if isinstance(record, ToolFinished):
                self._open -= 1
                if self._open <= 0:
                    self.close_batch()
            return
        if isinstance(record, SendPaused | SignalReceived) and self._open > 0:
            if isinstance(record, SignalReceived) or not self._outside:
                self._behind.append(self.line(record))
            return
        self.close_batch()
        if isinstance(record, AssistantMessageAdded) and record.message.tool_calls:
            self._replies += 1
            calls = record.message.tool_calls
            self._calls = {call.id: index for index, call in enumerate(calls)}
            self._open = len(calls)
        self.lines.append(self.line(record))

    def close_batch(self) -> None:
        """Puts what a batch left in order."""
        self.lines += [line for _, line in sorted(self._batch, key=lambda entry: entry[0])]
        self.lines += self._behind
        self._batch, self._behind, self._open = [], [], 0
        self._outside.clear()

    def _wait(self, record: Record) -> None:
        """Notes what calls wait for, and who started whom."""
        match record:
            case ChildStarted():
                self._children[record.child_id] = record.call_id
            case CallWaits():
                self._outside.add(record.call_id)
            case CallWoken() | ToolFinished():
                self._outside.discard(record.call_id)
            case _:
                pass

    def _ridden(self, result: ToolFinished) -> list[tuple[int, str]]:
        """What was written with a result; its new notes get their names."""
        index = self._calls.get(result.call_id, -1)
        for record in self._riding:
            if not isinstance(record, NoteWritten) or not _NOTE.fullmatch(record.note_id):
                continue
            if result.key.startswith(record.note_id[1:]):
                self._notes.setdefault(record.note_id, f"note-{self._replies}.{index}")
        lines = [(index, self.line(record)) for record in self._riding]
        self._riding = []
        return lines

    def _of_call(self, record: Record) -> tuple[int, str]:
        match record:
            case QuestionAsked():
                call_id = record.interaction.call_id
                self._questions[record.interaction.id] = call_id
            case QuestionAnswered() | PermissionGranted():
                call_id = self._questions.get(record.interaction_id, "")
            case ChildFinished():
                call_id = self._children.get(record.child_id, "")
            case SignalTaken():
                call_id = record.by
            case _:
                call_id = getattr(record, "call_id", "")
        index = self._calls.get(call_id, -1)
        return index, self.line(record, f" {self._replies}.{index}")

    def line(self, record: Record, call: str = "") -> str:
        """One record, without what may differ."""
        body: dict[str, Any] = msgspec.to_builtins(record)
        kind = body["kind"]
        shown = {name: value for name, value in body.items() if name not in _FIELDS}
        if "interaction" in shown:
            shown["interaction"] = {k: v for k, v in shown["interaction"].items() if k not in ("id", "call_id")}
        if "item_ids" in shown:
            shown["items"] = len(shown.pop("item_ids"))
        for part in shown.get("message", {}).get("parts", ()):
            if part.get("type") == "tool_call":
                part["id"] = f"{self._replies}.{self._calls.get(part['id'], -1)}"
        for name in ("through", "after", "send"):
            if name in shown:
                shown[name] = self._sends.get(shown[name], "")
        text = json.dumps(shown, ensure_ascii=False, sort_keys=True)
        text = _NOTE.sub(lambda found: self._notes.get(found[0], found[0]), text) if self._notes else text
        if isinstance(record, FoldMade | SendProjected):
            text = _LABEL.sub(lambda found: self._sends.get(int(found[1]), found[0]), text)
        text = _STAMP.sub("(time)", _WAKEUP.sub(self._wakeup, text)) if "timer" in text or "wakeup" in text else text
        text = _SESSION.sub("(session)", text)
        return f"{kind}{call} {_ARTIFACT.sub(self._artifact, text)}"

    def _wakeup(self, found: re.Match[str]) -> str:
        return self._wakeups.setdefault(found[0], f"wakeup-{len(self._wakeups) + 1}")

    def _artifact(self, found: re.Match[str]) -> str:
        return self._artifacts.setdefault(found[0], f"artifact-{len(self._artifacts) + 1}")
