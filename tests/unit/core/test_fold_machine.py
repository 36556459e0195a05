"""Invariants 10 and 12: whatever is said, projected and folded, the window is valid, and every way of reading gives the same."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.core.journals import next_record

from loopwright.core.decide import FoldPolicy
from loopwright.core.fold_plan import FoldPlan, planned
from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, checkpoint_of, fold, refusal
from loopwright.core.window import send_asides, send_messages, tokens_of, unprojected, window, window_tokens
from loopwright.engine.journal import load_state, resumed_state
from loopwright.model.codec import decode_record, encode_record
from loopwright.model.context_records import (
    FoldFailed,
    FoldMade,
    FoldTrigger,
    NoteWritten,
    PromptEpochStarted,
    SendProjected,
    TokensCalibrated,
)
from loopwright.model.messages import Message, UserMessage
from loopwright.model.records import Record, SessionCreated
from loopwright.model.usage import Usage
from loopwright.ports.store import StoredRecord

KEEP = st.integers(1, 4)
REPRESENTATIONS = st.sampled_from([("verbatim", 1), ("projected", 1), ("projected", 2), ("own", 1)])


class FoldMachine(RuleBasedStateMachine):
    """Sends in any order of records, with folds, projections and epochs between them."""

    @initialize()
    def begin(self) -> None:
        self.state = State()
        self.stored: list[StoredRecord] = []
        self.window_start = 0
        self.planned: FoldPlan | None = None
        self.take(SessionCreated("s", "agent"))

    def take(self, record: Record) -> None:
        assert refusal(self.state, record) is None, (record, refusal(self.state, record))
        kind, version, body = encode_record(record)
        self.stored.append(StoredRecord(len(self.stored), kind, version, 0.0, body))
        apply(self.state, record, 0.0)

    def commit_fold(self, plan: FoldPlan) -> None:
        made = FoldMade(
            through=plan.through, after=plan.after, rounds=plan.rounds, note=f"to #{plan.through}",
            trigger=plan.trigger, usage=Usage(1, 1, calls=1),
        )  # fmt: skip
        if refusal(self.state, made) is not None:
            self.take(FoldFailed(error_code="fold.superseded", message="x", trigger=plan.trigger, usage=made.usage))
            return
        self.take(made)
        self.take(checkpoint_of(self.state))
        self.window_start = plan.through

    @rule(data=st.data(), count=st.integers(1, 6))
    def an_engine_moves(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            self.take(next_record(data.draw, self.state))

    @precondition(lambda self: not self.state.batch)
    @rule(shown_as=REPRESENTATIONS)
    def an_epoch_starts(self, shown_as: tuple[str, int]) -> None:
        self.take(
            PromptEpochStarted(number=1, reason="x", representation=shown_as[0], representation_version=shown_as[1])
        )

    @precondition(lambda self: not self.state.batch)
    @rule(shown_as=REPRESENTATIONS)
    def missing_projections_are_made(self, shown_as: tuple[str, int]) -> None:
        for label in unprojected(self.state, *shown_as):
            self.take(SendProjected(label, *shown_as, (UserMessage(f"account of #{label}"),)))
        assert unprojected(self.state, *shown_as) == []

    @rule(data=st.data())
    def notes_and_ratios_are_written(self, data: st.DataObject) -> None:
        note_id = data.draw(st.sampled_from("ab"))
        self.take(NoteWritten(note_id, data.draw(st.sampled_from([None, "x"]))))
        self.take(TokensCalibrated("m", data.draw(st.sampled_from([0.5, 2.0])), 1))

    @precondition(lambda self: not self.state.batch)
    @rule(keep=KEEP, trigger=st.sampled_from(["ratio", "budget", "overflow", "asked"]), budget=st.integers(1, 400))
    def a_fold_is_made(self, keep: int, trigger: FoldTrigger, budget: int) -> None:
        plan = planned(self.state, FoldPolicy(keep_last_sends=keep), budget, trigger)
        if plan is None:
            return
        if trigger not in ("budget", "overflow"):
            sends = [self.said(place) for place in range(len(self.state.spans))]
            self.commit_fold(plan)
            left = [self.said(place) for place in range(len(self.state.spans))]
            assert min(keep, len(sends)) <= len(left) < len(sends)
            assert left == sends[-len(left) :]
        else:
            before = self.people(-1), self.said(-1)[-1:]
            self.commit_fold(plan)
            assert (self.people(-1), self.said(-1)[-1:]) == before

    @precondition(lambda self: not self.state.batch and self.planned is None)
    @rule(keep=KEEP, budget=st.integers(1, 400))
    def a_fold_begins_beside_the_runs(self, keep: int, budget: int) -> None:
        self.planned = planned(self.state, FoldPolicy(keep_last_sends=keep), budget, "budget")

    @precondition(lambda self: not self.state.batch and self.planned is not None)
    @rule()
    def it_is_committed(self) -> None:
        assert self.planned is not None
        self.commit_fold(self.planned)
        self.planned = None

    def said(self, place: int) -> list[Message]:
        return send_messages(self.state, place)

    def people(self, place: int) -> list[Message]:
        """What people said in a send, the engine's own words apart."""
        own = send_asides(self.state, place)
        return [m for at, m in enumerate(self.said(place)) if isinstance(m, UserMessage) and at not in own]

    @invariant()
    def the_window_is_valid_up_to_the_calls_that_are_open(self) -> None:
        shown = window(self.state)
        assert problem(shown[:-1] if self.state.batch else shown) is None
        assert window_tokens(self.state) == tokens_of(shown)

    @invariant()
    def there_is_at_most_one_note_and_it_comes_first(self) -> None:
        notes = [m for m in window(self.state) if isinstance(m, UserMessage) and m.text.startswith("to #")]
        assert notes == ([] if self.state.note is None else [self.state.note])
        assert window(self.state)[: len(notes)] == tuple(notes)

    @invariant()
    def sizes_and_places_are_those_of_the_messages(self) -> None:
        state = self.state
        assert state.tokens == tokens_of(state.messages)
        starts = [start for _, start in state.spans]
        assert starts == sorted(starts)
        assert all(0 <= start <= len(state.messages) for start in starts)
        assert all(isinstance(state.messages[place], UserMessage) for place in state.asides)

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        records = [(decode_record(row.kind, row.version, row.body), row.at) for row in self.stored]
        warm = self.state
        assert fold(records) == warm
        whole = asyncio.run(resumed_state("s", self.stored))
        cold = asyncio.run(resumed_state("s", self.stored[self.window_start :]))
        assert window(cold) == window(warm)
        assert whole == warm
        assert cold == warm
        assert asyncio.run(load_state("s", self.stored)).messages == warm.messages
        assert msgspec.to_builtins(checkpoint_of(cold) if not cold.batch else cold.facts) == msgspec.to_builtins(
            checkpoint_of(warm) if not warm.batch else warm.facts
        )


TestFoldMachine = FoldMachine.TestCase
TestFoldMachine.settings = settings(max_examples=30, stateful_step_count=20)
