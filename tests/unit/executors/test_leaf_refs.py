"""A reference to a leaf is ids and names, small, and says itself what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopwright.executors.worker_job import WorkerBootstrap, store_variable
from loopwright.model.errors import ConfigError
from loopwright.ports.executor import LARGEST_REASON, LARGEST_REF, LeafEnd, LeafRef, decode_ref, encode_ref

WORDS = st.text(min_size=1, max_size=400)


@settings(max_examples=50)
@given(WORDS, WORDS, WORDS, st.integers(1, 10**6), st.none() | st.floats(0.1, 1e9))
def test_a_reference_is_small_or_refused_and_comes_back_as_it_was(
    session_id: str, path: str, place: str, attempt: int, timeout_s: float | None
) -> None:
    facts = {"session_id": session_id, "agent_name": "a", "path": path, "place": place, "attempt": attempt}
    if len(json.dumps(facts, ensure_ascii=False).encode()) > LARGEST_REF + 50:  # with its own blanks
        with pytest.raises(ConfigError, match="takes"):
            LeafRef(**facts, timeout_s=timeout_s)  # type: ignore[arg-type]
        return
    assume(len(json.dumps(facts, ensure_ascii=False).encode()) < LARGEST_REF - 50)
    ref = LeafRef(**facts, timeout_s=timeout_s)  # type: ignore[arg-type]
    assert len(encode_ref(ref)) <= LARGEST_REF < 1024
    assert decode_ref(encode_ref(ref)) == ref


def test_a_reference_lists_all_that_is_wrong_with_it() -> None:
    with pytest.raises(ConfigError) as caught:
        LeafRef(session_id="", agent_name="", path="x" * 2000, attempt=0, timeout_s=float("nan"))
    assert len(caught.value.problems) == 5
    with pytest.raises(ConfigError, match="half a character"):
        LeafRef(session_id="\ud800", agent_name="a")
    with pytest.raises(ConfigError):
        decode_ref(b'{"session_id": 7}')


def test_what_a_later_version_adds_to_a_reference_is_passed_over() -> None:
    ref = LeafRef(session_id="s", agent_name="a")
    later = json.dumps({**json.loads(encode_ref(ref)), "colour": "blue"}).encode()
    assert decode_ref(later) == ref


@given(st.text(max_size=5000))
def test_the_reason_of_an_end_is_bounded(reason: str) -> None:
    kept = LeafEnd(status="failed", in_journal=False, reason=reason).reason
    assert len(kept) <= LARGEST_REASON
    assert kept == reason or (
        len(reason) > LARGEST_REASON and reason.startswith(kept[:500]) and reason.endswith(kept[-500:])
    )


def test_a_bootstrap_lists_all_that_is_wrong_with_it() -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerBootstrap(factory="no colon", llm="gpt", preset="all")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4


def test_the_variable_of_a_store_is_named_after_its_place() -> None:
    assert [store_variable(place) for place in ("", "eu", "north-1")] == [
        "LOOPWRIGHT_DB",
        "LOOPWRIGHT_DB_EU",
        "LOOPWRIGHT_DB_NORTH_1",
    ]
