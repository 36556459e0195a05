"""Parts of a long text by bytes, and words in it, whatever the characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.text_ranges import AROUND, TextSearch, decoded, encoded, slice_of, span_to_read
from loopwright.ports.tool import OutputSlice

CHARACTERS = st.one_of(
    st.characters(), st.sampled_from("aé日本語🦊\n\x00\ud800\udc00"), st.characters(categories=["Cs", "Lo", "So"])
)
TEXTS = st.text(CHARACTERS, max_size=60)


def part_of(data: bytes, offset: int, limit: int) -> OutputSlice:
    """As a store is asked: nothing but the bytes of the span are read."""
    first, length = span_to_read(len(data), offset, limit)
    assert length <= limit + 6
    return slice_of(data[first : first + length], first, len(data), offset, limit)


@given(TEXTS, st.integers(1, 9))
def test_parts_one_after_the_other_are_the_whole_text(text: str, limit: int) -> None:
    data, parts, at = encoded(text), "", 0
    while at < len(data):
        part = part_of(data, at, limit)
        assert part.start == at < part.end
        assert part.end - part.start <= max(limit, 4)
        parts, at = parts + part.text, part.end
    assert parts == text


@given(TEXTS, st.integers(-3, 250), st.integers(1, 20))
def test_a_part_from_anywhere_begins_with_the_character_that_is_there(text: str, offset: int, limit: int) -> None:
    data = encoded(text)
    part = part_of(data, offset, limit)
    assert encoded(part.text) == data[part.start : part.end]
    within = max(0, min(offset, len(data)))
    assert part.start <= within < part.start + 4
    assert bool(part.text) == (within < len(data))
    assert part.size == len(data)


@given(st.binary(max_size=40), st.integers(0, 45), st.integers(1, 9))
def test_bytes_that_are_no_text_are_shown_and_passed_too(data: bytes, offset: int, limit: int) -> None:
    part = part_of(data, offset, limit)
    assert part.end > part.start or offset >= len(data)
    assert isinstance(decoded(data), str)


@given(st.text("ab\n日", max_size=300), st.text("ab\n日", min_size=1, max_size=3), st.lists(st.integers(1, 120)))
def test_a_search_in_pieces_finds_what_a_search_in_the_whole_does(text: str, word: str, cuts: list[int]) -> None:
    search, at = TextSearch(word, 1000), 0
    for size in cuts:
        search.feed(text[at : at + size])
        at += size
    search.feed(text[at:], last=True)
    expected, at = [], text.find(word)
    while at != -1:
        expected.append((text[:at].count("\n") + 1, len(encoded(text[:at]))))
        at = text.find(word, at + len(word))
    assert [(found.line, found.at) for found in search.found] == expected
    assert all(word in found.text and len(found.text) <= len(word) + 2 * AROUND for found in search.found)


def test_a_search_ends_when_it_has_enough_and_holds_little_of_a_long_line() -> None:
    search = TextSearch("x", 2)
    for _ in range(100):
        search.feed("." * 10_000)
        assert len(search._held) < 1000
    search.feed("xxxx" + "." * 1000)
    assert search.is_full
    assert [found.at for found in search.found] == [1_000_000, 1_000_001]
