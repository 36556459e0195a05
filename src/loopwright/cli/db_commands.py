"""`loopwright db`: ddl, check, stats, vacuum, checkpoint, backup, migrate; and the group of which `db_transfer.py` and
`db_prune.py` have the other commands.

Owns: what an operator asks of a store as a whole. Must not know: SQL, how any store does it.
Read next: `db_transfer.py`, `db_prune.py`, `ports/store_upkeep.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ..engine.diagnosis import EVERY_SESSION
from ..late import Late
from ..model.errors import ConfigError, StoreSchemaError
from ..ports.store import Head, SessionQuery
from ..ports.store_admin import SchemaPolicy, SessionStore, StoreProblem
from ..ports.store_upkeep import Reclaimed, StoreFigures
from ..stores.dsn import is_server, open_store
from .agent_setup import AgentSettings
from .db_prune import prune
from .db_transfer import export_file, import_file
from .exit_codes import ExitCode, words_of
from .journal_lines import counted, printable
from .live_screen import print_lines, terminal_console
from .options import AsJson, Db
from .plain_command import PlainCommand
from .quantities import size_text
from .session_commands import with_store
from .session_drive import write_json
from .session_table import state_of
from .store_place import DEFAULT_DB, check_there, file_of, opened_store, shown, store_at

if TYPE_CHECKING:
    from ..stores import sqlite_migrations
else:
    sqlite_migrations = Late("loopwright.stores.sqlite_migrations")

UNREFERENCED_FOR_S: Final = 3600.0
"""An artifact is stored before the record that refers to it: younger ones may still be waiting for theirs."""

db_app = typer.Typer(
    help="Look after a store: check, copy, move, shrink, migrate.", no_args_is_help=True, rich_markup_mode=None
)


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"loopwright: {text}\n")


@db_app.command(cls=PlainCommand)
def ddl(db: Db = DEFAULT_DB) -> None:
    """Print the script that makes all tables.

    It may run again and again. Tables of an older version are migrated instead: `loopwright db migrate`.
    """
    sys.stdout.write(sqlite_migrations.complete_ddl() if file_of(db) is not None else with_store(db, _script))


async def _script(store: SessionStore) -> str:
    return store.ddl()


@db_app.command(cls=PlainCommand)
def check(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Look for damage in tables, journals and heads.

    Nothing is changed. The exit code is 1 when there is any. `loopwright doctor` also reads every conversation.
    """
    check_there(db)
    try:
        found = list(with_store(db, lambda store: store.check()))
    except StoreSchemaError as error:
        what, _, todo = words_of(error, AgentSettings(db=db)).partition("; ")
        found = [StoreProblem(None, what, todo)]
    if as_json:
        write_json({"ok": not found, "problems": msgspec.to_builtins(found)})
    else:
        _show_problems(found, db)
    raise typer.Exit(ExitCode.FAILED if found else ExitCode.COMPLETED)


def _show_problems(found: Sequence[StoreProblem], db: str) -> None:
    console = terminal_console(sys.stdout)
    for problem in found:
        where = f"{problem.session_id}: " if problem.session_id else ""
        print_lines(console, Text(printable(f"{where}{problem.what}"), style="bold red"))
        print_lines(console, Text(f"  → {printable(problem.todo)}", style="dim"))
    verdict = counted(len(found), "problem") if found else "no problems"
    print_lines(console, Text(f"{shown(db)}: {verdict}", style="bold red" if found else "green"))


@db_app.command(cls=PlainCommand)
def stats(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Show how many sessions there are and what they hold."""

    async def read(store: SessionStore) -> tuple[StoreFigures, Sequence[Head]]:
        return await store.figures(), await store.list(SessionQuery(limit=EVERY_SESSION))

    figures, heads = with_store(db, read)
    if as_json:
        by_status = Counter(state_of(head) for head in heads)
        agents = {
            name: Counter(state_of(h) for h in heads if h.agent_name == name) for name in {h.agent_name for h in heads}
        }
        return write_json(
            {"sessions": len(heads), "by_status": by_status, "by_agent": agents, **msgspec.to_builtins(figures)}
        )
    console = terminal_console(sys.stdout)
    if heads:
        print_lines(console, _session_figures(heads))
        print_lines(console, Text())
    else:
        print_lines(console, Text(f"no sessions in {shown(db)}"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in _figure_rows(figures, on_server=is_server(db)):
        grid.add_row(*row)
    print_lines(console, grid)
    return None


_STATES: Final = ("idle", "waiting", "running", "interrupted")


def _session_figures(heads: Sequence[Head]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("agent", overflow="ellipsis", no_wrap=True)
    for state in (*_STATES, "all"):
        table.add_column(state, justify="right", no_wrap=True)
    counts = Counter((head.agent_name, state_of(head)) for head in heads)
    names = sorted({name for name, _ in counts})
    for name in names:
        row = [counts[name, state] for state in _STATES]
        table.add_row(Text(printable(name)), *(f"{n:,}" if n else "·" for n in row), f"{sum(row):,}")
    if len(names) > 1:
        row = [sum(counts[name, state] for name in names) for state in _STATES]
        table.add_row(Text("all agents", style="bold"), *(f"{n:,}" if n else "·" for n in row), f"{sum(row):,}")
    return table


def _figure_rows(figures: StoreFigures, *, on_server: bool) -> Iterator[tuple[str, str, str]]:
    yield "records", f"{figures.records:,}", size_text(figures.record_bytes)
    yield "inbox", f"{figures.waiting_items:,}", f"waiting; {figures.known_items:,} ids of taken items"
    paused = f"; {figures.paused_timers:,} more are paused" if figures.paused_timers else ""
    yield "timers", f"{figures.timers:,}", f"armed{paused}"
    yield "artifacts", f"{figures.artifacts:,}", size_text(figures.artifact_bytes)
    if figures.forks:
        yield "forks", f"{figures.forks:,}", "sessions that read their beginning from another one"
    yield "tombstones", f"{figures.tombstones:,}", "ids of deleted sessions, never used again"
    if figures.file_bytes is not None:
        free = f"; {size_text(figures.free_bytes)} of it free (`loopwright db vacuum`)" if figures.free_bytes else ""
        where = "tables" if on_server else "file"
        yield where, size_text(figures.file_bytes), f"tables of version {figures.schema_version}{free}"
    if figures.file_bytes is not None and not on_server:
        yield "log", size_text(figures.log_bytes), "not yet copied into the file" if figures.log_bytes else ""
    if figures.cleanup:
        yield "clean-up", f"{len(figures.cleanup):,}", "steps of a migration are left: `loopwright db migrate`"


@db_app.command(cls=PlainCommand)
def vacuum(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Remove what nothing refers to; give back free space.

    Removed are rows of deleted sessions, and artifacts older than an hour to which no record refers. Writers wait while
    the file is written anew; that needs as much free disk space again.
    """

    async def work(store: SessionStore) -> tuple[int, Reclaimed]:
        swept = await store.sweep_artifacts(time.time() - UNREFERENCED_FOR_S)
        return swept, await store.vacuum()

    swept, sizes = with_store(db, work)
    if as_json:
        return write_json({"artifacts_removed": swept, "before": sizes.before, "after": sizes.after})
    removed = counted(swept, "unreferenced artifact")
    return say(f"{shown(db)}: {removed} removed; {_sizes(sizes)}")


@db_app.command(cls=PlainCommand)
def checkpoint(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Copy the write-ahead log into the file."""
    if is_server(db):
        raise ConfigError(f"{shown(db)} is on a server, which copies its log by itself; there is nothing to do")

    async def work(store: SessionStore) -> tuple[Reclaimed, int]:
        return await store.checkpoint(), (await store.figures()).log_bytes

    sizes, left = with_store(db, work)
    if as_json:
        return write_json({"before": sizes.before, "after": sizes.after, "log": left})
    log = f"a log of {size_text(left)} stays, since others have the store open" if left else "no log is left"
    return say(f"{shown(db)}: {log}; {_sizes(sizes)}")


def _sizes(sizes: Reclaimed) -> str:
    if not sizes.before:
        return "this kind of store says no sizes"
    back = sizes.before - sizes.after
    given = f", {size_text(back)} given back" if back > 0 else ""
    return f"{size_text(sizes.before)} before, {size_text(sizes.after)} after{given}"


@db_app.command(cls=PlainCommand)
def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to make.", show_default=False)],
    db: Db = DEFAULT_DB,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the store into a file, while others write.

    The copy is of one moment; it is opened and checked. Nobody holds a lease in it: what ran at that moment is interrupted there.
    """
    size = with_store(db, lambda store: store.backup(target, replace=force))
    found = asyncio.run(_check_copy(os.path.abspath(target)))
    if as_json:
        write_json({"file": os.fspath(target), "bytes": size, "problems": msgspec.to_builtins(found)})
    elif found:
        _show_problems(found, os.fspath(target))
    else:
        say(f"{size_text(size)} copied to {target}; the copy opens and has no problems")
    raise typer.Exit(ExitCode.FAILED if found else ExitCode.COMPLETED)


async def _check_copy(path: str) -> list[StoreProblem]:
    copy = open_store(path, schema=SchemaPolicy.VERIFY)
    try:
        return list(await copy.check())
    finally:
        await copy.aclose()


@db_app.command(cls=PlainCommand)
def migrate(
    db: Db = DEFAULT_DB,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the statements and change nothing.")] = False,
) -> None:
    """Bring the tables of an older version to this one.

    Also finishes a migration that was cut off, and cleans up what only older versions needed: run it when none of them
    is at work any more. A program that opens the store does the first part by itself, unless told otherwise.
    """
    check_there(db)
    script = asyncio.run(_left_to_do(db))
    if not script:
        return say(f"{shown(db)}: nothing to do")
    count = counted(sum(1 for line in script.splitlines() if line.rstrip().endswith(";")), "statement")
    if dry_run:
        sys.stdout.write(script)
        return say(f"{shown(db)}: {count} would run; nothing was changed")
    asyncio.run(_migrated(db))
    return say(f"{shown(db)}: migrated with {count}; `loopwright db check` looks at the result")


async def _left_to_do(db: str) -> str:
    try:
        async with opened_store(db) as store:
            return "".join(f"{statement};\n" for statement in (await store.figures()).cleanup)
    except StoreSchemaError as error:
        if not error.ddl:
            raise
        return error.ddl


async def _migrated(db: str) -> None:
    store = store_at(db, SchemaPolicy.MIGRATE)
    try:
        await store.list(SessionQuery(limit=1))  # a store on a server looks at its tables with the first call
    finally:
        await store.aclose()


db_app.command(cls=PlainCommand)(prune)
db_app.command("export", cls=PlainCommand)(export_file)
db_app.command("import", cls=PlainCommand)(import_file)
