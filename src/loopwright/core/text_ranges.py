"""Parts of a long text that is kept as UTF-8: by bytes without splitting a character, and by a word in it.

Owns: these rules, over pieces of whatever size. Must not know: where the bytes are kept.
Positions are bytes, so that a part is found without reading what stands before it.
Read next: `engine/outputs.py`, `tools/read_output.py`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..ports.tool import OutputSlice

LONGEST: Final = 4
"""Bytes of the longest character."""

AROUND: Final = 100
"""Characters shown before and behind a word that was found, within its line."""


def encoded(text: str) -> bytes:
    """`text` as it is kept: UTF-8, with lone surrogates as three bytes each."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The text of whole characters; what is no text of ours gets replacement characters."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def span_to_read(size: int, offset: int, limit: int) -> tuple[int, int]:
    """(offset, length) of the bytes that `slice_of` needs: a little more than asked for, on both sides."""
    first = max(0, min(offset, size) - LONGEST + 1)
    return first, max(0, min(size, max(0, offset) + max(1, limit) + LONGEST - 1) - first)


def slice_of(data: bytes, first: int, size: int, offset: int, limit: int) -> OutputSlice:
    """The characters in `limit` bytes from `offset`; `data` are the bytes from `first` on, of `size` in all.

    A position inside a character counts as its first byte. There is at least one character until the end is reached, so
    slices that each begin where the last one ended give the whole text.
    """
    offset = max(0, min(offset, size))
    start = _begin(data, offset - first)
    end = min(len(data), max(offset - first + max(1, limit), start + 1))
    if first + end < size:
        cut = _begin(data, end)
        while cut <= start:  # the limit is shorter than the one character
            end += 1
            cut = _begin(data, end) if end < len(data) else end
        end = cut
    return OutputSlice(decoded(data[start:end]), first + start, first + end, size)


def _begin(data: bytes, at: int) -> int:
    """Where the character begins of which a byte is at `at`; `at` itself when no character of UTF-8 is there."""
    for begin in range(at, max(-1, at - LONGEST), -1):
        if begin >= len(data) or data[begin] & 0xC0 != 0x80:
            return begin
    return at


class Occurrence(Struct, frozen=True):
    """One place where a word stands."""

    line: int
    """From 1."""
    at: int
    """Byte of its first character."""
    text: str
    """What stands around it in its line."""


class TextSearch:
    """Looks for a word in a text that comes in pieces, and holds little more than one piece.

    Finds it also where two pieces meet. Upper and lower case differ; places do not overlap.
    """

    def __init__(self, word: str, most: int, line: int = 1, at: int = 0) -> None:
        """`line`, `at`: number and byte with which the first piece begins."""
        self.found: list[Occurrence] = []
        self._word = word
        self._most = most
        self._held = ""
        self._next = 0
        """Where in what is held the search goes on."""
        self._line = line
        self._at = at

    @property
    def is_full(self) -> bool:
        """As many places as wanted were found."""
        return len(self.found) >= self._most

    def feed(self, text: str, *, last: bool = False) -> None:
        """Takes the next piece; `last` says that no other comes."""
        self._held += text
        ready = len(self._held) if last else len(self._held) - len(self._word) - AROUND
        while not self.is_full:
            at = self._held.find(self._word, self._next)
            if at == -1 or at > ready:
                break
            self.found.append(self._place(at))
            self._next = at + len(self._word)
        self._next = max(self._next, ready, 0)
        self._drop(max(0, min(self._next, len(self._held)) - AROUND))

    def _place(self, at: int) -> Occurrence:
        held, end = self._held, at + len(self._word)
        line_begins = held.rfind("\n", 0, at) + 1
        line_ends = held.find("\n", end)
        begin, stop = max(line_begins, at - AROUND), min(end + AROUND, len(held) if line_ends == -1 else line_ends)
        before = held[:at]
        return Occurrence(self._line + before.count("\n"), self._at + len(encoded(before)), held[begin:stop])

    def _drop(self, count: int) -> None:
        gone, self._held = self._held[:count], self._held[count:]
        self._line += gone.count("\n")
        self._at += len(encoded(gone))
        self._next -= count
