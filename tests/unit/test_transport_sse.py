"""Server-sent events come out alike, however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.model.errors import LLMTransientError
from loopwright.transports.sse import EventReader


def read(raw: bytes, cuts: list[int]) -> list[bytes]:
    reader = EventReader()
    found: list[bytes] = []
    edges = sorted({0, *[min(cut, len(raw)) for cut in cuts], len(raw)})
    for start, end in pairwise(edges):
        found.extend(reader.feed(raw[start:end]))
    return [*found, *reader.finish()]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)


@given(
    events=st.lists(st.lists(texts, min_size=1, max_size=3), max_size=6),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.booleans(),
    last_blank=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=60),
)
def test_events_do_not_depend_on_pieces_or_line_endings(
    events: list[list[str]], ending: str, bom: bool, last_blank: bool, cuts: list[int]
) -> None:
    lines = [": a comment", "event: x"]
    for event in events:
        lines += [f"data: {text}" for text in event] + ["id: 7", "", ": ping"]
    raw = ("\ufeff" if bom else "") + ending.join(lines) + (ending * 2 if last_blank else "")
    assert read(raw.encode(), cuts) == ["\n".join(event).encode() for event in events]


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b"data:x\n\n", [b"x"]),
        (b"data:  x\n\n", [b" x"]),
        (b"data\n\n", [b""]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"dataset: a\n\n", []),
        (b"\n\n\n", []),
        (b"data: a", [b"a"]),
        (b"data: \xe4\xbd\xa0\xf0\x9f\x99\x82\n\n", ["你🙂".encode()]),
        # A line separator of Unicode is text, not the end of a line.
        ("data: a\u2028b\x85c\n\n".encode(), ["a\u2028b\x85c".encode()]),
    ],
)
def test_field_syntax(raw: bytes, expected: list[bytes]) -> None:
    assert read(raw, []) == read(raw, list(range(len(raw)))) == expected


def test_an_event_of_a_mebibyte_comes_through_in_single_bytes() -> None:
    reader = EventReader()
    raw = b"data: " + b"x" * 200_000 + b"\n\n"
    found = [data for index in range(len(raw)) for data in reader.feed(raw[index : index + 1])]
    assert found == [b"x" * 200_000]


@pytest.mark.parametrize(
    "endless", [b"data: xxxxxxxxx", b"data: xxxxxxxx\n", b": x\ndata: xxxxxxxxxxxxxx\n", b"xxxxxxxxxxxx"]
)
def test_an_endless_event_is_a_passing_fault_and_not_memory(endless: bytes) -> None:
    reader = EventReader(max_event_bytes=1_000)
    with pytest.raises(LLMTransientError, match="more than 1000 bytes"):
        sum(len(reader.feed(endless)) for _ in range(1_000))
