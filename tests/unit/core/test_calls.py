"""Identity, arguments and texts of one tool call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.calls import (
    MAX_ARGUMENTS,
    MAX_DATA,
    CutOff,
    LargeData,
    aborted,
    arguments_of,
    as_content,
    as_data,
    bounded,
    idempotency_key,
    pointer_to,
    shortened,
    with_unique_ids,
)
from loopwright.core.state import fold
from loopwright.core.text_ranges import encoded
from loopwright.model.codec import decode, encode
from loopwright.model.messages import AssistantMessage, ImagePart, TextPart, ToolCall
from loopwright.model.records import AssistantMessageAdded, SendStarted, SessionCreated, ToolStarted


def test_the_key_of_a_call_never_changes() -> None:
    assert idempotency_key("sess_018f3c2a9b10aabbccddeeff", 7, 2) == (
        "dacd6b05730c4c141770732b9fe544010f5d0a9eb5261dd849877dd240b7b635"
    )


@given(st.tuples(st.text(), st.integers(0), st.integers(0)), st.tuples(st.text(), st.integers(0), st.integers(0)))
def test_different_calls_have_different_keys(one: tuple[str, int, int], other: tuple[str, int, int]) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


def call(arguments: str) -> ToolCall:
    return ToolCall("a", "tool", arguments)


def test_empty_arguments_mean_no_arguments() -> None:
    assert arguments_of(call(""), "tool_calls") == {}


@pytest.mark.parametrize("text", ["[1]", '"x"', '{"a": 1', "{'a': 1}", '{"a": 1} {"b": 2}', "1"])
def test_arguments_that_are_not_one_object_are_refused_never_repaired(text: str) -> None:
    with pytest.raises(ValueError, match="not one JSON object"):
        arguments_of(call(text), "tool_calls")


@pytest.mark.parametrize("text", ['{"a": "half', "", "  "])
def test_arguments_cut_at_the_output_limit_are_known_as_cut(text: str) -> None:
    with pytest.raises(CutOff):
        arguments_of(call(text), "length")


def test_whole_arguments_of_a_cut_reply_are_taken() -> None:
    assert arguments_of(call('{"a": 1}'), "length") == {"a": 1}


@pytest.mark.parametrize(
    "value, content",
    [("text", "text"), (None, "ok"), ({"a": [1]}, '{"a":[1]}'), ([], "[]"), (2**70, str(2**70)), (True, "true")],
)
def test_a_plain_return_value_becomes_text(value: Any, content: str) -> None:
    assert as_content(value) == content


def test_parts_stay_parts_and_what_has_no_json_form_becomes_its_text() -> None:
    parts = (TextPart("x"), ImagePart(data=b"1"))
    assert as_content(parts) is parts
    assert "object" in str(as_content(object()))


@pytest.mark.parametrize("value", [None, {1: (2, 3)}, {"x": {4}}, float("nan"), b"raw", 2**80, "\ud800", object])
def test_data_is_what_a_reader_of_the_journal_gets(value: Any) -> None:
    data = as_data(value)
    assert decode(encode(data), object) == data


@given(st.text(min_size=1), st.integers(1, 20))
def test_a_long_output_keeps_head_and_tail_and_points_to_the_rest(text: str, limit: int) -> None:
    got = shortened(text, limit, pointer_to("art_1", text, limit, 3))
    assert isinstance(got, str)
    if len(text) <= limit:
        assert got == text
    else:
        assert got.startswith(text[: limit * 2 // 3])
        assert got.endswith(text[-1:])
        assert f"read_output(artifact_id='art_1', offset={len(encoded(text[: limit * 2 // 3]))})" in got
        assert f"of {len(text)} characters left out; of 3 lines" in got


def test_shortening_text_keeps_pictures() -> None:
    picture = ImagePart(data=b"1")
    got = shortened((TextPart("x" * 50), picture), 10, "p")
    assert isinstance(got, tuple)
    assert got[1:] == (picture,)


def test_data_that_is_too_much_for_a_record_stays_json() -> None:
    assert as_data("x" * (MAX_DATA - 2)) == "x" * (MAX_DATA - 2)
    large = as_data(["x" * MAX_DATA])
    assert isinstance(large, LargeData)
    assert decode(large.body, object) == ["x" * MAX_DATA]


@pytest.mark.parametrize("tail", ["", '"}', " " * MAX_ARGUMENTS, "…["])
def test_arguments_that_are_too_much_are_left_out_and_never_run(tail: str) -> None:
    large = ToolCall("c", "write", '{"text": "' + "x" * MAX_ARGUMENTS + tail)
    small = ToolCall("d", "look", '{"x": 1}')
    first, second = bounded((large, small))
    assert len(first.arguments) < 2000
    assert first.arguments.startswith('{"text": "xxx')
    assert second is small
    with pytest.raises(ValueError, match=f"nothing was run; {len(large.arguments)} characters"):
        arguments_of(first, "stop")


def test_all_calls_of_a_reply_share_one_limit_and_within_it_nothing_changes() -> None:
    half = ToolCall("c", "write", '"' + "x" * (MAX_ARGUMENTS // 2 - 2) + '"')
    assert bounded(given := (half, half)) is given
    kept = bounded((half, half, half))
    assert kept[:2] == (half, half)
    assert len(kept[2].arguments) < 2000


@given(st.lists(st.sampled_from(["", "a", "a_2", "b", "call_1"]), max_size=6))
def test_calls_of_one_reply_get_ids_of_their_own(ids: list[str]) -> None:
    given_calls = tuple([ToolCall(i, "t", str(n)) for n, i in enumerate(ids)])
    got = with_unique_ids(given_calls)
    assert len({c.id for c in got}) == len(ids)
    assert all(c.id for c in got)
    assert [c.arguments for c in got] == [c.arguments for c in given_calls]
    if len(set(ids)) == len(ids) and "" not in ids:
        assert got == given_calls


def test_an_aborted_once_call_that_was_running_is_said_to_be_uncertain() -> None:
    reply = AssistantMessage((ToolCall("a", "pay", "{}"), ToolCall("b", "look", "{}")))
    records = (
        SessionCreated("s", "agent"),
        SendStarted(index=1, max_rounds=1),
        AssistantMessageAdded(reply, 1),
        ToolStarted("a", "pay", {}, "once", "k"),
    )
    pay, look = aborted(fold([(r, 0.0) for r in records]), "stop")
    assert (pay.status, look.status) == ("uncertain", "aborted")
    assert "may have had its effect" in str(pay.content)
    assert look.content == "<aborted: stop>"
