"""`loopwright mcp`: what a project's servers offer, and offering the project's agent to others.

Owns: the table of servers and tools. Must not know: how servers are reached, what is served (`mcp_serving.py`).
Read next: `mcp_setup.py`, `mcp_serving.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from ..late import Late
from ..model.connection_errors import McpUnavailableError
from ..model.errors import ConfigError, LoopwrightError
from ..tools.registry import ToolRegistry
from .agent_options import SETTINGS, takes_agent
from .agent_setup import AgentSettings
from .exit_codes import ExitCode
from .journal_lines import one_line, printable
from .mcp_setup import chosen_file
from .options import (
    AsJson,
    McpConfig,
    Workspace,
)
from .plain_command import PlainCommand

if TYPE_CHECKING:
    from ..connectors import mcp_file, mcp_servers
    from ..connectors.mcp_file import McpServerSpec
    from ..connectors.mcp_servers import McpServers
    from . import mcp_serving
else:
    mcp_file = Late("loopwright.connectors.mcp_file")
    mcp_servers = Late("loopwright.connectors.mcp_servers")
    mcp_serving = Late("loopwright.cli.mcp_serving")

mcp_app = typer.Typer(
    no_args_is_help=True, help="MCP servers of a project, and the project as one.", rich_markup_mode=None
)


class _Choice(Struct, frozen=True):
    mcp_config: str | None
    mcp: bool = True


@mcp_app.command(name="list", cls=PlainCommand)
def list_servers(
    workspace: Workspace = None,
    mcp_config: McpConfig = None,
    as_json: AsJson = False,
) -> None:
    """Start the servers of the project's mcp.json and show what they offer.

    The file is the first of .loopwright/mcp.json, mcp.json and .mcp.json. A line for each server, then one for each of its
    tools with its effect. The exit code is 1 when a server could not be reached.
    """
    folder = str(workspace or Path.cwd())
    path = chosen_file(_Choice(None if mcp_config is None else str(mcp_config)), folder)
    assert path is not None
    file = mcp_file.read_mcp_file(path, env=os.environ)
    entries = asyncio.run(_looked_at(file.servers, folder))
    if as_json:
        sys.stdout.write(f"{json.dumps({'file': file.path, 'servers': entries}, ensure_ascii=False)}\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(file.path, entries)))
    if any(entry["status"] == "failed" for entry in entries):
        raise typer.Exit(ExitCode.FAILED)


async def _looked_at(specs: tuple[McpServerSpec, ...], folder: str) -> list[dict[str, Any]]:
    async with mcp_servers.connect_mcp(specs, roots=(folder,)) as servers:
        return [await _entry(spec, servers) for spec in specs]


async def _entry(spec: McpServerSpec, servers: McpServers) -> dict[str, Any]:
    """What one server is and offers."""
    about: dict[str, Any] = {"name": spec.name, "where": spec.where, "status": "disabled"}
    connection = servers.connections.get(spec.name)
    if connection is None:
        return about
    registry = ToolRegistry()
    try:
        if spec.name in servers.problems:
            raise McpUnavailableError(spec.name, connection.state.problem or servers.problems[spec.name])
        alone = mcp_servers.McpServers({spec.name: connection})
        await alone.register(registry)
    except LoopwrightError as error:
        return {**about, "status": "failed", "problem": getattr(error, "why", str(error))}
    state = connection.state
    tools = [
        {"name": one.name, "effect": one.effect, "description": one.description}
        for one in registry
        if one.name not in ("read_mcp_resource", "get_mcp_prompt")
    ]
    return {
        **about,
        "status": state.status,
        "server": state.server,
        "protocol": state.protocol,
        "offers": list(state.offers),
        "tools": tools,
        "left_out": alone.left_out.get(spec.name, {}),
    }


def _lines(path: str, entries: list[dict[str, Any]]) -> list[str]:
    lines = [printable(path)]
    for entry in entries:
        says = (
            f"{entry['server']}, protocol {entry['protocol']}, {', '.join(entry['offers'])}"
            if "server" in entry
            else ""
        )
        lines.append(
            printable(
                f"{entry['name']}  {entry['status']}  {entry['where']}  {says or entry.get('problem', '')}"
            ).rstrip()
        )
        tools: list[dict[str, Any]] = entry.get("tools", [])
        width = max([len(tool["name"]) for tool in tools], default=0)
        lines += [
            printable(f"  {tool['name']:<{width}}  {tool['effect']:<10}  {one_line(tool['description'], 80)}")
            for tool in tools
        ]
        for name, why in entry.get("left_out", {}).items():
            lines.append(printable(f"  {one_line(name, 60)} left out: {why}"))
    return lines


@mcp_app.command(cls=PlainCommand)
@takes_agent(without=("no_stream",))
def serve(
    workflow: Annotated[
        list[Path] | None,
        typer.Option("--workflow", metavar="FILE", help="A workflow to offer; default those in .loopwright/workflows."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Answer streamable HTTP at /mcp instead of standard input."),
    ] = None,
    settings: AgentSettings = SETTINGS,
) -> None:
    """Offer the agent and workflows of a project as an MCP server.

    The tool run_agent gives a task to the agent that `loopwright run` would use with the same options; each call is a
    durable session. Each workflow is a tool too. Over standard input and output until the client is gone; with --http until
    SIGTERM, without authentication: so only for addresses of this machine.
    """
    host, port = _address(http)
    files = mcp_serving.workflow_files(settings.workspace or str(Path.cwd()), tuple(map(str, workflow or ())))
    raise typer.Exit(asyncio.run(mcp_serving.serve_mcp(settings, files, host=host, port=port)))


def _address(http: str | None) -> tuple[str | None, int]:
    """Host and port; (None, 0) for standard input. Raises: `ConfigError`, also for an address that others can reach."""
    if http is None:
        return None, 0
    host, _, port = http.rpartition(":")
    host = host or "127.0.0.1"
    if host not in ("127.0.0.1", "localhost", "::1", "[::1]"):
        raise ConfigError(
            f"--http {http}: whoever reaches it can run the agent, and it asks for no password; use 127.0.0.1 and put a "
            "server of yours in front of it"
        )
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise ConfigError(f"--http {http}: must be HOST:PORT, for example 127.0.0.1:8420")
    return host.strip("[]"), int(port)
