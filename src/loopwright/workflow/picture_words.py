"""What a picture says of a mark: a sign, how far it is, how long it took.

Owns: these words and signs, the same in every format. Must not know: any format.
Read next: `picture_marks.py`.
"""

from __future__ import annotations

from typing import Final

from .picture import span_text
from .picture_marks import Mark, MarkStatus

SIGNS: Final[dict[MarkStatus, str]] = {
    "pending": "○",
    "running": "●",
    "waiting": "◐",
    "completed": "✓",
    "failed": "✗",
    "skipped": "–",
    "cancelled": "◌",
}


def taken_s(mark: Mark, now: float | None = None) -> float | None:
    """Seconds that it took, until `now` (UTC epoch seconds) where it goes on; None when nobody knows."""
    end = mark.finished_at if mark.status not in ("running", "waiting") else now
    return None if end is None or mark.started_at is None else max(end - mark.started_at, 0.0)


def progress(mark: Mark) -> str:
    """How far it is: `12/40`, `3 of at most 5`, `8 ✓ 1 ✗ 2 ●`; "" where there is nothing to count."""
    if mark.iteration:
        return f"round {mark.iteration} of {mark.total}"
    if mark.total is not None or mark.done:
        return f"{mark.done:,}/{'?' if mark.total is None else f'{mark.total:,}'}" if mark.status != "pending" else ""
    if mark.times > 1:
        return " ".join([f"{count:,} {SIGNS[status]}" for status, count in mark.counts.items()])
    return ""


def said(mark: Mark, now: float | None = None) -> str:
    """One line on what came of a node; "" for one that has not begun."""
    if mark.status == "pending":
        return ""
    words = [f"{SIGNS[mark.status]} {mark.status}"]
    if far := progress(mark):
        words.append(far)
    if mark.attempt > 1:
        words.append(f"attempt {mark.attempt}")
    if (seconds := taken_s(mark, now)) is not None and mark.times < 2:
        words.append(span_text(seconds))
    return " · ".join(words)
