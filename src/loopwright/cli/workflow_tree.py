"""A workflow as a tree of lines on a terminal.

Owns: what stands on a line, what is left out where there is no room. Must not know: stores, commands.
Read next: `../workflow/picture_words.py`, `workflow_screen.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from ..workflow import RunMarks
from ..workflow.picture import PictureNode, clean, span_text
from ..workflow.picture_marks import Mark
from ..workflow.picture_words import SIGNS, progress, taken_s

STYLES: Final = {
    "pending": "dim",
    "running": "cyan",
    "waiting": "magenta",
    "completed": "green",
    "failed": "red",
    "skipped": "dim",
    "cancelled": "yellow",
}

_PLAIN: Final = {
    "○": ".", "●": "*", "◐": "?", "✓": "+", "✗": "x", "–": "-", "◌": "~", "·": "-", "…": "...",
    "├─ ": "|- ", "└─ ": "`- ", "│  ": "|  ", "≠": "!=", "≥": ">=", "≤": "<=",
}  # fmt: skip

QUICK_S: Final = 0.05
"""What took less is not said to have taken any time."""
NARROW: Final = 60
"""Columns below which only what changes is shown."""
ROOMY: Final = 100
"""Columns from which sessions are named, too."""


class Branch(Struct):
    """A line of the tree, and those below it."""

    node: PictureNode
    mark: Mark
    before: str
    """Why it runs: the case of a branch."""
    below: list[Branch]

    @property
    def open(self) -> bool:
        """True when something happens here or below."""
        return self.mark.status in ("running", "waiting") or any(one.open for one in self.below)


def tree_lines(marks: RunMarks, *, width: int, room: int | None = None, now: float | None = None) -> list[Text]:
    """A line for each node, at most `width` columns wide. `room`: lines there are; what is over or far off is folded.

    `now`: UTC epoch seconds, for what goes on.
    """
    top = _branches(marks, marks.picture, "")
    if room is not None and _count(top) > room:
        _fold(top, room)
    lines = [_line(guide, one, width, now) for guide, one in _walked(top, "")]
    if room is not None and len(lines) > room:
        lines = _around_what_goes_on(lines, room)
    return lines


def _branches(marks: RunMarks, node: PictureNode, before: str) -> list[Branch]:
    """The lines for a node; a sequence has none of its own, except where others stand beside it."""
    if node.shape == "sequence" and not before and not node.plan.id:
        return [line for child in node.children for line in _branches(marks, child, "")]
    below: list[Branch] = []
    for place, child in enumerate(node.children):
        words = node.labels[place] if node.labels else "and" if node.shape == "parallel" else ""
        below += _branches(marks, child, words)
    if node.judge is not None:
        below += _branches(marks, node.judge, "")
    if node.fallback is not None:
        below += _branches(marks, node.fallback, "if it fails")
    return [Branch(node, marks.mark(node), "" if before == "and" else before, below)]


def _count(lines: Sequence[Branch]) -> int:
    return sum([1 + _count(one.below) for one in lines])


def _fold(lines: list[Branch], room: int) -> None:
    """Takes away what is below lines where nothing happens, the most first, until all fit."""
    closed = sorted([one for one in _all(lines) if one.below and not one.open], key=lambda one: -_count(one.below))
    for one in closed:
        one.below.clear()
        if _count(lines) <= room:
            return


def _all(lines: Sequence[Branch]) -> Iterator[Branch]:
    for one in lines:
        yield one
        yield from _all(one.below)


def _around_what_goes_on(lines: list[Text], room: int) -> list[Text]:
    """As many lines as there is room for, those with something under way among them."""
    busy = [place for place, line in enumerate(lines) if line.plain.lstrip("│├└─ ")[:1] in ("●", "◐")]
    first = min(max((busy[-1] if busy else len(lines)) - room + 3, 0), len(lines) - room + 1)
    kept = lines[first : first + room - 1]
    left = len(lines) - len(kept)
    return [*kept, Text(f"   … {left} more lines", style="dim")]


def _walked(lines: Sequence[Branch], guide: str) -> Iterator[tuple[str, Branch]]:
    for place, one in enumerate(lines):
        last = place == len(lines) - 1
        yield guide + ("└─ " if last else "├─ "), one
        yield from _walked(one.below, guide + ("   " if last else "│  "))


def _line(guide: str, one: Branch, width: int, now: float | None) -> Text:
    node, mark = one.node, one.mark
    style = STYLES[mark.status]
    line = Text(no_wrap=True).append(guide, style="dim").append(f"{SIGNS[mark.status]} ", style=style)
    if one.before:
        line.append(f"{one.before}: ", style="italic")
    line.append(node.title, style="dim" if mark.status in ("pending", "skipped") else "bold")
    for words, look in _words(node, mark, width, now):
        line.append(" · ", style="dim").append(words, style=look)
    line.truncate(width, overflow="ellipsis")
    return line


def _words(node: PictureNode, mark: Mark, width: int, now: float | None) -> Iterator[tuple[str, str]]:
    plain = ""
    if far := progress(mark):
        yield far, plain
    if mark.attempt > 1 and mark.times < 2:
        yield f"attempt {mark.attempt}", "yellow"
    seconds = taken_s(mark, now)
    if seconds is not None and (mark.times < 2 and seconds >= QUICK_S):
        yield span_text(seconds), plain
    if mark.status == "failed" and mark.text:
        yield clean(mark.text, 120), "red"
    if width < NARROW and mark.status != "pending":
        return
    kind = node.shape if not node.is_leaf and node.title != node.shape else ""
    does = f"asks: {mark.asked}" if mark.asked else node.detail
    if detail := " ".join([part for part in (kind, does) if part]):
        yield detail, "dim"
    if mark.text and mark.status != "failed" and node.is_leaf:
        yield clean(mark.text, 120), plain
    worker = mark.text_child_id if mark.text else mark.child_id
    if worker is not None and width >= ROOMY:
        yield worker, "dim"


def without_signs(text: str, encoding: str | None) -> str:
    """`text` for an output with this encoding: signs and lines become plain ones, else a question mark stands there.

    None: it takes any text.
    """
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        return text.encode(encoding, "replace").decode(encoding)
    return text
