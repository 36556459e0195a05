"""What stands behind the window: bounded, in frames that nothing inside can end, the same bytes for the same lists."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.estimate import message_tokens
from loopwright.core.fencing import FRAMES
from loopwright.core.request_tail import fitting, notes_room, tail
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


def test_notes_take_at_most_an_eighth_of_the_context_budget() -> None:
    assert notes_room(8_000, None) == 8_000
    assert notes_room(8_000, 100_000) == 8_000
    assert notes_room(8_000, 4_000) < 8_000
