"""What stands behind the window: bounded, in frames that nothing inside can end, the same bytes for the same lists."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.estimate import message_tokens
from loopwright.core.fencing import FRAMES
from loopwright.core.request_tail import fitting, tail, tail_room
from loopwright.model.notes import Note, TodoItem

FORGED = st.sampled_from([f"{start}{tag}>" for tag in FRAMES for start in ("<", "</", "< / ", "<\n/", "<")]).map(str)
TEXT = st.lists(st.one_of(FORGED, FORGED.map(str.upper), st.text(max_size=200)), max_size=6).map("".join)
TAG = re.compile(rf"<[\s/]*(?:{'|'.join(FRAMES)})\b", re.IGNORECASE)

NOTES = st.lists(st.builds(Note, note_id=st.from_regex(r"n[0-9a-f]{6}", fullmatch=True), content=TEXT), max_size=8)
ITEMS = st.lists(st.builds(TodoItem, id=TEXT, text=TEXT), max_size=8)


@given(st.lists(TEXT, max_size=12), st.integers(1, 3_000))
def test_recalled_memory_never_costs_more_than_its_budget(texts: list[str], budget: int) -> None:
    lines = fitting(texts, budget)
    (*_, message) = (None, *tail(lines, (), (), 0))
    assert (message is None) == (not lines)
    assert message is None or message_tokens(message) <= budget
    assert len(lines) <= len(texts)


@given(st.lists(TEXT, min_size=1, max_size=12))
def test_what_fits_is_shown_whole_and_in_order(texts: list[str]) -> None:
    lines = fitting(texts, 1_000_000)
    assert len(lines) == len(texts)
    assert [line[:2] for line in lines] == ["- "] * len(lines)


@given(st.lists(TEXT, max_size=8), NOTES, ITEMS)
def test_nothing_inside_ends_a_frame_or_opens_one(texts: list[str], notes: list[Note], items: list[TodoItem]) -> None:
    for message in tail(fitting(texts, 5_000), tuple(notes), tuple(items), 8_000):
        assert len(TAG.findall(message.text)) == 2
        assert message.text.startswith("<")
        assert message.text.endswith(">")


@given(st.lists(TEXT, max_size=8), NOTES, ITEMS)
def test_the_same_lists_are_the_same_bytes_in_a_fixed_order(
    texts: list[str], notes: list[Note], items: list[TodoItem]
) -> None:
    lines = fitting(texts, 5_000)
    both = [tail(lines, tuple(notes), tuple(items), 8_000) for _ in range(2)]
    assert both[0] == both[1]
    order = [message.text[1:].partition(">")[0] for message in both[0]]
    assert order == [
        tag for tag, given_ in (("recalled_memory", lines), ("session_notes", notes), ("todo_list", items)) if given_
    ]


@given(st.lists(TEXT, max_size=8), NOTES, ITEMS, st.integers(0, 2_000))
def test_the_whole_tail_is_within_its_room_whatever_the_script(
    texts: list[str], notes: list[Note], items: list[TodoItem], room: int
) -> None:
    shown = tail(fitting(texts, 5_000), tuple(notes), tuple(items), 8_000, room)
    assert sum(message_tokens(message) for message in shown) <= room
    assert all(message_tokens(message) <= room // 2 for message in shown if "<recalled" not in message.text)


def test_the_room_of_the_tail_is_a_share_of_the_budget_in_the_models_own_tokens() -> None:
    assert tail_room(None, 2.0) is None
    assert tail_room(16_000, 1.0) == 4_000
    assert tail_room(16_000, 2.0) == 2_000
