"""What records of reservations make of a session: open ones, what they leave of its budgets, what they add to its usage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.budgets import MoneyLimit, limits_of
from loopwright.core.state import apply, checkpoint_of, facts_of, fold, refusal
from loopwright.model.context_records import CostReserved, CostSettled, Settlement
from loopwright.model.messages import UserMessage
from loopwright.model.records import (
    AttemptFailed,
    Record,
    SendFinished,
    SendStarted,
    SessionCreated,
    SessionForked,
    UserMessageAdded,
)
from loopwright.model.usage import Usage

OPENED: list[Record] = [
    SessionCreated("s", "default"),
    SendStarted(index=1, max_rounds=5, run_cost_budget=1000),
    UserMessageAdded(UserMessage("go"), "send"),
]
amounts = st.integers(0, 500)
ways: st.SearchStrategy[Settlement] = st.sampled_from(("paid", "estimated", "released"))


@given(st.lists(st.tuples(amounts, st.none() | st.tuples(amounts, ways)), max_size=8), st.integers(0, 500))
def test_what_is_held_is_what_was_reserved_and_not_settled_and_only_estimates_add_to_usage(
    holds: list[tuple[int, tuple[int, Settlement] | None]], failed: int
) -> None:
    state = fold([(record, 0.0) for record in OPENED])
    apply(state, AttemptFailed(1, 1, "x", "", Usage(nanodollars=failed), ""), 0.0)
    held, estimated = 0, 0
    for number, (amount, settled) in enumerate(holds):
        apply(state, CostReserved(f"s:{number}", amount), 0.0)
        if settled is None:
            held += amount
        else:
            apply(state, CostSettled(f"s:{number}", *settled), 0.0)
            estimated += settled[0] if settled[1] == "estimated" else 0
    spent = failed + estimated
    run, session = limits_of(state, 2000)
    assert (run, session) == (MoneyLimit("run", 1000, spent, held), MoneyLimit("session", 2000, spent, held))
    assert facts_of(checkpoint_of(state)) == state.facts


def test_what_is_reserved_beside_the_runs_counts_for_the_session_and_not_for_the_send() -> None:
    state = fold([(record, 0.0) for record in [*OPENED, CostReserved("s:3", 7)]])
    assert [one.held for one in limits_of(state, 9, frozenset({"s:3"}))] == [0, 7]


def test_a_session_between_sends_has_no_limit_of_a_run() -> None:
    finished = SendFinished(outcome="completed", rounds=0)
    state = fold([(record, 0.0) for record in [*OPENED, finished]])
    assert [one.name for one in limits_of(state, 9)] == ["session"]
    assert limits_of(state, None) == []


def test_a_reservation_is_opened_once_and_settled_once() -> None:
    state = fold([(record, 0.0) for record in OPENED])
    reserved, settled = CostReserved("s:3", 7), CostSettled("s:3", 5)
    assert refusal(state, settled) is not None
    assert refusal(state, reserved) is None
    apply(state, reserved, 0.0)
    assert refusal(state, reserved) is not None
    assert refusal(state, settled) is None
    apply(state, settled, 0.0)
    assert refusal(state, settled) is not None


def test_a_fork_has_none_of_the_reservations_of_its_base() -> None:
    state = fold([(record, 0.0) for record in [*OPENED, CostReserved("s:3", 7)]])
    apply(state, SessionForked("fork", "s", 4), 0.0)
    assert [one.held for one in limits_of(state, 9)] == [0, 0]
