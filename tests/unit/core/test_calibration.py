"""What replies teach about our token counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.calibration import (
    FALLEN,
    HIGHEST,
    LOWEST,
    RISEN,
    Learned,
    after,
    counted,
    news,
    recorded,
    worth_counting,
)
from loopwright.core.fold_plan import ratio_of
from loopwright.core.state import State, fold
from loopwright.model.context_records import PromptEpochStarted, TokensCalibrated
from loopwright.model.messages import UserMessage
from loopwright.model.records import SendStarted, SessionCreated, UserMessageAdded

BUDGET = 16_000


def state(*calibrated: TokensCalibrated, characters: int = 4000) -> State:
    said = [
        SessionCreated("s", "a", None, {}),
        PromptEpochStarted(number=1, reason="first", base="x" * 400, instructions="x" * 400),
        SendStarted(index=1, max_rounds=3),
        UserMessageAdded(UserMessage("x" * characters), "send"),
    ]
    return fold([(record, 0.0) for record in (*said, *calibrated)])


def test_the_first_reply_is_believed_and_later_ones_move_the_average() -> None:
    first = after(None, 2000, 1000, BUDGET)
    assert first == Learned(2.0, 1)
    second = after(first, 1000, 1000, BUDGET)
    assert second == Learned(1.5, 2)


def test_a_small_request_teaches_nothing_since_its_overhead_is_no_property_of_the_text() -> None:
    assert after(None, 700, 50, BUDGET) is None
    assert after(Learned(1.0, 3), 700, 50, BUDGET) is None


@given(st.lists(st.tuples(st.integers(-5, 10**7), st.integers(0, 10**6)), max_size=40), st.integers(1, 10**6))
def test_no_provider_can_teach_a_ratio_that_cannot_be(seen: list[tuple[int, int]], budget: int) -> None:
    known: Learned | None = None
    for real, raw in seen:
        known = after(known, real, raw, budget) or known
        assert known is None or (LOWEST <= known.ratio <= HIGHEST and known.samples > 0)


@given(st.floats(0.3, 3.5), st.floats(0.3, 3.5), st.integers(1, 30))
def test_the_average_follows_a_conversation_that_changes_its_nature(old: float, new: float, samples: int) -> None:
    known: Learned | None = Learned(old, samples)
    for _ in range(40):
        known = after(known, round(new * 10_000), 10_000, BUDGET)
    assert known is not None
    assert known.ratio == pytest.approx(new, rel=0.05)


def test_one_odd_reply_moves_a_settled_average_by_its_share_only() -> None:
    moved = after(Learned(1.0, 20), 4_000_000, 10_000, BUDGET)
    assert moved is not None
    assert moved.ratio < 1.4


def test_the_first_ratio_of_a_model_is_written_and_then_only_what_moved() -> None:
    fresh = state()
    assert news(fresh, "m", Learned(1.0, 1)) == TokensCalibrated("m", 1.0, 1)
    known = state(TokensCalibrated("m", 1.2, 4))
    for factor, written in (
        (1 + RISEN / 2, False),
        (1 + RISEN * 2, True),
        (1 - FALLEN / 2, False),
        (1 - FALLEN * 2, True),
    ):
        assert (news(known, "m", Learned(1.2 * factor, 5)) is not None) is written


def test_a_reply_of_another_model_is_written_so_that_sizes_are_expected_in_its_tokens() -> None:
    both = state(TokensCalibrated("a", 1.2, 4), TokensCalibrated("b", 2.0, 4))
    assert news(both, "a", Learned(1.2, 5)) == TokensCalibrated("a", 1.2, 5)
    assert ratio_of(both) == 2.0


def test_what_the_journal_says_is_what_a_new_process_goes_on_from() -> None:
    assert recorded(state(), "m") is None
    assert recorded(state(TokensCalibrated("m", 1.2, 4)), "m") == Learned(1.2, 4)


def test_a_tokenizer_is_asked_near_the_budget_and_only_until_a_reply_told_the_size() -> None:
    assert not worth_counting(state(characters=4000), BUDGET)
    assert worth_counting(state(characters=40_000), BUDGET)
    assert worth_counting(state(TokensCalibrated("m", 1.1, 0), characters=40_000), BUDGET)
    assert not worth_counting(state(TokensCalibrated("m", 1.1, 1), characters=40_000), BUDGET)


def test_what_a_tokenizer_says_is_written_when_it_is_news_and_overruled_by_the_first_reply() -> None:
    raw = 100 + 1000 + 4
    assert counted(state(), "m", raw * 2) == TokensCalibrated("m", 2.0, 0)
    assert counted(state(), "m", raw) is None
    assert counted(state(), "m", 0) is None
    assert after(Learned(2.0, 0), 1500, 1000, BUDGET) == Learned(1.5, 1)


def test_a_size_that_was_expected_too_small_is_mended_by_the_next_reply() -> None:
    settled = Learned(1.0, 20)
    risen = after(settled, 12_000, 10_000, 16_000)
    fallen = after(settled, 8_000, 10_000, 16_000)
    assert risen == Learned(1.2, 21)
    assert fallen is not None
    assert 0.95 < fallen.ratio < 1.0
