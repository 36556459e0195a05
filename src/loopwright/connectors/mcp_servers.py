"""All servers of a project together: connected, their tools in one registry, their resources and prompts behind two tools.

Owns: `connect_mcp`, what a server that cannot be reached means for the others. Must not know: how one is reached.
Read next: `mcp_connection.py`, `mcp_tools.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ..model.connection_errors import McpAnswerError, McpLostError, McpUnavailableError
from ..model.errors import ConfigError
from ..ports.tool import ToolDefinition
from .mcp_connection import McpConnection, McpState
from .mcp_file import McpFile, McpServerSpec, read_mcp_file
from .mcp_library import library_tools
from .mcp_talk import Sample
from .mcp_tools import LIMIT_MARGIN_S, McpShelf, McpToolOptions, ToolShelf

FAILURES: Final = (McpUnavailableError, McpAnswerError, McpLostError)


class McpServers:
    """Connections by name; made by `connect_mcp`."""

    def __init__(self, connections: Mapping[str, McpConnection]) -> None:
        self.connections = dict(connections)
        self.problems: dict[str, str] = {}
        """Servers that could not be connected or listed, and why; their tools are not there."""
        self._shelves: dict[str, McpShelf] = {}

    @property
    def states(self) -> dict[str, McpState]:
        """How each of them is now."""
        return {name: connection.state for name, connection in self.connections.items()}

    @property
    def left_out(self) -> dict[str, dict[str, str]]:
        """Tools that are none, by server, and why."""
        return {name: dict(shelf.left_out) for name, shelf in self._shelves.items() if shelf.left_out}

    async def connect(self) -> None:
        """Connects to all of them at once; what fails is in `problems`."""
        self.problems.clear()
        await asyncio.gather(*[self._connect(name) for name in self.connections])

    async def register(self, registry: ToolShelf, *, deferred: bool = False) -> tuple[str, ...]:
        """Registers the tools of all servers that are connected, and those for resources and prompts where there are any.

        The names, server by server. Raises: `ConfigError` with every name that is taken.
        """
        names: list[str] = []
        clashes: list[str] = []
        for name, connection in self.connections.items():
            if name in self.problems:
                continue
            try:
                options = options_of(connection.spec, deferred=deferred)
                self._shelves[name] = shelf = await McpShelf.filled(registry, connection, options)
                names += shelf.names
            except ConfigError as error:
                clashes += error.problems
            except FAILURES as error:
                self.problems[name] = str(error)
        if clashes:
            raise ConfigError(clashes)
        for definition in self._library():
            registry.register(definition)
            names.append(definition.name)
        return tuple(names)

    async def aclose(self) -> None:
        """Stops all of them; safe to call twice."""
        await asyncio.gather(*[connection.aclose() for connection in self.connections.values()])

    def _library(self) -> tuple[ToolDefinition, ...]:
        """The tools for resources and prompts, where a server has any."""
        having = {
            what: {name: one for name, one in self.connections.items() if what in one.state.offers}
            for what in ("resources", "prompts")
        }
        return library_tools(having["resources"], having["prompts"])

    async def _connect(self, name: str) -> None:
        try:
            await self.connections[name].connect()
        except FAILURES as error:
            self.problems[name] = str(error)


@asynccontextmanager
async def connect_mcp(
    source: str | Path | McpFile | Sequence[McpServerSpec],
    *,
    env: Mapping[str, str] | None = None,
    sample: Sample | None = None,
    roots: Sequence[str | Path] = (),
    make: Callable[[McpServerSpec], McpConnection] | None = None,
) -> AsyncGenerator[McpServers]:
    """The servers of a file or of specs, connected; closed when the block ends, however it ends.

        async with connect_mcp("mcp.json") as servers:
            await servers.register(registry)

    A server that cannot be reached is in `problems`, and the others are there. `env` is where `${NAME}` of a file is looked
    up (default: this process's). `roots` are folders that servers may take for the project. `sample` lets all of them ask a
    model. Raises: `ConfigError` for a file that is wrong, before anything is started.
    """
    if isinstance(source, str | Path):
        source = read_mcp_file(source, env=os.environ if env is None else env)
    specs = source.servers if isinstance(source, McpFile) else tuple(source)
    addresses = tuple([address_of(root) for root in roots])

    def made(spec: McpServerSpec) -> McpConnection:
        return McpConnection(spec, sample=sample, roots=addresses) if make is None else make(spec)

    servers = McpServers({spec.name: made(spec) for spec in specs if not spec.disabled})
    try:
        await servers.connect()
        yield servers
    finally:
        await servers.aclose()


def address_of(root: str | Path) -> str:
    """A folder as servers name it."""
    return Path(root).resolve().as_uri()


def options_of(spec: McpServerSpec, *, deferred: bool = False) -> McpToolOptions:
    """How the tools of a server of a file are taken."""
    return McpToolOptions(
        prefix=spec.name if spec.prefix is None else spec.prefix,
        source=f"MCP server {spec.name}",
        only=spec.tools,
        trust_annotations=spec.trust_annotations,
        timeout_s=spec.start_timeout_s + spec.call_timeout_s + LIMIT_MARGIN_S,
        deferred=deferred,
    )
