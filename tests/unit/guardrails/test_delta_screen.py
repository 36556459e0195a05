"""Streamed text: whatever the pieces, no secret comes through, and nothing else is lost or out of order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright import AgentEvent, AgentEventBus, AgentEventType
from loopwright.core.secret_forms import SecretFinder
from loopwright.guardrails.delta_screen import DeltaScreen, HeldText
from loopwright.model.events import PAYLOADS
from loopwright.model.usage import NO_USAGE

SECRET = "correct horse/battery"
FINDER = SecretFinder({"A": SECRET})
BASE64 = "Y29ycmVjdCBob3JzZS9iYXR0ZXJ5"
SHAPE = "sk-abcdefghijklmnopqrstuv"
TEXTS = st.lists(
    st.sampled_from([SECRET, SECRET[:9], SECRET[3:], " ", "\n", "correct", SHAPE, BASE64, "636f"])
    | st.text(max_size=5),
    max_size=8,
).map("".join)


def event(kind: str, *args: Any, session: str = "s") -> AgentEvent:
    return AgentEvent(
        type=AgentEventType(kind), session_id=session, data=PAYLOADS[kind](*args), seq=1, at=0.0, mono=0.0
    )


def cut(text: str, places: Sequence[int]) -> list[str]:
    edges = sorted({0, len(text), *[place % (len(text) + 1) for place in places]})
    return [text[a:b] for a, b in pairwise(edges)]


@pytest.mark.fuzz
@settings(max_examples=examples(50))
@given(TEXTS, st.lists(st.integers(0, 200), max_size=12))
@example(f"a {SECRET} b", [4, 9, 12])
@example(SHAPE, list(range(30)))
@example(f"{SECRET}{SECRET}", [25])
def test_pieces_hold_no_known_value_and_join_to_the_redacted_text(text: str, places: list[int]) -> None:
    held = HeldText([FINDER])
    pieces = [held.put(piece) for piece in cut(text, places)]
    pieces.append(held.rest())
    joined = "".join(pieces)
    assert SECRET not in joined
    assert "".join(SECRET.split()) not in "".join(joined.split())
    assert FINDER.redacted(joined)[1] == ()
    whole, names = FINDER.redacted(text)
    if not names:
        assert joined == text
    elif BASE64[:8] not in text:
        # Where two secrets touch, one text may show one mark and the other two.
        assert without_marks(joined) == without_marks(whole)


def without_marks(text: str) -> str:
    return text.replace("[redacted:A]", "").replace("[redacted]", "")


def test_plain_text_is_late_by_a_word_at_most() -> None:
    held = HeldText([FINDER])
    out = ["".join(held.put(piece)) for piece in ("The ", "weather ", "is fi", "ne today. ")]
    assert out == ["The ", "weather ", "is ", "fine today. "]


def test_a_word_without_end_does_not_stay_in_memory() -> None:
    held = HeldText([FINDER])
    out = sum([len(held.put("x" * 10_000)) for _ in range(30)])
    assert out > 200_000


def test_what_is_held_comes_right_before_the_end_of_its_call_and_not_after_a_failure() -> None:
    screen = DeltaScreen([FINDER])
    ends = event("llm_call_completed", "c", 1, "m", 0.1, True, NO_USAGE)
    failed = event("llm_call_completed", "c", 1, "m", 0.1, False, NO_USAGE)
    assert screen.screened(event("stream_delta", "c", "corr")) == []
    assert [getattr(e.data, "text", e.type) for e in screen.screened(ends)] == ["corr", "llm_call_completed"]
    assert screen.screened(event("stream_delta", "c", "corr")) == []
    assert [e.type for e in screen.screened(failed)] == ["llm_call_completed"]
    assert [e.data.text for e in screen.screened(event("stream_delta", "c", "a b"))] == ["a "]  # type: ignore[union-attr]


def test_the_first_piece_of_a_call_names_it_and_no_later_one_does() -> None:
    screen = DeltaScreen([FINDER])
    seen = screen.screened(event("tool_arguments_delta", "c", 0, "id", "fetch", ""))
    seen = [*seen, *screen.screened(event("tool_arguments_delta", "c", 0, "", "", '{"a":"corr'))]
    seen = [*seen, *screen.screened(event("llm_call_completed", "c", 1, "m", 0.1, True, NO_USAGE))]
    assert [(e.data.tool_call_id, e.data.name, e.data.arguments) for e in seen[:-1]] == [  # type: ignore[union-attr]
        ("id", "fetch", ""),
        ("", "", '{"a":"corr'),
    ]


def test_sessions_and_calls_do_not_mix() -> None:
    screen = DeltaScreen([FINDER])
    screen.screened(event("stream_delta", "c", "corr", session="one"))
    screen.screened(event("stream_think_delta", "c", "think", session="one"))
    ended = screen.screened(event("llm_call_completed", "c", 1, "m", 0.1, True, NO_USAGE, session="two"))
    assert [e.type for e in ended] == ["llm_call_completed"]


def test_many_unfinished_texts_are_not_kept_for_ever() -> None:
    screen = DeltaScreen([FINDER])
    for number in range(5000):
        screen.screened(event("stream_delta", f"c{number}", "corr"))
    assert len(screen._texts) <= 1000


def test_a_screen_that_raises_shows_nothing_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(shown: AgentEvent) -> Sequence[AgentEvent]:
        raise ValueError("broken")

    bus = AgentEventBus()
    heard: list[AgentEvent] = []
    bus.subscribe(heard.append, "stream_delta")
    bus.screen_with(broken, [AgentEventType.LLM_CALL_COMPLETED])
    assert bus.wanted == {"stream_delta", "llm_call_completed"}
    bus.publish(event("stream_delta", "c", SECRET))
    assert heard == []
    assert "not delivered" in caplog.text
    bus.screen_with(None)
    bus.publish(event("stream_delta", "c", "x"))
    assert len(heard) == 1
    assert bus.wanted == {"stream_delta"}
