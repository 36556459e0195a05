"""`loopwright doctor`.

Owns: showing what was found. Must not know: what is looked at (`checkup.py`).
Read next: `checkup.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from .agent_setup import AgentSettings
from .checkup import CheckLine, Grade, examine_all, workable
from .exit_codes import ExitCode
from .journal_lines import counted, printable
from .live_screen import print_lines, terminal_console
from .options import AsJson, BaseUrl, Db, Model
from .session_drive import write_json
from .store_place import DEFAULT_DB

_MARKS: Final[dict[Grade, tuple[str, str, str]]] = {
    "good": ("✓", "ok", "green"),
    "note": ("!", "!", "yellow"),
    "problem": ("✗", "x", "bold red"),
}


def doctor(db: Db = DEFAULT_DB, model: Model = None, base_url: BaseUrl = None, as_json: AsJson = False) -> None:
    """Check the store, its sessions and the model settings.

    Each finding says what to do. Nothing is changed and no model is called. The exit code is 1 when something is wrong.
    """
    settings = AgentSettings(db=db, model=model, base_url=base_url)
    lines = asyncio.run(examine_all(db, settings, os.environ))
    good = workable(lines)
    if as_json:
        write_json({"ok": good, "findings": msgspec.to_builtins(lines)})
    else:
        show_lines(lines)
    raise typer.Exit(ExitCode.COMPLETED if good else ExitCode.FAILED)


def show_lines(lines: list[CheckLine]) -> None:
    """The findings as a table on standard output."""
    console = terminal_console(sys.stdout)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    plain = "utf" not in (console.encoding or "").lower()
    area = ""
    for line in lines:
        mark, ascii_mark, style = _MARKS[line.grade]
        words = Text(printable(line.what).strip())
        if line.todo:
            words.append(f"\n{'->' if plain else '→'} {printable(line.todo)}", style="dim")
        shown = "" if line.area == area else line.area
        table.add_row(Text(shown, style="bold"), Text(ascii_mark if plain else mark, style=style), words)
        area = line.area
    print_lines(console, table)
    count = sum(1 for line in lines if line.grade == "problem")
    notes = sum(1 for line in lines if line.grade == "note")
    verdict = (counted(count, "problem") if count else "no problems") + (f", {counted(notes, 'note')}" if notes else "")
    print_lines(console, Text(verdict, style="bold red" if count else "green"))
