"""Records to bytes and back, whatever they hold and whenever they were written."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.journals import ANY_RECORD

from loopwright.model import codec
from loopwright.model.codec import decode, decode_record, encode, encode_record, format_of
from loopwright.model.context_records import (
    ContextRecord,
    CostReserved,
    CostSettled,
    FoldFailed,
    FoldMade,
    FoldTrigger,
    NoteWritten,
    PromptEpochStarted,
    SendProjected,
    Settlement,
    TodoWritten,
    TokensCalibrated,
)
from loopwright.model.errors import StoreCorruptError
from loopwright.model.messages import AssistantMessage, ImagePart, TextPart, UserMessage
from loopwright.model.notes import TodoItem
from loopwright.model.records import Record, ToolFinished, UserMessageAdded
from loopwright.model.specs import ToolSpec
from loopwright.model.usage import Usage


def joined(text: str) -> str:
    """Two halves of one character that stand side by side are that character; all other halves stay alone."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30).map(joined)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)

COUNTS = st.integers(0, 2**70)
USAGES = st.builds(Usage, COUNTS, nanodollars=COUNTS, estimated=st.booleans())
MESSAGES = st.sampled_from(
    [UserMessage((TextPart("\ud800"), ImagePart(data=b"\x00"))), AssistantMessage((TextPart("x"),)), UserMessage("")]
)
SPECS = st.builds(ToolSpec, st.just("look"), ANY_TEXT, st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=2))
CONTEXT_RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        PromptEpochStarted, number=COUNTS, reason=ANY_TEXT, base=st.none() | ANY_TEXT, instructions=st.none() | ANY_TEXT,
        parts=st.just(("files",)), tools=st.lists(SPECS, max_size=2).map(tuple), representation=ANY_TEXT,
    ),
    st.builds(SendProjected, COUNTS, ANY_TEXT, COUNTS, st.lists(MESSAGES, max_size=2).map(tuple)),
    st.builds(
        FoldMade, through=COUNTS, after=COUNTS, rounds=COUNTS, note=ANY_TEXT, fold_id=ANY_TEXT, model=ANY_TEXT,
        trigger=st.sampled_from(get_args(FoldTrigger)), usage=USAGES,
    ),
    st.builds(
        FoldFailed, error_code=ANY_TEXT, message=ANY_TEXT, trigger=st.sampled_from(get_args(FoldTrigger)), usage=USAGES
    ),
    st.builds(NoteWritten, ANY_TEXT, st.none() | ANY_TEXT, st.booleans()),
    st.builds(TodoWritten, st.lists(st.builds(TodoItem, ANY_TEXT, ANY_TEXT), max_size=2).map(tuple)),
    st.builds(TokensCalibrated, ANY_TEXT, st.floats(0.1, 10), COUNTS),
    st.builds(CostReserved, ANY_TEXT, COUNTS, st.lists(ANY_TEXT, max_size=2).map(tuple)),
    st.builds(CostSettled, ANY_TEXT, COUNTS, st.sampled_from(get_args(Settlement))),
)  # fmt: skip
EVERY_RECORD = ANY_RECORD | CONTEXT_RECORDS


def there_and_back(record: Record) -> Record:
    return decode_record(*encode_record(record))


@given(EVERY_RECORD)
def test_every_kind_of_record_comes_back_equal(record: Record) -> None:
    assert there_and_back(record) == record


@pytest.mark.parametrize("cls", get_args(ContextRecord))
def test_what_stands_beside_a_conversation_needs_format_3_and_damage_of_it_is_named(cls: type[Record]) -> None:
    kind = codec.kind_of(cls)
    with pytest.raises(StoreCorruptError, match="not of the expected shape"):
        decode_record(kind, 1, b"[]")
    assert format_of(kind, 1) == 3


@given(ANY_TEXT)
def test_text_of_any_code_points_comes_back_equal(text: str) -> None:
    record = UserMessageAdded(UserMessage(text), item_ids=(text,))
    assert there_and_back(record) == record


@given(JSON_VALUES)
def test_any_json_value_comes_back_equal(value: Any) -> None:
    record = ToolFinished("c", "t", "finished", "", data=value)
    assert there_and_back(record) == record
    assert decode(encode(value), object) == value


@pytest.mark.parametrize("odd", ["\ud800", "\udfff\udfff ", "\x00", "日本語 العربية हिन्दी 😀", "\u2028\ufeff"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_large_and_odd_texts_come_back_equal(odd: str, size: int) -> None:
    record = UserMessageAdded(UserMessage((TextPart(odd * size), ImagePart(data=b"\x00\xff" * 10))))
    same = there_and_back(record) == record
    assert same


def test_two_halves_side_by_side_become_their_character() -> None:
    assert decode(encode("\ud83d\ude00"), str) == "\N{GRINNING FACE}"


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**30, -(10**100)])
def test_big_whole_numbers_stay_whole(number: int) -> None:
    assert decode(encode({"n": number}), object) == {"n": number}


@given(EVERY_RECORD)
def test_the_stored_form_is_plain_json(record: Record) -> None:
    kind, version, body = encode_record(record)
    assert json.loads(body)["kind"] == kind
    assert version >= 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[]", b"{}", b'{"kind": "unheard_of"}', b'{"kind": "tool_finished"}']
)
def test_bytes_that_are_no_record_are_named_corrupt(body: bytes) -> None:
    with pytest.raises(StoreCorruptError):
        decode_record("tool_finished", 1, body)


@given(st.binary(max_size=40))
@settings(max_examples=50)
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    try:
        decode_record("tool_finished", 1, body)
    except StoreCorruptError:
        pass


@pytest.mark.parametrize("body", [b'{"kind":"send_paused","outcome":"\xff"}', b'{"kind":"\xff"}', b'{"\x80":1}'])
def test_bytes_that_are_no_text_are_named_corrupt(body: bytes) -> None:
    with pytest.raises(StoreCorruptError):
        decode_record("send_paused", 1, body)
    with pytest.raises(StoreCorruptError):
        decode(body, dict)


@pytest.fixture
def third_version() -> Any:
    """A world in which user messages were written in two older shapes."""
    before = (dict(codec.VERSIONS), dict(codec.UPGRADES))
    codec.VERSIONS["user_message_added"] = 3
    codec.UPGRADES["user_message_added", 1] = lambda old: {**old, "message": {"role": "user", "content": old["text"]}}
    codec.UPGRADES["user_message_added", 2] = lambda old: {
        **old,
        "source": {"person": "send"}.get(old["source"], "inbox"),
    }
    yield
    for table, was in zip((codec.VERSIONS, codec.UPGRADES), before, strict=True):
        table.clear()
        table.update(was)  # type: ignore[arg-type]


@pytest.mark.usefixtures("third_version")
def test_an_old_record_is_upgraded_step_by_step() -> None:
    first = json.dumps({"kind": "user_message_added", "text": "old \ud800", "source": "person"}).encode()
    assert decode_record("user_message_added", 1, first) == UserMessageAdded(UserMessage("old \ud800"))
    second = {"kind": "user_message_added", "message": {"role": "user", "content": "newer"}, "source": "queue"}
    assert decode_record("user_message_added", 2, json.dumps(second).encode()) == UserMessageAdded(
        UserMessage("newer"), "inbox"
    )
    today = UserMessageAdded(UserMessage("now"))
    assert encode_record(today)[1] == 3
    assert there_and_back(today) == today


@pytest.mark.usefixtures("third_version")
def test_a_version_without_a_way_up_is_named_corrupt() -> None:
    with pytest.raises(StoreCorruptError, match="no way to read version 0"):
        decode_record("user_message_added", 0, b"{}")
    with pytest.raises(StoreCorruptError):
        decode_record("user_message_added", 1, b"not json")


def test_every_version_has_its_upgrade_steps_and_the_format_is_the_highest_needed() -> None:
    for kind, version in codec.VERSIONS.items():
        for step in range(1, version):
            assert (kind, step) in codec.UPGRADES
    assert format_of("user_message_added", 1) == 1
    assert max([1, *codec.FORMATS.values()]) == codec.CURRENT_FORMAT
