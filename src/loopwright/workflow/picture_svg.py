"""A workflow as an SVG picture.

Owns: `svg`, how it looks, in light and in dark surroundings. Whatever a spec or an agent wrote is text in it and can be
nothing else: no scripts, no links, nothing from outside. Must not know: where boxes stand (`picture_layout.py`).
Source: w3.org/TR/SVG2. Read next: `picture_layout.py`.
"""

from __future__ import annotations

from html import escape
from typing import Final

from .picture import PictureNode, clean
from .picture_layout import ARROW, HEAD, LABEL, PAD, SHEETS, Box, fitting, laid_out, text_width
from .picture_marks import Mark, RunMarks, SpecLike, States, marks_of
from .picture_words import progress, said

TITLE: Final = 13.0
SMALL: Final = 11.0
TOP: Final = 64.0
MARGIN: Final = 24.0

_LIGHT: Final = {
    "pending": ("#8c959f", "#ffffff", "#57606a"),
    "running": ("#0969da", "#ddf4ff", "#0550ae"),
    "waiting": ("#bf8700", "#fff8c5", "#7d4e00"),
    "completed": ("#1a7f37", "#dafbe1", "#116329"),
    "failed": ("#cf222e", "#ffebe9", "#a40e26"),
    "skipped": ("#afb8c1", "#f6f8fa", "#6e7781"),
    "cancelled": ("#6e7781", "#eaeef2", "#57606a"),
}
_DARK: Final = {
    "pending": ("#6e7681", "#161b22", "#9198a1"),
    "running": ("#4493f8", "#0c2d6b", "#a5d6ff"),
    "waiting": ("#d29922", "#3a2a00", "#f2cc60"),
    "completed": ("#3fb950", "#0f2d18", "#7ee787"),
    "failed": ("#f85149", "#4c1416", "#ffb3ad"),
    "skipped": ("#484f58", "#161b22", "#8b949e"),
    "cancelled": ("#8b949e", "#21262d", "#b1bac4"),
}


def _colours(table: dict[str, tuple[str, str, str]], back: str, frame: str, text: str, soft: str, line: str) -> str:
    rules = [
        f".back{{fill:{back}}}.frame,.shadow{{fill:{frame}}}.name{{fill:{text}}}.soft{{fill:{soft}}}",
        f".line{{stroke:{line}}}.tip{{fill:{line}}}.pill{{fill:{back};stroke:{line}}}.rail{{fill:{line}}}",
    ]
    for status, (edge, fill, words) in table.items():
        rules.append(f".{status} .edge{{stroke:{edge}}}.{status} .leaf{{fill:{fill}}}")
        rules.append(f".{status} .bar{{fill:{edge}}}.{status} .said{{fill:{words}}}")
    return "".join(rules)


_STYLE: Final = (
    "text{font-family:ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    ".name{font-size:13px;font-weight:600}.soft,.said{font-size:11px}.head{font-size:18px;font-weight:600}"
    ".edge{stroke-width:1.4}.running .edge,.failed .edge,.waiting .edge{stroke-width:2}"
    ".skipped .leaf,.cancelled .leaf{stroke-dasharray:5 4}.frame{fill-opacity:.55}.line{fill:none;stroke-width:1.5}"
    ".dotted{stroke-dasharray:4 4}"
    + _colours(_LIGHT, "#ffffff", "#f6f8fa", "#1f2328", "#57606a", "#8c959f")
    + "@media (prefers-color-scheme:dark){"
    + _colours(_DARK, "#0d1117", "#161b22", "#e6edf3", "#9198a1", "#6e7681")
    + "}"
)


def svg(spec: SpecLike, states: States = None, *, now: float | None = None) -> str:
    """A picture of a workflow; with `states` each box has the colour of its status, and says how far it is.

    It is one file that needs nothing else, and follows the colours of its surroundings, light or dark. `now`: UTC epoch
    seconds, for how long steps under way have taken; without it that is left out. Raises: `WorkflowSpecError`.
    """
    marks = marks_of(spec, states)
    whole = laid_out(marks.picture)
    title = fitting(clean(marks.spec.name), 18, 900)
    width = max(whole.w, text_width(title, 18), 300) + 2 * MARGIN
    whole.moved((width - whole.w) / 2, TOP)
    height = TOP + whole.h + MARGIN
    drawing = _Drawing(marks, now)
    drawing.box(whole)
    under = fitting(_under(marks, now), SMALL, width - 2 * MARGIN)
    name = escape(clean(marks.spec.name))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="workflow {name}">'
        ),
        f"<title>workflow {name}</title>",
        f"<style>{_STYLE}</style>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="tip" d="M0 0.5 8 4 0 7.5z"/></marker></defs>'
        ),
        f'<rect class="back" width="{width:.0f}" height="{height:.0f}" rx="12"/>',
        f'<text class="name head" x="{MARGIN}" y="32">{escape(title)}</text>',
        f'<g class="{_status(marks, whole.node)}"><text class="said" x="{MARGIN}" y="50">{escape(under)}</text></g>',
        *drawing.parts,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _status(marks: RunMarks, root: PictureNode) -> str:
    """The class of the run as a whole."""
    ended = marks.status
    if ended in _LIGHT:
        return ended
    return (
        marks.mark(root).status if ended in (None, "idle") else "waiting" if ended == "waiting_for_input" else "failed"
    )


def _under(marks: RunMarks, now: float | None) -> str:
    described = clean(marks.spec.description)
    if marks.status is None:
        return described
    mark = Mark(status="completed", started_at=marks.started_at, finished_at=marks.finished_at)
    words = said(mark, now).partition(" · ")[2]
    return " · ".join([part for part in (marks.status.replace("_", " "), words, described) if part])


class _Drawing:
    def __init__(self, marks: RunMarks, now: float | None) -> None:
        self.parts: list[str] = []
        self._marks = marks
        self._now = now
        self._nothing = "" if marks.status is None else "not begun"

    def box(self, box: Box) -> None:
        """Draws a box with everything in it."""
        if box.node.shape == "sequence":
            for before, after in zip(box.inside, box.inside[1:], strict=False):
                self._down(before, after)
            for one in box.inside:
                self.box(one)
            return
        mark = self._marks.mark(box.node)
        self.parts.append(f'<g class="{mark.status}">')
        self.parts.append(f"<title>{escape(_hover(box.node, mark))}</title>")
        if box.inside:
            self._frame(box, mark)
        else:
            self._leaf(box, mark)
        self.parts.append("</g>")
        for one in box.inside:
            self.box(one)
        if box.judge is not None:
            self._down(box.inside[0], box.judge)
            self.box(box.judge)
        if box.fallback is not None:
            self._fallback(box, box.fallback)

    def _leaf(self, box: Box, mark: Mark) -> None:
        w, h = box.own
        self._rect("leaf edge", box.x, box.y, w, h, 9)
        self.parts.append(
            f'<path class="bar" d="M{box.x + 9:.1f} {box.y:.1f}h-0a9 9 0 0 0 -9 9v{h - 18:.1f}a9 9 0 0 0 9 9z"/>'
        )
        room, x = w - 30, box.x + 19
        self._text("name", x, box.y + 20, box.node.title, TITLE, room)
        detail = box.node.detail or box.node.shape
        self._text("soft", x, box.y + 37, detail, SMALL, room)
        words = said(mark, self._now)
        if mark.text and mark.status == "failed":
            words += f": {mark.text}"
        self._text("said", x, box.y + 54, words or self._nothing, SMALL, room)

    def _frame(self, box: Box, mark: Mark) -> None:
        w, h = box.own
        if box.node.shape == "foreach":  # a pile of sheets: the body is there more than once
            self._rect("shadow edge", box.x + 8, box.y + 8, w, h, 12)
            self._rect("shadow edge", box.x + 4, box.y + 4, w, h, 12)
            self._rect("shadow edge", box.x, box.y, w, h, 12)
        else:
            self._rect("frame edge", box.x, box.y, w, h, 12)
        node, far = box.node, progress(mark)
        name = node.title if node.title == node.shape else f"{node.shape} {node.title}"
        taken = text_width(far, TITLE) + 10 if far else 0.0
        self._text("name", box.x + PAD, box.y + 20, name, TITLE, w - 2 * PAD - taken)
        if far:
            self._text("name", box.x + w - PAD, box.y + 20, far, TITLE, w / 2, anchor="end")
        under = " · ".join([part for part in (node.detail, mark.text if mark.status == "failed" else "") if part])
        self._text("soft", box.x + PAD, box.y + 36, under, SMALL, w - 2 * PAD)
        if node.shape == "foreach" and mark.total:
            share = min(mark.done / mark.total, 1.0) * (w - 2 * PAD)
            self._rect("rail", box.x + PAD, box.y + HEAD - 8, w - 2 * PAD, 3, 1.5, opacity=0.35)
            self._rect("bar", box.x + PAD, box.y + HEAD - 8, share, 3, 1.5)
        if node.shape == "loop":
            self._turn(box)
        if node.shape == "branch":
            for one, label in zip(box.inside, node.labels, strict=True):
                self._case(one, label)

    def _turn(self, box: Box) -> None:
        """The way back to the beginning of a loop."""
        top, last = box.inside[0], box.judge or box.inside[0]
        right = box.x + box.own[0] - PAD
        y_begin, y_end = last.y + last.h - 20, top.y + 20
        begin, end = last.x + last.own[0], top.x + top.own[0]
        begin, end = [x + _sheets(box) for x, box in ((begin, last), (end, top))]
        d = f"M{begin:.1f} {y_begin:.1f}H{right - 6:.1f}q6 0 6 -6V{y_end + 6:.1f}q0 -6 -6 -6H{end + 2:.1f}"
        self.parts.append(f'<path class="line" d="{d}" marker-end="url(#tip)"/>')

    def _case(self, box: Box, label: str) -> None:
        shown = fitting(label, SMALL, max(box.own[0] - 24, 60))
        w = text_width(shown, SMALL) + 18
        middle, y = box.middle, box.y - LABEL + 2
        self._rect("pill", middle - w / 2, y, w, 19, 9.5)
        self._text("soft", middle, y + 13.5, shown, SMALL, w, anchor="middle")
        self._line(f"M{middle:.1f} {y + 19:.1f}V{box.y:.1f}")

    def _fallback(self, box: Box, other: Box) -> None:
        x, y = box.x + box.own[0], box.y + 33
        self._line(f"M{x:.1f} {y:.1f}H{other.x:.1f}", dotted=True)
        self._text("soft", (x + other.x) / 2 - 2, y - 6, "if it fails", SMALL, 80, anchor="middle")
        self.box(other)

    def _down(self, before: Box, after: Box) -> None:
        if (x := before.middle) == after.middle or abs(x - after.middle) < 1:
            self._line(f"M{x:.1f} {before.y + _height(before):.1f}V{after.y:.1f}")
            return
        y = after.y - ARROW / 2
        self._line(f"M{x:.1f} {before.y + _height(before):.1f}V{y:.1f}H{after.middle:.1f}V{after.y:.1f}")

    def _line(self, d: str, *, dotted: bool = False) -> None:
        self.parts.append(f'<path class="line{" dotted" if dotted else ""}" d="{d}" marker-end="url(#tip)"/>')

    def _rect(self, look: str, x: float, y: float, w: float, h: float, r: float, *, opacity: float = 1.0) -> None:
        faint = "" if opacity == 1.0 else f' opacity="{opacity}"'
        self.parts.append(
            f'<rect class="{look}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{r}"{faint}/>'
        )

    def _text(
        self, look: str, x: float, y: float, text: str, size: float, room: float, *, anchor: str = "start"
    ) -> None:
        if text:
            aligned = "" if anchor == "start" else f' text-anchor="{anchor}"'
            shown = escape(fitting(text, size, room))
            self.parts.append(f'<text class="{look}" x="{x:.1f}" y="{y:.1f}"{aligned}>{shown}</text>')


def _height(box: Box) -> float:
    """Down to where an arrow from the box begins."""
    if box.node.shape == "sequence":
        return box.inside[-1].y + _height(box.inside[-1]) - box.y
    return box.own[1] + _sheets(box)


def _sheets(box: Box) -> float:
    return SHEETS if box.node.shape == "foreach" else 0.0


def _hover(node: PictureNode, mark: Mark) -> str:
    lines = [node.title, node.detail, said(mark), mark.text, mark.child_id or ""]
    return " | ".join([clean(line) for line in lines if line])
