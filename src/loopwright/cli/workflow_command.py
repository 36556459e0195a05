"""`loopwright workflow`: validate, run, resume, list, show, cancel.

Owns: the options, reading specs and inputs. Must not know: how a run goes on (`workflow_drive.py`) or is drawn.
Read next: `workflow_drive.py`, `workflow_show.py`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
import typer

from ..config import AgentLoopConfig
from ..engine.signals import signal_item
from ..loop import StatefulAgentLoop
from ..model.errors import ConfigError, LoopwrightError, SessionBusyError
from ..model.family_errors import WorkflowSpecError
from ..model.workflow_spec import WorkflowSpec
from ..ports.ambient import RealAmbient
from ..ports.store_admin import SessionStore
from ..workflow import problems_of
from ..workflow.picture import clean
from .agent_options import SETTINGS, takes_agent
from .agent_setup import AgentSettings, NoModel
from .exit_codes import ExitCode, code_of_error, words_of
from .journal_lines import counted, printable
from .options import (
    AsJson,
    Db,
)
from .plain_command import PlainCommand
from .session_commands import with_store
from .session_drive import write_json
from .session_table import state_of
from .spec_files import input_of, read_json, read_spec, say_problems
from .standard_streams import text_of_argument
from .store_place import DB_VARIABLE, DEFAULT_DB, db_option
from .workflow_drive import DriveOrder, Opened, RunDrive, opened_loop
from .workflow_screen import screen_of_run
from .workflow_show import list_runs, show, state_of_run
from .workflow_tail import resolved_run

workflow_app = typer.Typer(name="workflow", help="Check, run and look at workflows.", no_args_is_help=True)
workflow_app.command("list", cls=PlainCommand)(list_runs)
workflow_app.command(cls=PlainCommand)(show)

SpecFile = Annotated[str, typer.Argument(metavar="FILE", help="A workflow as JSON; - reads it from standard input.")]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="A run; `last` is the newest.")]
AgentModule = Annotated[
    str | None,
    typer.Option(
        "--agent-module", metavar="MODULE:NAME", help="A function of yours that makes the StatefulAgentLoop to use."
    ),
]


@workflow_app.command(cls=PlainCommand)
def validate(file: SpecFile, as_json: AsJson = False) -> None:
    """Check a workflow: every problem with its place; exit code 2 when there are any.

    Names of tools are not checked: they are those of the agent that runs it.
    """
    given = read_json(file)
    problems = problems_of(given)
    if as_json:
        listed = [{"path": one.path, "message": one.message} for one in problems]
        write_json({"valid": not problems, "problems": listed})
    elif problems:
        for one in problems:
            sys.stdout.write(f"{printable(str(one))}\n")
        sys.stderr.write(f"loopwright: {counted(len(problems), 'problem')}\n")
    else:
        sys.stderr.write(f"loopwright: {given['name']} can be run\n")
    raise typer.Exit(ExitCode.USAGE if problems else ExitCode.COMPLETED)


@workflow_app.command(cls=PlainCommand)
@takes_agent(without=("no_stream", "system"))
def run(
    file: SpecFile,
    given: Annotated[
        str | None,
        typer.Option("--input", metavar="TEXT|JSON|@FILE", help="What the run works on; text that is no JSON is text."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Run it in the background and say only its id.")] = False,
    settings: AgentSettings = SETTINGS,
    agent_module: AgentModule = None,
    as_json: AsJson = False,
) -> None:
    """Run a workflow until it ended or waits for a person.

    Its output goes to standard output, how it goes on to standard error. Ctrl-C leaves the run where it is.
    """
    if file == "-" and given == "@-":
        raise ConfigError("only one of FILE and --input can be standard input")
    spec = _read_or_say(file, settings, as_json=as_json)
    value = None if given is None else input_of(text_of_argument(given))

    async def work() -> int:
        async with opened_loop(settings, agent_module, None) as opened:
            spec_here = spec
            if opened.metadata:
                spec_here = msgspec.structs.replace(spec, metadata={**spec.metadata, **opened.metadata})
            run_id = await opened.loop.workflows.create(spec_here, value, served=detach)
            if not detach:
                return await _drive(opened, run_id, DriveOrder(as_json=as_json))
        _in_background(opened, run_id, settings, as_json=as_json)
        return ExitCode.COMPLETED

    raise typer.Exit(_told(work, settings, None, as_json=as_json))


@workflow_app.command(cls=PlainCommand)
@takes_agent(without=("max_rounds", "no_stream", "system"))
def resume(
    run_id: RunId,
    answer: Annotated[str | None, typer.Option("--answer", metavar="TEXT", help="Answers an open question.")] = None,
    question: Annotated[
        str | None, typer.Option("--question", metavar="ID", help="Which question, when several are open.")
    ] = None,
    settings: AgentSettings = SETTINGS,
    agent_module: AgentModule = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was left, interrupted, or waits for an answer.

    No step that ended runs again. Of a run that ended its result is shown.
    """
    if question is not None and answer is None:
        raise ConfigError("--question belongs to an answer: give it with --answer")
    order = DriveOrder(as_json=as_json, answer=None if answer is None else text_of_argument(answer), question=question)

    async def work() -> int:
        async with opened_loop(settings, agent_module, run_id) as opened:
            return await _drive(opened, opened.run_id or run_id, order)

    raise typer.Exit(_told(work, settings, run_id, as_json=as_json))


@workflow_app.command(cls=PlainCommand)
def cancel(
    run_id: RunId,
    db: Db = DEFAULT_DB,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What its steps are told.")
    ] = "cancelled by a person",
) -> None:
    """End a run with everything in it, wherever it runs or waits."""

    async def work(store: SessionStore) -> str:
        sid = await resolved_run(store, run_id, db_option(db))
        head = (await store.lookup(sid)).head
        # Ending needs no code of the agent, only its name.
        config = AgentLoopConfig(agent_name=head.agent_name, serve_timers=False)
        async with StatefulAgentLoop(llm=NoModel(), store=store, config=config) as loop:
            if state_of(head) == "interrupted":
                await loop.abort_pending(sid, reason=reason)
                return f"run {sid} is cancelled"
            if not await loop.workflows.cancel(sid, reason=reason):
                return f"run {sid}: nothing was open"
        asked = head.status == "running"
        return f"run {sid}: its process was asked to stop" if asked else f"run {sid} is cancelled"

    sys.stderr.write(f"loopwright: {with_store(db, work)}\n")


@workflow_app.command(cls=PlainCommand)
def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the step waits for.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="PAYLOAD", help="Its output: JSON, or text; @FILE reads a file.")
    ] = None,
    db: Db = DEFAULT_DB,
) -> None:
    """Tell a run that something happened that a step waits for, or will wait for.

    The signal is stored. The process that runs or waits with the run takes it, or whoever resumes the run.
    """
    value = None if payload is None else input_of(text_of_argument(payload))

    async def work(store: SessionStore) -> str:
        sid = await resolved_run(store, run_id, db_option(db))
        head = (await store.lookup(sid)).head
        if (state := await state_of_run(store, head)) not in ("idle", "running", "waiting", "interrupted"):
            raise ConfigError(f"run {sid} is {state}: nothing in it waits for a signal any more")
        ambient = RealAmbient()
        await store.enqueue(sid, signal_item(ambient.new_id("signal"), name, value, ambient.now()))
        go_on = f"`loopwright workflow resume {sid}{db_option(db)}` goes on where no process has the run"
        return f"signal {clean(name)!r} is stored for run {sid}; {go_on}"

    sys.stderr.write(f"loopwright: {with_store(db, work)}\n")


async def _drive(opened: Opened, run_id: str, order: DriveOrder) -> int:
    screen = screen_of_run("Ctrl-C leaves the run where it is")
    return await RunDrive(opened, run_id, screen).carry_out(order)


def _read_or_say(file: str, settings: AgentSettings, *, as_json: bool) -> WorkflowSpec:
    """The spec, or the end of the command with a line for each of its problems."""
    try:
        return read_spec(file)
    except WorkflowSpecError as error:
        if as_json:
            write_json(_error_json(error, None, settings))
        say_problems(error)
        raise typer.Exit(ExitCode.USAGE) from error


def _told(
    work: Callable[[], Coroutine[Any, Any, int]], settings: AgentSettings, run_id: str | None, *, as_json: bool
) -> int:
    try:
        return asyncio.run(work())
    except LoopwrightError as error:
        if as_json:
            write_json(_error_json(error, run_id, settings))
        if isinstance(error, WorkflowSpecError):
            say_problems(error)
            return ExitCode.USAGE
        if isinstance(error, SessionBusyError):
            more = db_option(settings.db)
            sys.stderr.write(
                f"loopwright: run {error.session_id} is being run by another process ({error.holder}); follow it with"
                f" `loopwright workflow show {error.session_id}{more} --watch`, end it with"
                f" `loopwright workflow cancel {error.session_id}{more}`\n"
            )
            return ExitCode.UNAVAILABLE
        raise


def _error_json(error: LoopwrightError, run_id: str | None, settings: AgentSettings) -> dict[str, object]:
    return {
        "run_id": run_id,
        "status": "error",
        "exit_code": int(code_of_error(error)),
        "error_code": error.code,
        "error_message": words_of(error, settings),
    }


def _in_background(opened: Opened, run_id: str, settings: AgentSettings, *, as_json: bool) -> None:
    """Leaves the run to a process of its own, which outlives this one; its journal is what it says."""
    model = ["--model", settings.model] if settings.model else []
    words = [sys.executable, "-m", "loopwright", "workflow", "resume", run_id, *opened.options, *model]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, DB_VARIABLE: settings.db},  # not as an argument, where anybody could read its password
    )
    process.returncode = 0  # nobody waits for it here
    if as_json:
        write_json({"run_id": run_id, "status": "running", "exit_code": int(ExitCode.COMPLETED), "pid": process.pid})
    else:
        sys.stdout.write(f"{run_id}\n")
    sys.stderr.write(
        f"loopwright: it runs in process {process.pid}; follow it with `loopwright workflow show {run_id}{opened.db} --watch`\n"
    )
