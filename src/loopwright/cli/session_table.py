"""The table of `loopwright sessions list`.

Owns: which columns fit a width. Must not know: stores, commands.
Read next: `session_commands.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..model.codec import is_sealed_title
from ..ports.store import Head
from .journal_lines import one_line, tokens_number

GAP: Final = 2
NARROWEST_TITLE: Final = 12
"""Columns the title may be shrunk to before other columns are left out."""
WIDEST_AGENT: Final = 14

_HEADINGS: Final[tuple[str, ...]] = ("session", "state", "agent", "sends", "tokens", "updated", "fork of", "title")
_LEFT_OUT: Final = ("fork of", "tokens", "updated", "sends", "agent", "title")
"""What goes when there is no room, in this order; id and state always stay whole."""
_RIGHT: Final = ("sends", "tokens")
_STATE_STYLES: Final = {"interrupted": "yellow", "waiting": "magenta", "running": "green"}


def state_of(head: Head) -> str:
    """idle, waiting, running, or interrupted: open and nobody alive runs it."""
    return "interrupted" if head.status == "running" and head.expires_in_s <= 0 else head.status


def base_text(head: Head) -> str:
    """Where a fork left its base, as `id@position`; "" for any other session."""
    return "" if head.base is None else f"{head.base.session_id}@{head.base.position}"


def ago(at: float) -> str:
    """How long ago a wall time was."""
    seconds = max(time.time() - at, 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} s ago"


def table_lines(heads: Sequence[Head], width: int) -> list[Text]:
    """A line for each head under a line of headings, at most `width` wide unless ids and states alone are wider."""
    rows = [_HEADINGS, *[_cells(head) for head in heads]]
    widths = {name: max([cell_len(row[place]) for row in rows]) for place, name in enumerate(_HEADINGS)}
    if not any(head.base for head in heads):
        del widths["fork of"]
    for name in [name for name in _LEFT_OUT if name in widths]:
        title = min(widths.get("title", 0), NARROWEST_TITLE)
        if _total({**widths, "title": title} if "title" in widths else widths) <= width:
            break
        del widths[name]
    if "title" in widths:
        widths["title"] = min(widths["title"], width - _total({**widths, "title": 0}))
    return [_line(row, widths, "" if number else "dim") for number, row in enumerate(rows)]


def print_table(console: Console, heads: Sequence[Head]) -> None:
    """Prints the lines; in a pipe nothing is cut or left out, and on a terminal a line that is too long runs over."""
    for line in table_lines(heads, console.width if console.is_terminal else 10_000):
        line.rstrip()
        console.print(line, soft_wrap=True)


def _cells(head: Head) -> tuple[str, ...]:
    agent, figures = one_line(head.agent_name, WIDEST_AGENT), tokens_number(head.usage)
    title = "(encrypted)" if is_sealed_title(head.title) else one_line(head.title, 200)
    return (
        head.session_id,
        state_of(head),
        agent,
        str(head.sends),
        figures,
        ago(head.updated_at),
        base_text(head),
        title,
    )


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _line(row: Sequence[str], widths: dict[str, int], style: str) -> Text:
    line = Text(style=style)
    for name, text in zip(_HEADINGS, row, strict=True):
        if name not in widths:
            continue
        cell = Text(text, style=_STATE_STYLES.get(text, "") if name == "state" else "")
        if name in _RIGHT:
            cell.pad_left(max(widths[name] - cell.cell_len, 0))
        cell.truncate(widths[name], overflow="ellipsis", pad=True)
        line.append_text(cell).append(" " * GAP)
    return line
