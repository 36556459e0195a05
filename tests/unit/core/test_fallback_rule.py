"""Whether a failed call goes on with the next model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.fallback import MoveOn, after_model
from loopwright.model.errors import (
    ConfigError,
    LLMContextOverflowError,
    LLMEmptyReplyError,
    LLMRequestError,
    LLMRetryExhausted,
    LLMTimeout,
    LLMTransientError,
)

EXHAUSTED = LLMRetryExhausted(3, LLMTransientError("overloaded", status=529))


def moved(error: BaseException, place: int = 0, contexts: tuple[int | None, ...] = (None, None)) -> MoveOn | None:
    return after_model(error, place=place, contexts=contexts, tokens=1000)


@pytest.mark.parametrize(
    "error, reason",
    [
        (EXHAUSTED, "llm.transient"),
        (LLMRetryExhausted(3, LLMEmptyReplyError("nothing")), "llm.empty_reply"),
        (LLMRetryExhausted(3, ConnectionResetError()), "ConnectionResetError"),
        (LLMTimeout(60.0, 2, 60.0), "llm.timeout"),
        *[(LLMRequestError("no", status=status), "llm.request") for status in (401, 402, 403, 404, 410)],
        (LLMRequestError("no credit", status=429, details={"code": "insufficient_quota"}), "llm.request"),
        (LLMRequestError("retired", status=400, details={"code": "model_decommissioned"}), "llm.request"),
    ],
)
def test_what_another_model_may_do_moves_on_and_says_why(error: BaseException, reason: str) -> None:
    assert moved(error) == MoveOn(1, reason)


@pytest.mark.parametrize(
    "error",
    [
        LLMRequestError("no such field", status=400),
        LLMRequestError("schema", status=422),
        LLMRequestError("redirect"),
        ConfigError("wrong"),
        RuntimeError("a bug of the host's service"),
    ],
)
def test_what_the_next_model_would_refuse_as_well_ends_the_call(error: BaseException) -> None:
    assert moved(error) is None


@pytest.mark.parametrize(
    "contexts, place",
    [
        ((None, None, None), None),
        ((8000, 8000, 4000), None),
        ((8000, None, 32000), 2),
        ((8000, 16000, 32000), 1),
        ((None, 500, 32000), 2),
        ((None, 1000), None),
    ],
)
def test_a_request_that_is_too_long_goes_to_a_declared_larger_context_only(
    contexts: tuple[int | None, ...], place: int | None
) -> None:
    step = moved(LLMContextOverflowError("too long"), contexts=contexts)
    assert step == (None if place is None else MoveOn(place, "llm.context_overflow"))


@given(
    place=st.integers(0, 5),
    contexts=st.lists(st.none() | st.integers(1, 10**6), min_size=1, max_size=6),
    error=st.sampled_from([EXHAUSTED, LLMContextOverflowError("too long"), LLMRequestError("key", status=401)]),
)
def test_a_chain_is_walked_forwards_and_ends(place: int, contexts: list[int | None], error: BaseException) -> None:
    step = after_model(error, place=place, contexts=contexts, tokens=0)
    assert step is None or place < step.place < len(contexts)
    assert place + 1 < len(contexts) or step is None
