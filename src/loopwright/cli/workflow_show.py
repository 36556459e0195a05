"""`loopwright workflow show` and `list`: looking at runs, and pictures of them.

Owns: what is shown of a run or a file, where pictures go. Must not know: running.
Read next: `workflow_tail.py`, `workflow_tree.py`, `../workflow/picture_svg.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar, cast, get_args

import msgspec
import typer
from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from ..model.codec import is_sealed_title
from ..model.errors import ConfigError
from ..model.family_errors import WorkflowSpecError
from ..model.records import Outcome, SendFinished
from ..model.workflow_spec import WorkflowSpec
from ..ports.store import Head
from ..ports.store_admin import SessionStore
from ..workflow import RunMarks, mermaid, svg
from .exit_codes import ExitCode
from .journal_lines import one_line, record_of
from .live_screen import terminal_console
from .options import AsJson, Db
from .screen import is_terminal
from .session_commands import with_store
from .session_drive import write_json
from .session_table import ago, state_of
from .spec_files import read_spec, say_problems
from .store_place import DEFAULT_DB, db_option, opened_store
from .workflow_screen import screen_of_run, tree_of
from .workflow_tail import RunTail, resolved_run, runs_of
from .workflow_tree import STYLES, without_signs

T = TypeVar("T")

_END: Final = 20
"""Records at the end of a journal among which the end of a run is found."""

STATES: Final = ("running", "waiting", "interrupted", "idle", *get_args(Outcome))

LOOK_S: Final = 0.25
"""How often a run is looked at that is followed."""


async def state_of_run(store: SessionStore, head: Head) -> str:
    """How a run ended, else running, waiting, interrupted, or idle when it did not begin."""
    if head.status != "idle":
        return state_of(head)
    rows = await store.read(head.session_id, after=max(head.position - _END, 0))
    ends = [record.outcome for row in rows if isinstance(record := record_of(row), SendFinished)]
    return ends[-1] if ends else "idle"


def list_runs(
    db: Db = DEFAULT_DB,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATE", help="Only runs in this state, such as waiting or failed."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List runs of workflows, newest first."""
    if status is not None and status not in STATES:
        raise ConfigError(f"--status {status!r} is none of {', '.join(STATES)}")

    async def work(store: SessionStore) -> list[tuple[Head, str]]:
        found: list[tuple[Head, str]] = []
        async for head in runs_of(store):
            if len(found) == limit:
                break
            state = await state_of_run(store, head)
            if status in (None, state):
                found.append((head, state))
        return found

    runs = with_store(db, work)
    if as_json:
        return write_json([_head_json(head, state) for head, state in runs])
    if not runs:
        sys.stderr.write(f"loopwright: no {status or 'workflow'} runs\n")
        return None
    _print_runs(runs)
    return None


def _head_json(head: Head, state: str) -> dict[str, Any]:
    return {
        "run_id": head.session_id,
        "name": head.title,
        "state": state,
        "agent_name": head.agent_name,
        "parent_id": head.parent_id,
        "created_at": head.created_at,
        "updated_at": head.updated_at,
    }


def _print_runs(runs: Sequence[tuple[Head, str]]) -> None:
    console = terminal_console(sys.stdout)
    width = console.width if console.is_terminal else 10_000
    rows: list[tuple[str, ...]] = [("run", "state", "updated", "name")]
    for head, state in runs:
        name = "(encrypted)" if is_sealed_title(head.title) else one_line(head.title, 64)
        rows.append((head.session_id, state.replace("_", " "), ago(head.updated_at), name))
    widths = [max([cell_len(row[place]) for row in rows]) for place in range(4)]
    shown = [0, 1, 3] if sum(widths) + 6 > width else [0, 1, 2, 3]
    for number, row in enumerate(rows):
        line = Text(style="" if number else "dim")
        for place in shown:
            look = STYLES.get(row[1], "magenta" if row[1].startswith("wait") else "") if place == 1 and number else ""
            line.append(row[place] + " " * (widths[place] - cell_len(row[place]) + 2), style=look)
        line.rstrip()
        line.truncate(max(width, widths[0] + widths[1] + 2), overflow="ellipsis")
        console.print(line, soft_wrap=True)


def show(
    what: Annotated[
        str, typer.Argument(metavar="RUN_ID|FILE", help="A run, `last` for the newest, or a workflow as JSON.")
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    mermaid_file: Annotated[
        str | None, typer.Option("--mermaid", metavar="FILE", help="Write a Mermaid flowchart; - is standard output.")
    ] = None,
    svg_file: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Write an SVG picture; - is standard output.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Show a run, or a workflow that was not run yet, as a tree, and write pictures of it."""
    if [mermaid_file, svg_file].count("-") + as_json > 1:
        raise ConfigError("only one of --json, --mermaid - and --svg - can have standard output")
    if _is_file(what):
        if watch:
            raise ConfigError("--watch follows a run; name one instead of a file")
        found = Shown(RunMarks(_spec_of(what)), None, time.time())
    else:
        found = asyncio.run(_of_a_run(db, what, watch=watch))
    marks = found.marks
    quiet = _write(mermaid_file, lambda: mermaid(marks.spec, marks))
    quiet = _write(svg_file, lambda: svg(marks.spec, marks, now=found.now)) or quiet
    if as_json:
        return write_json(marks_json(marks, found.run_id))
    if not quiet and not (watch and is_terminal(sys.stderr)):
        console = terminal_console(sys.stdout)
        for line in tree_of(console, marks, now=found.now):
            console.print(line, soft_wrap=True)
    if not quiet:
        for said in why_lines(marks):
            sys.stdout.write(without_signs(said, sys.stdout.encoding) + "\n")
    return None


def why_lines(marks: RunMarks) -> list[str]:
    """Which steps failed and why, and why the run ended as it did."""
    lines = [f"  ✗ {path}: {message}" for path, message in marks.failures]
    if marks.failed > len(lines):
        lines.append(f"  … and {marks.failed - len(lines):,} more that failed")
    if marks.why and marks.status not in (None, "completed"):
        lines.append(f"  {(marks.status or '').replace('_', ' ')}: {marks.why}")
    return lines


class Shown(Struct, frozen=True):
    """What there is to be shown."""

    marks: RunMarks
    run_id: str | None
    now: float
    """Up to when what is under way has taken time: UTC epoch seconds. Of an interrupted run the time of its last record."""


def _spec_of(file: str) -> WorkflowSpec:
    """Ends the command with a line for each problem of a spec that is none."""
    try:
        return read_spec(file)
    except WorkflowSpecError as error:
        say_problems(error)
        raise typer.Exit(ExitCode.USAGE) from error


def _is_file(what: str) -> bool:
    return what == "-" or what.endswith(".json") or os.path.isfile(what)


async def _of_a_run(db: str, what: str, *, watch: bool) -> Shown:
    async with opened_store(db) as store:
        run_id = await resolved_run(store, what, db_option(db))
        screen = screen_of_run("Ctrl-C stops looking; the run goes on")
        tail = RunTail(store, run_id)
        await tail.look()
        if watch:
            tail.heard = screen.heard
            if await _follow(tail, store, screen):
                screen.note(
                    f"no process runs it any more; go on: loopwright workflow resume {run_id}{db_option(db)}", bad=True
                )
        if tail.marks is None:
            raise ConfigError(f"run {run_id} cannot be read by this version")
        head = (await store.lookup(run_id)).head
        if tail.marks.status not in ("running", "interrupted") or (state := state_of(head)) != "interrupted":
            return Shown(tail.marks, run_id, time.time())
        tail.marks.status = state
        return Shown(tail.marks, run_id, head.updated_at)


async def _follow(tail: RunTail, store: SessionStore, screen: Any) -> bool:
    """Draws the run until it ended, its process is gone or the person has seen enough; True when it is gone."""
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    try:
        while not enough.is_set() and (tail.marks is None or tail.marks.live):
            screen.draw(tail.marks)
            try:
                await asyncio.wait_for(enough.wait(), LOOK_S)
            except TimeoutError:
                if await tail.look() or tail.marks is None or tail.marks.status != "running":
                    continue
                # A journal that stands still may be that of a process that is gone: its lease tells.
                if state_of((await store.lookup(tail.run_id)).head) == "interrupted":
                    tail.marks.status = "interrupted"
                    return True
        return False
    finally:
        screen.end(tail.marks)


def _write(name: str | None, text: Any) -> bool:
    """Writes a picture; True when it went to standard output."""
    if name is None:
        return False
    if name == "-":
        sys.stdout.write(text())
        return True
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.write(text())
    except OSError as error:
        raise ConfigError(f"cannot write {name}: {error.strerror}") from error
    sys.stderr.write(f"loopwright: {name} is written\n")
    return False


def marks_json(marks: RunMarks, run_id: str | None) -> dict[str, Any]:
    """A run as JSON values: each node with its parent, what it is and what came of it."""
    parents = {child.key: node.key for node in marks.picture.walk() for child in node.children}
    parents |= {node.fallback.key: node.key for node in marks.picture.walk() if node.fallback is not None}
    parents |= {node.judge.key: node.key for node in marks.picture.walk() if node.judge is not None}
    nodes = [
        {
            "key": node.key,
            "parent": parents.get(node.key),
            "type": node.shape,
            "title": node.title,
            "detail": node.detail,
            **cast("dict[str, Any]", msgspec.to_builtins(marks.mark(node))),
        }
        for node in marks.picture.walk()
    ]
    failures = [{"path": path, "message": message} for path, message in marks.failures]
    return {
        "run_id": run_id,
        "name": marks.spec.name,
        "status": marks.status,
        "why": marks.why,
        "failed": marks.failed,
        "failures": failures,
        "nodes": nodes,
    }
