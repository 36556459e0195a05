"""A checkpoint spares work and changes nothing: what a send goes on from is what all records fold to."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.journals import ANY_RECORD, legal_journals

from loopwright.core.state import State, apply, checkpoint_of
from loopwright.engine.journal import load_state, resumed_state
from loopwright.model.codec import encode_record
from loopwright.model.records import Record, SendStarted, SessionCreated, StateCheckpointed
from loopwright.ports.store import StoredRecord


def stored(journal: list[tuple[Record, float]]) -> list[StoredRecord]:
    return [
        StoredRecord(n, kind, version, at, body)
        for n, (record, at) in enumerate(journal)
        for kind, version, body in [encode_record(record)]
    ]


def both(rows: list[StoredRecord]) -> tuple[State, State]:
    return asyncio.run(resumed_state("s", rows)), asyncio.run(load_state("s", rows))


@given(legal_journals(max_size=60))
def test_what_an_engine_wrote_is_resumed_as_it_folds(journal: list[tuple[Record, float]]) -> None:
    resumed, folded = both(stored(journal))
    assert resumed == folded


@given(st.lists(st.tuples(ANY_RECORD, st.booleans()), max_size=40))
def test_damaged_history_is_resumed_as_it_folds(wanted: list[tuple[Record, bool]]) -> None:
    state, journal = State(), list[tuple[Record, float]]()
    for record, checkpoint in wanted:
        apply(state, record, 0.0)
        journal.append((record, 0.0))
        if checkpoint and not state.batch:
            apply(state, snapshot := checkpoint_of(state), 0.0)
            journal.append((snapshot, 0.0))
    resumed, folded = both(stored(journal))
    assert resumed == folded


def test_records_before_a_checkpoint_that_say_nothing_are_not_decoded() -> None:
    state = State()
    journal: list[tuple[Record, float]] = [
        (SessionCreated("s", "agent"), 0.0),
        (SendStarted(index=1, max_rounds=3), 0.0),
    ]
    for record, at in journal:
        apply(state, record, at)
    rows = stored([*journal, (checkpoint_of(state), 0.0)])
    rows[1] = msgspec.structs.replace(rows[1], body=b"lost")
    assert asyncio.run(resumed_state("s", rows)).facts == msgspec.structs.replace(state.facts, checkpoint=2)


def test_a_checkpoint_that_cannot_be_read_costs_time_only() -> None:
    journal: list[tuple[Record, float]] = [
        (SessionCreated("s", "agent"), 0.0),
        (SendStarted(index=1, max_rounds=3), 0.0),
        (StateCheckpointed({"sends": "many"}), 0.0),
    ]
    resumed, folded = both(stored(journal))
    assert resumed == folded
    assert resumed.facts.sends == 1
