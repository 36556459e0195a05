"""Texts are as wide as terminals show them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.cli.text_columns import columns, cut_to


def test_wide_characters_take_two_columns_and_accents_none() -> None:
    assert [columns(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]


@given(st.text("ab日本\u0301é"), st.integers(0, 12))
def test_a_cut_text_fits_and_is_the_beginning_of_the_whole(text: str, room: int) -> None:
    cut = cut_to(text, room)
    assert columns(cut) <= room
    assert cut == text or cut == "" or text.startswith(cut.removesuffix("…"))
    assert cut == text or columns(text) > room
