"""The MCP servers that a command offers to its agent.

Owns: which file is meant, what is said of servers that do not come. Must not know: how servers are reached.
A file in a project names programs to start. So it is read only when a person says so, with `--mcp`: working in a folder
that somebody else made must not run what stands in it.
Read next: `agent_setup.py`, `../connectors/mcp_servers.py`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..late import Late
from ..model.errors import ConfigError
from .journal_lines import counted, printable

if TYPE_CHECKING:
    from ..connectors import mcp_file, mcp_servers
    from ..connectors.mcp_tools import ToolShelf
else:
    mcp_file = Late("loopwright.connectors.mcp_file")
    mcp_servers = Late("loopwright.connectors.mcp_servers")


class McpChoice(Protocol):
    """The part of the settings that names servers."""

    @property
    def mcp(self) -> bool:
        """The file of the workspace is wanted."""
        ...

    @property
    def mcp_config(self) -> str | None:
        """Another file."""
        ...


def chosen_file(choice: McpChoice, workspace: str) -> Path | None:
    """The file that is meant; None when none is. Raises: `ConfigError` when there is none where one is wanted."""
    if choice.mcp_config is not None:
        return Path(choice.mcp_config)
    if not choice.mcp:
        return None
    found = mcp_file.find_mcp_file(workspace)
    if found is None:
        raise ConfigError(
            f"--mcp: {workspace} has none of {', '.join(mcp_file.PLACES)}; write one, or name a file with --mcp-config"
        )
    return found


def check(choice: McpChoice, workspace: str, env: Mapping[str, str]) -> None:
    """Reads the file and starts nothing. Raises: `ConfigError` with all that is wrong with it."""
    path = chosen_file(choice, workspace)
    if path is not None:
        mcp_file.read_mcp_file(path, env=env)


@asynccontextmanager
async def offered(choice: McpChoice, workspace: str, env: Mapping[str, str], tools: ToolShelf) -> AsyncGenerator[None]:
    """The servers run while the block does, their tools are in `tools`; without a choice nothing is loaded or started."""
    path = chosen_file(choice, workspace)
    if path is None:
        yield
        return
    async with mcp_servers.connect_mcp(path, env=env, roots=(workspace,)) as servers:
        names = await servers.register(tools)
        for problem in servers.problems.values():
            sys.stderr.write(f"loopwright: {printable(problem)}; its tools are not there\n")
        for server, left_out in servers.left_out.items():
            sys.stderr.write(f"loopwright: MCP server {server}: {counted(len(left_out), 'tool')} left out: ")
            sys.stderr.write(f"{printable(', '.join(f'{name} ({why})' for name, why in left_out.items()))}\n")
        running = len(servers.connections) - len(servers.problems)
        sys.stderr.write(f"loopwright: {counted(len(names), 'tool')} of {counted(running, 'MCP server')}\n")
        yield
