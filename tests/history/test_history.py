"""Journals of every released format: still readable, and they still mean what they meant."""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.core.chain import ChainAudit
from loopwright.core.pairing import problem, role_of
from loopwright.core.result import result_of
from loopwright.core.state import State, facts_of, fold
from loopwright.core.window import window
from loopwright.engine.journal import load_state, resumed_state
from loopwright.model.codec import CURRENT_FORMAT, decode_record, encode_record, format_of
from loopwright.model.context_records import ContextRecord
from loopwright.model.control_records import ControlRecord
from loopwright.model.errors import StructuredOutputError
from loopwright.model.family_records import FamilyRecord
from loopwright.model.records import ChainLinked, SessionRecord, StateCheckpointed
from loopwright.model.workflow_records import WorkflowRecord
from loopwright.ports.store import StoredRecord

JOURNALS = Path(__file__).parent / "journals"
FILES = sorted(JOURNALS.glob("format_*.jsonl"))
RUNS = [path for path in FILES if path.stem.endswith("_run")]
"""Workflow runs, whose records no conversation has."""
NEWEST = [JOURNALS / f"format_{CURRENT_FORMAT}.jsonl", RUNS[-1]]


def rows_of(path: Path) -> Iterator[StoredRecord]:
    for line in path.read_text("ascii").splitlines():
        row = json.loads(line)
        yield StoredRecord(row["position"], row["kind"], row["version"], row["at"], row["body"].encode())


def state_of(path: Path) -> State:
    return asyncio.run(load_state("history", list(rows_of(path))))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_record_ever_written_can_be_read(path: Path) -> None:
    for row in rows_of(path):
        record = decode_record(row.kind, row.version, row.body)
        assert record.__struct_config__.tag == row.kind
        assert format_of(row.kind, row.version) <= CURRENT_FORMAT


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_stored_session_of_any_version_can_be_sent(path: Path) -> None:
    state = state_of(path)
    assert problem(state.messages) is None
    assert (state.lost_answers, state.dropped, state.batch) == ([], [], [])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_old_checkpoint_holds_the_facts_of_its_fold(path: Path) -> None:
    rows = list(rows_of(path))
    for row in rows:
        record = decode_record(row.kind, row.version, row.body)
        if isinstance(record, StateCheckpointed):
            before = [(decode_record(r.kind, r.version, r.body), r.at) for r in rows[: row.position]]
            assert facts_of(record) == fold(before).facts


def test_there_is_a_journal_of_every_format_and_the_newest_hold_every_kind() -> None:
    assert [p.stem for p in FILES if p not in RUNS] == [f"format_{n}" for n in range(1, CURRENT_FORMAT + 1)]
    unions = (SessionRecord, ContextRecord, FamilyRecord, ControlRecord)
    assert {row.kind for row in rows_of(NEWEST[0])} == {tag for union in unions for tag in tags(union)}
    assert tags(WorkflowRecord) <= {row.kind for row in rows_of(NEWEST[1])}


def tags(union: Any) -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in typing.get_args(union)}


@pytest.mark.parametrize("path", NEWEST, ids=lambda p: p.stem)
def test_records_of_the_newest_version_are_still_written_with_the_same_bytes(path: Path) -> None:
    for row in rows_of(path):
        record = decode_record(row.kind, row.version, row.body)
        assert encode_record(record) == (row.kind, row.version, row.body)


def test_format_1_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_1.jsonl")
    assert summary(state) == json.loads((JOURNALS / "format_1.expected.json").read_text("ascii"))
    result = result_of(state)
    assert isinstance(result.error, StructuredOutputError)
    assert result.error.reason == "no_json"


def test_the_links_of_format_2_still_hold() -> None:
    rows = list(rows_of(JOURNALS / "format_2.jsonl"))
    linked = decode_record(rows[-1].kind, rows[-1].version, rows[-1].body)
    assert isinstance(linked, ChainLinked)
    assert state_of(JOURNALS / "format_2.jsonl").facts.chain == linked.digest
    for key, unlinked in ((None, (0, 33)), (b"a key of history", (0, 36))):
        audit = ChainAudit("sess_018f3c2a9b10ffeeddccbbaa", key=key)
        for row in rows[: 37 if key is None else None]:
            audit.take(row)
        report = audit.report(37 if key is None else len(rows))
        assert (report.intact, report.unlinked) == (True, (unlinked,)), report


def test_format_2_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_2.jsonl")
    assert summary(state) == json.loads((JOURNALS / "format_2.expected.json").read_text("ascii"))


def test_format_3_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_3.jsonl")
    expected = json.loads((JOURNALS / "format_3.expected.json").read_text("ascii"))
    context = state.facts.context
    assert context is not None
    assert context.epoch is not None
    assert summary(state) == {name: value for name, value in expected.items() if name != "context"}
    assert expected["context"] == {
        "window": [[role_of(m), getattr(m, "text", "")] for m in window(state)],
        "epoch": [context.epoch.number, context.epoch.reason, context.epoch.instructions],
        "folded": [context.through, context.folds, context.fold_failures],
        "notes": msgspec.to_builtins(list(context.notes)),
        "todo": msgspec.to_builtins(list(context.todo)),
        "ratios": context.ratios,
        "holds": sorted(context.holds),
    }


def test_a_folded_session_of_format_3_is_read_from_where_its_window_starts() -> None:
    rows = list(rows_of(JOURNALS / "format_3.jsonl"))
    whole = state_of(JOURNALS / "format_3.jsonl")
    assert whole.facts.context is not None
    cold = asyncio.run(resumed_state("history", rows[whole.facts.context.through :]))
    assert cold == whole


def test_format_4_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_4.jsonl")
    expected = json.loads((JOURNALS / "format_4.expected.json").read_text("ascii"))
    family = state.facts.family
    assert family is not None
    assert family.spawned is not None
    assert family.persona is not None
    assert state.facts.send is not None
    assert summary(state) == {name: value for name, value in expected.items() if name != "family"}
    assert expected["family"] == {
        "spawned": [family.spawned.parent_id, family.spawned.root_id, family.spawned.depth, family.spawned.by],
        "persona": [family.persona.name, family.persona.system_prompt],
        "children": sorted(family.children),
        "signals": [[kept.name, kept.payload] for kept in family.signals],
        "send": msgspec.to_builtins(state.facts.send.usage),
        "tools": list(state.facts.send.start.tools or ()),
        "accounts": msgspec.to_builtins(list(family.accounts)),
    }


def test_format_5_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_5.jsonl")
    expected = json.loads((JOURNALS / "format_5.expected.json").read_text("ascii"))
    control = state.facts.control
    assert control is not None
    assert summary(state) == {name: value for name, value in expected.items() if name != "control"}
    assert expected["control"] == {
        "mode": control.mode,
        "grants": msgspec.to_builtins(list(control.grants)),
        "revealed": list(control.revealed),
    }


def test_a_run_of_format_4_means_what_it_meant() -> None:
    state = state_of(JOURNALS / "format_4_run.jsonl")
    expected = json.loads((JOURNALS / "format_4_run.expected.json").read_text("ascii"))
    assert state.workflow is not None
    result = result_of(state)
    assert expected == {
        "outcome": [result.status, result.final_text, result.output],
        "usage": msgspec.to_builtins(result.usage),
        "ended": state.workflow.machine.ended is not None,
        "calls": sorted(state.workflow.calls),
        "failures": state.workflow.machine.failures,
    }


def summary(state: State) -> dict[str, Any]:
    """What a host could see of a session."""
    facts = state.facts
    return {
        "session": [facts.session_id, facts.agent_name, facts.system_prompt, facts.metadata],
        "sends": facts.sends,
        "usage": msgspec.to_builtins(facts.usage),
        "checkpoint": facts.checkpoint,
        "position": state.position,
        "last": [facts.send.finished.outcome, facts.send.rounds] if facts.send and facts.send.finished else None,
        "messages": [[role_of(m), getattr(m, "text", ""), getattr(m, "ok", None)] for m in state.messages],
    }
