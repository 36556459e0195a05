"""The table of `loopwright sessions show --journal`.

Owns: which columns fit a width. Must not know: stores, what a record says.
Read next: `journal_lines.py`, `session_commands.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..ports.store import StoredRecord
from .journal_lines import record_of, record_text

GAP: Final = 2
MOST_TEXT: Final = 160
"""Columns of what a record says where nobody sees it on a terminal."""
NARROWEST_TEXT: Final = 16
"""Columns that it is shrunk to before the times are left out."""
MOST_WHOLE: Final = 100_000

_HEADINGS: Final = ("pos", "at", "record", "what")


def print_journal(console: Console, rows: Sequence[StoredRecord], *, whole: bool) -> None:
    """Prints the records, in a pipe each on one line."""
    for line in table_lines(rows, console.width if console.is_terminal else None, whole=whole):
        line.rstrip()
        console.print(line, soft_wrap=True)


def table_lines(rows: Sequence[StoredRecord], width: int | None, *, whole: bool) -> list[Text]:
    """Lines at most `width` wide, unless positions and kinds alone are wider: these are never cut.

    `whole`: what a record says goes on below itself, instead of being cut. Without a width it is never wrapped.
    """
    facts = [(str(row.position), time.strftime("%H:%M:%S", time.localtime(row.at)), row.kind) for row in rows]
    widths = [max([cell_len(fact[place]) for fact in (_HEADINGS, *facts)]) for place in range(3)]
    room = None if width is None else width - sum(widths) - 3 * GAP
    if room is not None and room < NARROWEST_TEXT:
        room += widths[1] + GAP
        widths[1] = 0
    if room is not None:
        room = max(room, 1)
    lines = [_begun(_HEADINGS[:3], widths).append(_HEADINGS[3])]
    lines[0].stylize("dim")
    for row, fact in zip(rows, facts, strict=True):
        begun = _begun(fact, widths, "cyan")
        most = MOST_WHOLE if whole else MOST_TEXT if room is None else room
        said = Text(record_text(record_of(row), most))
        pieces = [said] if room is None else _wrapped(said, room)
        lines.append(begun.append_text(pieces[0]))
        lines += [Text(" " * (sum(widths) + GAP * (3 if widths[1] else 2))) + piece for piece in pieces[1:]]
    return lines


def _wrapped(said: Text, room: int) -> list[Text]:
    return list(said.wrap(Console(width=room), room)) or [said]


def _begun(fact: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    """Position, time and kind of a record, with what stands between them and its text."""
    line = Text(fact[0].rjust(widths[0]) + " " * GAP)
    if widths[1]:
        line.append(fact[1].ljust(widths[1]) + " " * GAP)
    line.append(fact[2].ljust(widths[2]), style)
    return line.append(" " * GAP)
