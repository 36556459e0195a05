"""All commands in one application.

Owns: how commands are called, and that the process ends with their exit code. Must not know: what commands do.
Read next: `run_command.py`, `chat_command.py`, `session_commands.py`, `inbox_command.py`, `fork_command.py`, `worker_command.py`, `db_commands.py`, `doctor_command.py`,
`verify_command.py`, `usage_command.py`, `workflow_command.py`, `mcp_command.py`.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from .. import __version__
from .chat_command import chat
from .db_commands import db_app
from .doctor_command import doctor
from .exit_codes import ExitCode
from .fork_command import fork
from .inbox_command import inbox_app
from .mcp_command import mcp_app
from .plain_command import PlainCommand
from .run_command import run
from .session_commands import sessions_app
from .standard_streams import unwritten
from .usage_command import usage
from .verify_command import verify
from .worker_command import worker
from .workflow_command import workflow_app

app = typer.Typer(
    name="loopwright",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"loopwright {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Durable agents on the command line.

    Exit codes: 0 completed, 1 failed or degraded, 2 wrong usage, 3 waiting for input or a host's tools,
    4 round limit or budget reached, 5 session busy or store unavailable, 130 cancelled.
    """


app.command(cls=PlainCommand)(run)
app.command(cls=PlainCommand)(chat)
app.command(cls=PlainCommand)(fork)
app.add_typer(sessions_app, name="sessions")
app.add_typer(inbox_app, name="inbox")
app.command(cls=PlainCommand)(usage)
app.command(cls=PlainCommand)(worker)
app.add_typer(workflow_app, name="workflow")
app.add_typer(mcp_app, name="mcp")
app.add_typer(db_app, name="db")
app.command(cls=PlainCommand)(doctor)
app.command(cls=PlainCommand)(verify)


def run_application(arguments: list[str] | None = None) -> None:
    """Runs a command, by default with the arguments of this process."""
    code: int | str | None = ExitCode.FAILED
    try:
        app(arguments, prog_name="loopwright")
    except SystemExit as leaving:
        code = leaving.code
    except KeyboardInterrupt:
        code = ExitCode.CANCELLED
    except BrokenPipeError:
        pass
    finally:
        _flush()
    if lost := unwritten():
        sys.stderr.write(f"loopwright: {lost}; what was done is stored\n")
        code = code or ExitCode.FAILED
    sys.exit(code)


def _flush() -> None:
    """What is left in the buffer goes out now: at exit nobody could catch that its reader is gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
