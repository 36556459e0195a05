"""In which line of a JSON text a value stands.

Owns: `line_of`. Must not know: what the text means.
Read next: `mcp_file.py`.
"""

from __future__ import annotations

import json
import re
from typing import Final

_SKIP: Final = re.compile(r"[\s,:]*")
_SCALAR: Final = re.compile(r"[^\s,\]}]+")


def line_of(text: str, place: tuple[str | int, ...]) -> int:
    """The line, from 1, of the value at `place` in a valid JSON text; that of the nearest value around it where it is missing.

    A key that occurs twice means its last occurrence, as in the value that `json` makes.
    """
    at = _JsonWalk(text).at(_skipped(text, 0), place)
    return text.count("\n", 0, at) + 1


class _JsonWalk:
    """Walks one text; every method answers where the value that begins at `start` ends, or where a part of it begins."""

    def __init__(self, text: str) -> None:
        self._text = text

    def at(self, start: int, place: tuple[str | int, ...]) -> int:
        """Where the value at `place` begins, as far as there is one."""
        for step in place:
            found = dict(self.members(start)).get(step)
            if found is None:
                return start
            start = found
        return start

    def members(self, start: int) -> list[tuple[str | int, int]]:
        """Key or index of every member, and where its value begins."""
        text = self._text
        found: list[tuple[str | int, int]] = []
        if text[start : start + 1] not in ("{", "["):
            return found
        is_object = text[start] == "{"
        here = _skipped(text, start + 1)
        while here < len(text) and text[here] not in "]}":
            key: str | int = len(found)
            if is_object:
                end = self.end(here)
                key = json.loads(text[here:end])
                here = _skipped(text, end)
            found.append((key, here))
            here = _skipped(text, self.end(here))
        return found

    def end(self, start: int) -> int:
        """Where the value ends."""
        text = self._text
        opening = text[start]
        if opening == '"':
            here = start + 1
            while text[here] != '"':
                here += 2 if text[here] == "\\" else 1
            return here + 1
        if opening not in "{[":
            scalar = _SCALAR.match(text, start)
            return start + 1 if scalar is None else scalar.end()
        depth, here = 0, start
        while True:
            if text[here] == '"':
                here = self.end(here)
                continue
            depth += (text[here] in "{[") - (text[here] in "}]")
            here += 1
            if depth == 0:
                return here


def _skipped(text: str, start: int) -> int:
    found = _SKIP.match(text, start)
    return start if found is None else found.end()
