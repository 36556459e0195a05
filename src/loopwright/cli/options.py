"""The options that several commands share.

Owns: their names and help texts. Must not know: what commands do with them.
Read next: `run_command.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .store_place import DB_VARIABLE

Db = Annotated[
    str,
    typer.Option("--db", metavar="PATH", envvar=DB_VARIABLE, show_envvar=False, help="The store: a file or a DSN."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="PROVIDER:MODEL", help="The model; default LOOPWRIGHT_*, OPENAI_* or ANTHROPIC_*."),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Where the model is served.")]
Workspace = Annotated[
    Path | None, typer.Option("--workspace", metavar="FOLDER", help="The folder that tools stay in; default here.")
]
Preset = Annotated[
    str | None, typer.Option("--preset", metavar="core|explore|full", help="Which tools; explore changes nothing.")
]
AllowBash = Annotated[bool, typer.Option("--allow-bash", help="Let the model run shell commands.")]
Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox", metavar="NAME", help="Where they run: auto, bubblewrap, docker, docker:IMAGE or local (none)."
    ),
]
Mcp = Annotated[
    bool, typer.Option("--mcp", help="Start the MCP servers of the workspace's mcp.json and offer their tools.")
]
McpConfig = Annotated[
    Path | None, typer.Option("--mcp-config", metavar="FILE", help="The same with the servers of this file.")
]

Mode = Annotated[
    str | None,
    typer.Option(
        "--mode", metavar="plan|default|trusted", help="What calls may do; plan changes nothing, trusted asks nothing."
    ),
]
MaxRounds = Annotated[
    int | None, typer.Option("--max-rounds", metavar="N", min=1, help="Model calls per send; default 24.")
]
NoStream = Annotated[bool, typer.Option("--no-stream", help="Show the answer when it is complete.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]
AsEvents = Annotated[bool, typer.Option("--events", help="Every event as a JSON line on standard output.")]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Go on with a session; `last` is the newest.")
]
AgentName = Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose sessions to run.")]
CopyToForks = Annotated[
    bool, typer.Option("--copy-to-forks", help="Forks that stay get what they read of a session that goes.")
]
