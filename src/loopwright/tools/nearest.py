"""Where in a text a piece was probably meant, when it is not there exactly.

Owns: the search for the nearest place. Must not know: files, tools.
Read next: `edit_file.py`, `apply_patch.py` (the messages built from it).
"""

from __future__ import annotations

from typing import NamedTuple

_SHOWN_AROUND = 3
_MAX_SHOWN = 60
_TYPOGRAPHY = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
)


class Block(NamedTuple):
    """Lines of a text near which a piece belongs."""

    first_line: int
    """Number of the first of `lines`, from 1."""
    lines: list[str]
    equal_but_for_space: bool
    """True when the piece is there except for white space and typographic characters."""


def nearest_block(text: str, piece: str) -> Block | None:
    """The most similar place of `piece` in `text`; None when they have no line in common."""
    lines = text.split("\n")
    have = [_plain(line) for line in lines]
    want = [_plain(line) for line in piece.strip("\n").split("\n")]
    if not any(want):
        return None
    at = _all_at(have, want)
    if at is not None:
        return Block(at + 1, lines[at : at + min(len(want), _MAX_SHOWN)], True)
    return _most_common_lines(lines, have, want)


def _plain(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHY).split())


def _all_at(have: list[str], want: list[str]) -> int | None:
    if len(want) == 1:
        # A single line may be a part of one.
        return next((i for i, line in enumerate(have) if want[0] in line), None)
    size = len(want)
    return next((i for i in range(len(have) - size + 1) if have[i] == want[0] and have[i : i + size] == want), None)


def _most_common_lines(lines: list[str], have: list[str], want: list[str]) -> Block | None:
    """The window that shares the most lines with the piece at the same distance from its start."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(have):
        if line:
            places.setdefault(line, []).append(index)
    votes: dict[int, int] = {}
    for distance, line in enumerate(want):
        found = places.get(line, [])
        # A line that is everywhere, such as a closing brace, says nothing about the place.
        for index in found if len(found) <= 50 else []:
            votes[index - distance] = votes.get(index - distance, 0) + 1
    if not votes:
        return None
    best = max(votes, key=lambda start: (votes[start], -start))
    first = max(best - _SHOWN_AROUND, 0)
    last = min(best + min(len(want), _MAX_SHOWN) + _SHOWN_AROUND, len(lines))
    return Block(first + 1, lines[first:last], False)
