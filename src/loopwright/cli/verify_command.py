"""`loopwright verify`.

Owns: showing what the links of a session say. Must not know: how they are judged (`core/chain.py`).
Read next: `engine/verifying.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ..core.chain import ChainReport
from ..engine.verifying import verify as verify_session
from ..model.errors import ConfigError
from ..ports.store_admin import SessionStore
from .exit_codes import ExitCode
from .journal_lines import counted, printable
from .live_screen import print_lines, terminal_console
from .options import AsJson, Db
from .session_commands import SessionId, with_store
from .session_drive import write_json
from .session_ids import resolved
from .store_place import DEFAULT_DB


def verify(
    session_id: SessionId,
    expected: Annotated[
        str | None,
        typer.Option("--expected", metavar="HEX", help="The digest that an earlier verify said, kept elsewhere."),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", help="A file whose bytes are the key of the links."),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Check the links of a session: was a record changed, removed or put in?

    Links are made by programs that set `hash_chain`. The exit code is 1 when something does not fit.
    """
    key = None if key_file is None else _key(key_file)

    async def work(store: SessionStore) -> ChainReport:
        return await verify_session(store, await resolved(store, session_id), key=key, expected=expected)

    report = with_store(db, work)
    if as_json:
        write_json({"intact": report.intact, **msgspec.to_builtins(report)})
    else:
        _show(report)
    raise typer.Exit(ExitCode.COMPLETED if report.intact else ExitCode.FAILED)


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _show(report: ChainReport) -> None:
    """The problems as a table, then what holds, on standard output."""
    console = terminal_console(sys.stdout)
    if report.problems:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("pos", justify="right")
        table.add_column("problem", no_wrap=True, style="bold red")
        table.add_column("what", overflow="fold")
        for one in report.problems:
            table.add_row(str(one.position), one.why.replace("_", " "), Text(printable(one.detail)))
        print_lines(console, table)
    verdict = "intact" if report.intact else counted(len(report.problems), "problem")
    figures = f"{report.linked:,} of {counted(report.records, 'record')} linked"
    print_lines(
        console, Text(f"{report.session_id}: {verdict}, {figures}", style="green" if report.intact else "bold red")
    )
    for first, last in report.unlinked:
        print_lines(console, Text(f"not linked: {first} to {last}", style="dim"))
    if report.expected_position is not None:
        print_lines(console, Text(f"the expected digest is that of {report.expected_position}", style="dim"))
    if report.digest is not None:
        print_lines(console, Text(f"digest {report.digest} at {report.digest_position}", style="dim"))
