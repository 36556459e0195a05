"""The lines of `loopwright inbox list`.

Owns: short ids, which columns fit a width. Must not know: stores, commands.
Read next: `inbox_command.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from ..engine.question_list import OpenQuestion
from .journal_lines import one_line
from .session_table import ago
from .text_columns import columns, cut_to

GAP: Final = 2
SHORT: Final = 12
NARROWEST: Final = 24
"""Columns for the question itself; other columns are left out before it gets fewer."""

_HEADINGS: Final = ("question", "asked", "kind", "agent", "session", "what")
_LEFT_OUT: Final = ("session", "agent", "kind", "asked")
"""What goes when there is no room, in this order."""
_WIDEST_AGENT: Final = 24


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Each id with its shortest beginning, of at least 12 characters, that no other one has."""
    short: dict[str, str] = {}
    for one in ids:
        size = SHORT
        while size < len(one) and any(other != one and other.startswith(one[:size]) for other in ids):
            size += 1
        short[one] = one[:size]
    return short


def print_questions(console: Console, questions: Sequence[OpenQuestion], short: Mapping[str, str]) -> None:
    """Prints a line for each; in a pipe nothing is cut, left out or shortened."""
    whole = not console.is_terminal
    rows = [_HEADINGS, *[_cells(one, one.question.id if whole else short[one.question.id], whole) for one in questions]]
    widths = {name: max([columns(row[place]) for row in rows]) for place, name in enumerate(_HEADINGS)}
    room = 1_000_000 if whole else console.width
    for name in _LEFT_OUT:
        if sum(widths.values()) - widths["what"] + NARROWEST + GAP * (len(widths) - 1) <= room:
            break
        del widths[name]
    widths["what"] = max(room - sum(widths.values()) + widths["what"] - GAP * (len(widths) - 1), 8)
    for number, row in enumerate(rows):
        cells = [
            cut_to(text, widths[name]) if name == "what" else text + " " * (widths[name] - columns(text) + GAP)
            for name, text in zip(_HEADINGS, row, strict=True)
            if name in widths
        ]
        console.print(Text("".join(cells).rstrip(), style="" if number else "dim"), soft_wrap=True)


def _cells(one: OpenQuestion, shown_id: str, whole: bool) -> tuple[str, ...]:
    agents = one_line(" → ".join(one.agents), 1_000 if whole else _WIDEST_AGENT)
    asked = "?" if one.asked_at is None else ago(one.asked_at)
    return shown_id, asked, one_line(one.question.kind, 12), agents, one.session_id, one_line(_what(one), 500)


def _what(one: OpenQuestion) -> str:
    return (
        f"{one.question.tool_name}: {one.question.prompt}" if one.question.kind == "approval" else one.question.prompt
    )
