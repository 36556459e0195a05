"""`loopwright db prune`.

Owns: the question before it, and what is said. Must not know: what goes (`engine/pruning.py`).
Read next: `engine/pruning.py`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..engine.pruning import Pruned, PrunePlan, PruneRules, carry_out_prune, plan_prune
from ..model.errors import ConfigError
from .exit_codes import ExitCode
from .journal_lines import counted, one_line
from .live_screen import print_lines, terminal_console
from .options import AsJson, CopyToForks, Db
from .quantities import age_of, bytes_in, size_text
from .session_commands import with_store
from .session_drive import write_json
from .session_table import ago, state_of
from .store_place import DEFAULT_DB, db_option, shown

_SHOWN: Final = 10
"""Families that are listed before a question; --dry-run lists all."""


def prune(
    db: Db = DEFAULT_DB,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Sessions unchanged for so long: 12h, 30d, 8w.")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="The oldest, until the rest holds no more: 2GB.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="The N newest stay in any case.")
    ] = None,
    idle_only: Annotated[
        bool, typer.Option("--idle-only/--unfinished-too", help="Whether those with open work stay.")
    ] = True,
    copy_to_forks: CopyToForks = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete old sessions, oldest first.

    A session goes together with its children and counts with them as one. What a living process runs always stays, and so
    does what a fork reads that stays, unless --copy-to-forks is given. Space is given back by `loopwright db vacuum`.
    """
    rules = PruneRules(
        older_than_s=None if older_than is None else age_of(older_than),
        max_bytes=None if max_size is None else bytes_in(max_size),
        keep=keep or 0,
        idle_only=idle_only,
        copy_to_forks=copy_to_forks,
    )
    if older_than is None and max_size is None and keep is None:
        raise ConfigError("nothing says what to delete; use --older-than 30d, --max-size 2GB or --keep 100, or several")
    plan = with_store(db, lambda store: plan_prune(store, rules, time.time()))
    if as_json and dry_run:
        return write_json(_plan_json(plan))
    if not as_json:
        _show(plan, db, whole=dry_run)
    if dry_run:
        return None
    if plan.going and not yes:
        _ask(plan)
    # Whatever changed while a person thought about it stays.
    done = with_store(db, lambda store: carry_out_prune(store, plan, os.urandom(16)))
    if as_json:
        return write_json({**_plan_json(plan), "deleted": done.sessions, "stayed": done.stayed})
    _tell(done, db)
    return None


def _ask(plan: PrunePlan) -> None:
    if not sys.stdin.isatty():
        raise ConfigError("pruning needs --yes when nobody can be asked; --dry-run says what would go")
    sys.stdout.flush()
    sys.stderr.write(f"delete {counted(plan.sessions, 'session')} for good? [y/N] ")
    sys.stderr.flush()
    if input().strip().lower() not in ("y", "yes"):
        sys.stderr.write("loopwright: nothing was deleted\n")
        raise typer.Exit(ExitCode.FAILED)


def _show(plan: PrunePlan, db: str, *, whole: bool) -> None:
    console = terminal_console(sys.stdout)
    if plan.going:
        _show_families(console, plan, whole=whole)
    left = plan.bytes_before - plan.bytes
    what = (
        f"{counted(plan.sessions, 'session')} with {size_text(plan.bytes)} to delete, {size_text(left)} would be left"
    )
    print_lines(console, Text(f"{shown(db)}: {what if plan.going else 'nothing to delete'}", style="bold"))
    if plan.unfinished:
        stay = f"{plan.unfinished} more would go, but something is open in them (`loopwright sessions list{db_option(db)}`)"
        print_lines(console, Text(stay, style="dim"))
    if plan.referenced:
        stay = f"{plan.referenced} more would go, but forks that stay read them (--copy-to-forks)"
        print_lines(console, Text(stay, style="dim"))


def _show_families(console: Console, plan: PrunePlan, *, whole: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("session", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    shown_families = plan.going if whole else plan.going[:_SHOWN]
    for family in shown_families:
        root, more = family.root, len(family.members) - 1
        title = one_line(root.title, 200) + (f" (+ {counted(more, 'descendant')})" if more else "")
        table.add_row(root.session_id, state_of(root), size_text(family.bytes), ago(family.updated_at), Text(title))
    print_lines(console, table)
    if len(plan.going) > len(shown_families):
        rest = len(plan.going) - len(shown_families)
        print_lines(console, Text(f"… and {rest:,} more; --dry-run lists them all", style="dim"))


def _tell(done: Pruned, db: str) -> None:
    if done.sessions:
        space = f"`loopwright db vacuum{db_option(db)}` gives the space back"
        sys.stderr.write(f"loopwright: {counted(done.sessions, 'session')} deleted; {space}\n")
    for session_id in done.stayed:
        sys.stderr.write(f"loopwright: session {session_id} changed meanwhile and stays\n")


def _plan_json(plan: PrunePlan) -> dict[str, Any]:
    return {
        "sessions": [head.session_id for family in plan.going for head in family.members],
        "bytes": plan.bytes,
        "bytes_before": plan.bytes_before,
        "unfinished": plan.unfinished,
        "referenced": plan.referenced,
    }
