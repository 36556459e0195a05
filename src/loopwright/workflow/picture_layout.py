"""Where the boxes of a picture stand.

Owns: `Box`, `laid_out`: sequences from top to bottom, what runs at once side by side in rows, frames around what iterates.
Must not know: colours, formats. All lengths are in pixels of a picture that nobody scaled.
Read next: `picture_svg.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unicodedata import combining, east_asian_width

from msgspec import Struct

from .picture import PictureNode

LEAF: Final = (228.0, 66.0)
GAP: Final = 22.0
ARROW: Final = 30.0
"""Between what comes one after the other."""
ASIDE: Final = 84.0
"""Between a step and what runs when it fails."""
PAD: Final = 16.0
HEAD: Final = 50.0
"""Of a frame, for its name and how far it is."""
LABEL: Final = 34.0
"""Above a case of a branch, for its name."""
TURN: Final = 26.0
"""Right of what is in a loop, for the way back."""
SHEETS: Final = 8.0
"""Right of a foreach and below it, where it looks like a pile of sheets."""
WIDEST: Final = 1100.0
"""Rows are broken before they get wider, where what is in them allows it."""


class Box(Struct):
    """A node with its place; `x` and `y` are of its upper left corner, from that of the picture."""

    node: PictureNode
    w: float
    h: float
    x: float = 0.0
    y: float = 0.0
    inside: list[Box] = []
    judge: Box | None = None
    fallback: Box | None = None
    own: tuple[float, float] = (0.0, 0.0)
    """Width and height without the fallback beside it."""

    def moved(self, x: float, y: float) -> None:
        """Puts the box and everything in it there."""
        dx, dy = x - self.x, y - self.y
        waiting = [self]
        while waiting:
            box = waiting.pop()
            box.x, box.y = box.x + dx, box.y + dy
            waiting += [*box.inside, *[one for one in (box.judge, box.fallback) if one is not None]]

    @property
    def middle(self) -> float:
        """Where arrows to and from it are, from left to right."""
        if self.node.shape == "sequence" and self.inside:
            return self.inside[0].middle
        return self.x + self.own[0] / 2


def laid_out(node: PictureNode) -> Box:
    """The boxes of a node and of everything in it, with the upper left corner at 0, 0."""
    match node.shape:
        case "sequence":
            box = _stacked(node)
        case "parallel" | "branch":
            box = _side_by_side(node)
        case "foreach" | "loop":
            box = _framed(node)
        case _:
            box = _framed(node) if node.children else Box(node, *LEAF)
    box.own = (box.w, box.h)
    if node.shape == "foreach":
        box.w, box.h = box.w + SHEETS, box.h + SHEETS
    if node.fallback is not None:
        other = laid_out(node.fallback)
        other.moved(box.w + ASIDE, 0.0)
        box.fallback, box.w, box.h = other, box.w + ASIDE + other.w, max(box.h, other.h)
    return box


def _stacked(node: PictureNode) -> Box:
    boxes = [laid_out(child) for child in node.children]
    return _pile(node, boxes)


def _pile(node: PictureNode, boxes: list[Box]) -> Box:
    """One below the other, with the middles of all in one line."""
    middle = max([box.middle for box in boxes])
    y = 0.0
    for box in boxes:
        box.moved(middle - box.middle, y)
        y += box.h + ARROW
    return Box(node, max([box.x + box.w for box in boxes]), y - ARROW, inside=boxes)


def _side_by_side(node: PictureNode) -> Box:
    boxes = [laid_out(child) for child in node.children]
    label = LABEL if node.shape == "branch" else 0.0
    rows: list[list[Box]] = [[]]
    widest = max(WIDEST, *[box.w for box in boxes])
    most = widest if len(boxes) <= 4 else max(_even(boxes), *[box.w for box in boxes])
    for box in boxes:
        if rows[-1] and _row_width([*rows[-1], box]) > min(most, widest):
            rows.append([])
        rows[-1].append(box)
    inner = max([_row_width(row) for row in rows])
    width, y = max(inner + 2 * PAD, LEAF[0] + 2 * PAD), HEAD
    for row in rows:
        x = (width - (inner if len(rows) > 1 else _row_width(row))) / 2
        for box in row:
            box.moved(x, y + label)
            x += box.w + GAP
        y += label + max([box.h for box in row]) + GAP
    return Box(node, width, y - GAP + PAD, inside=boxes)


def _even(boxes: Sequence[Box]) -> float:
    """A width at which the rows are about equally long, and about as many as fit on a page."""
    whole = _row_width(boxes)
    rows = max(round(whole / WIDEST + 0.49), 1)
    return whole / rows + max([box.w for box in boxes]) / 2


def _row_width(boxes: Sequence[Box]) -> float:
    return sum([box.w for box in boxes]) + GAP * (len(boxes) - 1)


def _framed(node: PictureNode) -> Box:
    body = laid_out(node.children[0])
    judge = None if node.judge is None else laid_out(node.judge)
    pile = _pile(node, [body] if judge is None else [body, judge])
    turn = TURN if node.shape == "loop" else 0.0
    width = max(pile.w + 2 * PAD + turn, LEAF[0] + 2 * PAD)
    for box in pile.inside:
        box.moved(box.x + (width - turn - pile.w) / 2, box.y + HEAD)
    return Box(node, width, HEAD + pile.h + PAD, inside=[body], judge=judge)


_NARROW: Final = frozenset(" .,:;|'!()[]{}iljtfrI/-·")
_BROAD: Final = frozenset("mwMW@%✓✗●◐…")


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a font without serifs of `size`, a bold one from 13 on; rather more than less."""
    return sum(map(_em, text)) * _scale(size)


def _scale(size: float) -> float:
    return size * 1.1 if size >= 13 else size


def _em(character: str) -> float:
    if character in _NARROW:
        return 0.4
    if combining(character):
        return 0.0
    if character in _BROAD:
        return 1.02
    if east_asian_width(character) in ("W", "F"):
        return 1.05
    return 0.74 if character.isupper() else 0.62


def fitting(text: str, size: float, room: float) -> str:
    """The text, or as much of it as fits with an ellipsis behind it."""
    if text_width(text, size) <= room:
        return text
    used, kept = text_width("…", size), 0
    for character in text:
        used += _em(character) * _scale(size)
        if used > room:
            break
        kept += 1
    return text[:kept].rstrip() + "…"
