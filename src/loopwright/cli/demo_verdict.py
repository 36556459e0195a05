"""What must be true at the end of the demonstration, checked on the disk.

Owns: the checks. Must not know: how the processes were run.
Read next: `demo.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.pairing import problem
from ..core.state import State, fold
from ..model.codec import decode_record
from ..model.records import AssistantMessageAdded, SendFinished, ToolFinished, ToolStarted
from ..model.usage import Usage
from ..ports.store import StoredRecord
from .demo_desk import LEDGER, OUTBOX, SUMMARY, TOTAL
from .journal_lines import counted


class Evidence(Struct, frozen=True, kw_only=True):
    """All there is to judge by."""

    rows: tuple[StoredRecord, ...]
    killed_at: int
    """Records that the first process left."""
    first_exit: int
    second_exit: int
    later_events: tuple[dict[str, Any], ...]
    """What the second process said."""
    desk: Path
    offline: bool

    @property
    def state(self) -> State:
        """The session, folded from its journal."""
        return fold([(decode_record(row.kind, row.version, row.body), row.at) for row in self.rows])

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls of both processes."""
        return self.state.facts.usage


def lines_of(path: Path) -> list[str]:
    """Lines of a file that may be missing."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def checks(evidence: Evidence) -> list[tuple[bool, str]]:
    """(is it so, what) for each promise."""
    records = [decode_record(row.kind, row.version, row.body) for row in evidence.rows]
    before, after = records[: evidence.killed_at], records[evidence.killed_at :]
    finished_before = {(r.key) for r in before if isinstance(r, ToolFinished)}
    again = [r for r in after if isinstance(r, ToolFinished | ToolStarted) and r.key in finished_before]
    paid, posted = lines_of(evidence.desk / LEDGER), lines_of(evidence.desk / OUTBOX)
    letters = [r.status for r in after if isinstance(r, ToolFinished) and r.name == "post_letter"]
    rerun = [
        e for e in evidence.later_events if e["type"] == "tool_call_started" and e["data"]["name"] == "post_letter"
    ]
    asked = sum(len(r.message.tool_calls) for r in records if isinstance(r, AssistantMessageAdded))
    answered = sum(1 for r in records if isinstance(r, ToolFinished))
    end = records[-1]
    summary = evidence.desk / SUMMARY
    text = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return [
        (evidence.first_exit == -9, "the first process was really killed (SIGKILL), the second ended by itself"
         if evidence.second_exit == 0 else f"the second process ended with code {evidence.second_exit}"),
        (not again, f"none of the {len(finished_before)} calls finished before the kill was run again"),
        (len(paid) == 1, f"the invoice was paid {counted(len(paid), 'time')}"),
        (letters[:1] == ["uncertain"], "the model was told that the letter may or may not have gone out"),
        (not rerun and len(posted) == 1, f"it looked, and the letter went out {counted(len(posted), 'time')}"),
        (asked == answered and problem(evidence.state.messages) is None,
         f"all {asked} tool calls have exactly one answer; a provider would accept the conversation"),
        ([row.position for row in evidence.rows] == list(range(len(evidence.rows))), "the journal has no gap"),
        (isinstance(end, SendFinished) and end.outcome == "completed", "the send is completed"),
        (bool(text) and (TOTAL in text or not evidence.offline), f"summary.md is there, with the right total ({TOTAL} EUR)"
         if TOTAL in text else "summary.md is there"),
    ]  # fmt: skip
