"""A workflow as a Mermaid flowchart.

Owns: `mermaid`. Whatever a spec or an agent wrote is text in it and can be nothing else.
Must not know: what happened in a run beyond its marks.
Source: mermaid.js.org/syntax/flowchart.html, version 11. Read next: `picture_marks.py`.
"""

from __future__ import annotations

from typing import Final

from .picture import PictureNode, clean
from .picture_marks import Mark, RunMarks, SpecLike, States, marks_of
from .picture_words import said

_PLAIN: Final = frozenset(" .,_-=/+()ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789✓✗●◌◐○–…≠≥≤·")

_SHAPES: Final = {
    "agent": ('["', '"]'),
    "tool": ('[["', '"]]'),
    "approve": ('[/"', '"/]'),
    "wait": ('(["', '"])'),
    "workflow": ('["', '"]'),
    "judge": ('{{"', '"}}'),
}

_CLASSES: Final = {
    "pending": "fill:#f6f8fa,stroke:#8c959f,color:#424a53",
    "running": "fill:#ddf4ff,stroke:#0969da,color:#0a3069,stroke-width:2px",
    "waiting": "fill:#fff8c5,stroke:#9a6700,color:#633c01,stroke-width:2px",
    "completed": "fill:#dafbe1,stroke:#1a7f37,color:#044f1e",
    "failed": "fill:#ffebe9,stroke:#cf222e,color:#82071e,stroke-width:2px",
    "skipped": "fill:#f6f8fa,stroke:#8c959f,color:#6e7781,stroke-dasharray:4 3",
    "cancelled": "fill:#eaeef2,stroke:#57606a,color:#424a53,stroke-dasharray:4 3",
}


def mermaid(spec: SpecLike, states: States = None) -> str:
    """A flowchart of a workflow; with `states` each node has the class of its status.

    Containers are subgraphs, and arrows go between neighbours only, so that its length grows with the nodes and no faster.
    Raises: `WorkflowSpecError`.
    """
    marks = marks_of(spec, states)
    chart = _Chart(marks)
    chart.node(marks.picture, 1)
    lines = ["flowchart TB", *chart.lines, *chart.arrows]
    for status, look in _CLASSES.items():
        if names := [name for name, its in chart.classes if its == status]:
            lines.append(f"    classDef {status} {look}")
            lines.append(f"    class {','.join(names)} {status}")
    return "\n".join(lines) + "\n"


class _Chart:
    def __init__(self, marks: RunMarks) -> None:
        self.lines: list[str] = []
        self.arrows: list[str] = []
        self.classes: list[tuple[str, str]] = []
        self._marks = marks
        self._count = 0

    def node(self, node: PictureNode, depth: int) -> tuple[str, list[str]]:
        """Draws a node; (where arrows to it end, where those from it begin)."""
        if node.shape == "sequence":
            return self._sequence(node, depth)
        name, mark = self._name(), self._marks.mark(node)
        self.classes.append((name, mark.status))
        if node.children:
            self._frame(node, mark, name, depth)
        else:
            left, right = _SHAPES[node.shape]
            self._line(depth, f"{name}{left}{_label(node, mark)}{right}")
        ends = [name]
        if node.fallback is not None:
            first, last = self.node(node.fallback, depth)
            self._arrow(name, first, "if it fails", dotted=True)
            ends += last
        return name, ends

    def _sequence(self, node: PictureNode, depth: int) -> tuple[str, list[str]]:
        begin, ends = "", list[str]()
        for child in node.children:
            first, last = self.node(child, depth)
            for end in ends:
                self._arrow(end, first)
            begin, ends = begin or first, last
        return begin, ends

    def _frame(self, node: PictureNode, mark: Mark, name: str, depth: int) -> None:
        self._line(depth, f'subgraph {name} ["{_label(node, mark)}"]')
        self._line(depth + 1, "direction TB")
        fork = ""
        if node.shape == "branch":
            fork = self._name()
            self._line(depth + 1, f'{fork}{{"{_text(node.detail, 60)}"}}')
            self.classes.append((fork, mark.status))
        lasts: list[str] = []
        for place, child in enumerate(node.children):
            first, lasts = self.node(child, depth + 1)
            if fork:
                self._arrow(fork, first, node.labels[place])
        if node.judge is not None:
            judge, _ = self.node(node.judge, depth + 1)
            for last in lasts:
                self._arrow(last, judge)
        self._line(depth, "end")

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _arrow(self, begin: str, end: str, label: str = "", *, dotted: bool = False) -> None:
        line = "-.->" if dotted else "-->"
        shown = f'|"{_text(label, 40)}"|' if label else ""
        self.arrows.append(f"    {begin} {line}{shown} {end}")


def _label(node: PictureNode, mark: Mark) -> str:
    lines = [_text(node.title, 64)]
    if node.title != node.shape and not node.is_leaf:
        lines[0] = f"{node.shape} {lines[0]}"
    if node.detail and node.shape != "branch":
        lines.append(_text(node.detail, 60))
    if words := said(mark):
        lines.append(_text(words, 60))
    return "<br/>".join(lines)


def _text(text: str, most: int) -> str:
    """Text in a label: what could mean something is written as the number of its character."""
    return "".join([c if c in _PLAIN or ord(c) > 0x2FF else f"#{ord(c)};" for c in clean(text, most)]) or "#32;"
