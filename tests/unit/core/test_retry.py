"""When a failed model call is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.retry import GiveUp, LLMRetryPolicy, Retry, after_failure
from loopwright.model.errors import (
    LLMContextOverflowError,
    LLMEmptyReplyError,
    LLMRequestError,
    LLMTransientError,
)

POLICY = LLMRetryPolicy()


def advice(
    error: BaseException, policy: LLMRetryPolicy = POLICY, *, attempt: int = 1, elapsed_s: float = 0.0
) -> Retry | GiveUp:
    return after_failure(policy, error, attempt=attempt, elapsed_s=elapsed_s, jitter=0.0)


@pytest.mark.parametrize(
    "error", [LLMTransientError("503"), LLMEmptyReplyError("nothing"), TimeoutError(), ConnectionResetError()]
)
def test_a_passing_fault_is_tried_again(error: Exception) -> None:
    assert advice(error) == Retry(0.25)


@pytest.mark.parametrize(
    "error", [LLMRequestError("401"), LLMContextOverflowError("long"), ValueError("x"), KeyError("y")]
)
def test_a_permanent_fault_is_not(error: Exception) -> None:
    assert advice(error) == GiveUp(exhausted=False)


def test_attempts_end() -> None:
    assert advice(LLMTransientError("503"), attempt=3) == GiveUp(exhausted=True)


def test_a_hosts_own_exceptions_can_count_as_passing() -> None:
    assert advice(KeyError("y"), LLMRetryPolicy(retry_on=(KeyError,))) == Retry(0.25)


def test_retry_after_wins_when_it_is_longer_than_our_wait() -> None:
    assert advice(LLMTransientError("429", retry_after_s=20.0)) == Retry(20.0)
    assert advice(LLMTransientError("429", retry_after_s=0.1)) == Retry(0.25)


def test_a_wait_beyond_the_total_time_is_not_begun() -> None:
    assert advice(LLMTransientError("429", retry_after_s=70.0)) == GiveUp(exhausted=True)
    assert advice(LLMTransientError("503"), elapsed_s=59.9) == GiveUp(exhausted=True)
    unlimited = LLMRetryPolicy(total_timeout_s=None)
    assert advice(LLMTransientError("429", retry_after_s=700.0), unlimited) == Retry(700.0)


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_our_own_waits_double_within_their_bounds(attempt: int, jitter: float) -> None:
    policy = LLMRetryPolicy(max_attempts=2000, total_timeout_s=None)
    got = after_failure(policy, LLMTransientError("503"), attempt=attempt, elapsed_s=0.0, jitter=jitter)
    assert isinstance(got, Retry)
    full = min(0.5 * 2.0 ** min(attempt - 1, 10), 8.0)
    assert full / 2 <= got.wait_s <= full
