"""`loopwright sessions`: list, show, resume, abort, export, delete.

Owns: looking at sessions and ending them. Must not know: how a run is shown.
Read next: `transcript.py`, `run_command.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..config import AgentLoopConfig
from ..loop import StatefulAgentLoop
from ..model.codec import is_sealed_title
from ..model.errors import ConfigError, SessionBusyError
from ..ports.store import Head, SessionQuery, StoredRecord
from ..ports.store_admin import SessionStore
from .agent_options import SETTINGS, takes_agent
from .agent_setup import AgentSettings, NoModel
from .exit_codes import ExitCode
from .journal_lines import counted, one_line, printable, tokens_text
from .journal_table import print_journal
from .live_screen import print_lines, terminal_console
from .options import (
    AsEvents,
    AsJson,
    CopyToForks,
    Db,
)
from .plain_command import PlainCommand
from .run_command import RunOrder, carry_out
from .session_drive import write_json
from .session_ids import resolved
from .session_table import ago, base_text, print_table, state_of
from .standard_streams import text_of_argument
from .store_place import DEFAULT_DB, db_option, opened_store, shown
from .transcript import Tone, transcript

T = TypeVar("T")

sessions_app = typer.Typer(
    help="Look at sessions, go on with them, end them.", no_args_is_help=True, rich_markup_mode=None
)

SessionId = Annotated[
    str,
    typer.Argument(metavar="ID", help="A session; `last` is the newest.", show_default=False),
]

_STYLES: Final[dict[Tone, str]] = {
    "user": "bold",
    "model": "",
    "tool": "cyan",
    "good": "green",
    "bad": "yellow",
    "note": "dim",
}


def with_store(db: str, work: Callable[[SessionStore], Awaitable[T]]) -> T:
    """Runs `work` on the store as it is."""

    async def whole() -> T:
        async with opened_store(db) as store:
            return await work(store)

    return asyncio.run(whole())


def head_json(head: Head) -> dict[str, Any]:
    """A head as JSON values, with `state` beside the stored status."""
    return {**msgspec.to_builtins(head), "state": state_of(head)}


@sessions_app.command("list", cls=PlainCommand)
def list_sessions(
    db: Db = DEFAULT_DB,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first."""
    heads = with_store(db, lambda store: store.list(SessionQuery(limit=limit)))
    if as_json:
        return write_json([head_json(head) for head in heads])
    if not heads:
        sys.stderr.write(f"loopwright: no sessions in {shown(db)}\n")
        return None
    print_table(terminal_console(sys.stdout), heads)
    return None


@sessions_app.command(cls=PlainCommand)
def show(
    session_id: SessionId,
    db: Db = DEFAULT_DB,
    journal: Annotated[bool, typer.Option("--journal", help="The records instead of the conversation.")] = False,
    whole: Annotated[bool, typer.Option("--full", help="Calls and results in full.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a session: its conversation with calls and outcomes."""

    async def read(store: SessionStore) -> tuple[Head, Sequence[StoredRecord]]:
        sid = await resolved(store, session_id)
        return (await store.lookup(sid)).head, await store.read(sid)

    head, rows = with_store(db, read)
    if as_json:
        return write_json({"head": head_json(head), "records": [record_json(row) for row in rows]})
    console = terminal_console(sys.stdout)
    is_clear = head.title and not is_sealed_title(head.title)
    title = f"  {one_line(head.title, 80)}" if is_clear else ""
    print_lines(console, Text.assemble((head.session_id, "bold"), title))
    forked = f" · fork of {base_text(head)}" if head.base else ""
    facts = f"{state_of(head)} · agent {head.agent_name} · {counted(head.sends, 'send')} · {counted(len(rows), 'record')} · {tokens_text(head.usage)} · {ago(head.updated_at)}{forked}"
    print_lines(console, Text(facts, style="dim"))
    if head.kind == "workflow":
        more = f"{head.session_id}{db_option(db)}"
        print_lines(console, Text(f"a run of a workflow: loopwright workflow show {more}", style="dim"))
    if journal:
        return print_journal(console, rows, whole=whole)
    width = (min(console.width, 120) if console.is_terminal else 160) - 14
    for number, line in enumerate(transcript(rows, width=width, whole=whole)):
        if number and line.tone == "user":
            print_lines(console, Text())
        _print_paragraph(console, line.label, line.text, _STYLES[line.tone])
    if head.status == "waiting" and head.kind != "workflow":
        answer = f"where a person is asked: loopwright sessions resume {head.session_id}{db_option(db)} --answer TEXT"
        print_lines(console, Text(answer, style="dim"))
    return None


def _print_paragraph(console: Console, label: str, text: str, style: str) -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=11, no_wrap=True)
    grid.add_column()
    grid.add_row(Text(label, style="dim"), Text(printable(text).rstrip("\n"), style=style))
    print_lines(console, grid)


def record_json(row: StoredRecord) -> dict[str, Any]:
    """A stored record as JSON values; a body that is not JSON is given as text."""
    try:
        body: Any = json.loads(row.body)
    except ValueError:
        body = row.body.decode("utf-8", "replace")
    return {"position": row.position, "kind": row.kind, "version": row.version, "at": row.at, "body": body}


@sessions_app.command(cls=PlainCommand)
@takes_agent(without=("system",))
def resume(
    session_id: SessionId,
    answer: Annotated[
        str | None, typer.Option("--answer", metavar="TEXT", help="Answers the question that the session waits for.")
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", metavar="ID", help="Which one, when there are several.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask the model once more where nothing is open.")] = False,
    settings: AgentSettings = SETTINGS,
    as_json: AsJson = False,
    as_events: AsEvents = False,
) -> None:
    """Go on with an interrupted session, or answer its question.

    A send that was stopped, failed or reached a limit goes on as well. After a completed one nothing is open: no model
    is called, unless --again is given.
    """
    if as_json and as_events:
        raise ConfigError("--json and --events exclude each other")
    order = RunOrder(
        prompt=None,
        session_id=session_id,
        as_json=as_json,
        as_events=as_events,
        answer=None if answer is None else text_of_argument(answer),
        question=question,
        again=again,
    )
    raise typer.Exit(asyncio.run(carry_out(settings, order)))


@sessions_app.command(cls=PlainCommand)
def abort(
    session_id: SessionId,
    db: Db = DEFAULT_DB,
    reason: Annotated[str, typer.Option("--reason", help="What the model is told.")] = "aborted by a person",
) -> None:
    """End an unfinished send, or stop a running one.

    Its open calls are answered as aborted; a process that runs it is asked to stop.
    """

    async def work(store: SessionStore) -> str:
        sid = await resolved(store, session_id)
        head = (await store.lookup(sid)).head
        # Ending needs no code of the agent, only its name.
        config = AgentLoopConfig(agent_name=head.agent_name)
        async with StatefulAgentLoop(llm=NoModel(), store=store, config=config) as loop:
            if state_of(head) == "running":
                await loop.stop(sid, reason=reason)
                return f"session {sid}: its process was asked to stop"
            count = await loop.abort_pending(sid, reason=reason)
            return (
                f"session {sid}: {counted(count, 'open call')} aborted"
                if head.status != "idle"
                else f"session {sid}: nothing was open"
            )

    sys.stderr.write(f"loopwright: {with_store(db, work)}\n")


@sessions_app.command(cls=PlainCommand)
def export(
    session_id: SessionId,
    db: Db = DEFAULT_DB,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")] = None,
) -> None:
    """Write a session as JSON lines: its head, then its records."""

    async def read(store: SessionStore) -> tuple[Head, Sequence[StoredRecord]]:
        sid = await resolved(store, session_id)
        return (await store.lookup(sid)).head, await store.read(sid)

    head, rows = with_store(db, read)
    lines = [json.dumps({"type": "head", **head_json(head)})]
    lines += [json.dumps({"type": "record", **record_json(row)}) for row in rows]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
    sys.stderr.write(f"loopwright: {counted(len(rows), 'record')} written to {output}\n")


@sessions_app.command(cls=PlainCommand)
def delete(
    session_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The sessions.", show_default=False)],
    db: Db = DEFAULT_DB,
    copy_to_forks: CopyToForks = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete sessions with all they hold; ids are never used again.

    A session that forks read stays, unless --copy-to-forks gives them what they read of it.
    """

    async def names(store: SessionStore) -> list[str]:
        found = [await resolved(store, session_id) for session_id in session_ids]
        for sid in found:
            head = (await store.lookup(sid)).head
            if state_of(head) == "running":
                raise SessionBusyError(sid, head.owner or "", head.expires_in_s)
        return found

    chosen = list(dict.fromkeys(with_store(db, names)))
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError("deleting needs --yes when nobody can be asked")
        sys.stderr.write(f"delete {', '.join(chosen)} for good? [y/N] ")
        sys.stderr.flush()
        if input().strip().lower() not in ("y", "yes"):
            sys.stderr.write("loopwright: nothing was deleted\n")
            raise typer.Exit(ExitCode.FAILED)

    async def work(store: SessionStore) -> int:
        return sum([await store.delete(one, copy_to_forks=copy_to_forks) for one in chosen])

    sys.stderr.write(f"loopwright: {counted(with_store(db, work), 'session')} deleted\n")
