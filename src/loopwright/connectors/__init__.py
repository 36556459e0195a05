"""Servers of other people, as tools: the Model Context Protocol (extra `mcp`).

Owns: the names for hosts, resolved on first use. Must not know: the engine, other tools.
Read next: `mcp_connection.py`, `mcp_tools.py`, `mcp_servers.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model.connection_errors import McpAnswerError, McpLostError, McpUnavailableError
    from .mcp_clients import HttpMCPClient, StdioMCPClient
    from .mcp_connection import McpConnection, McpState
    from .mcp_file import McpFile, McpServerSpec, find_mcp_file, read_mcp_file
    from .mcp_sampling import SampledByModel
    from .mcp_servers import McpServers, connect_mcp
    from .mcp_talk import SampleReply, SampleRequest
    from .mcp_tools import McpToolOptions, MCPToolSource, register_mcp_tools

_HOME = {
    "HttpMCPClient": ".mcp_clients",
    "MCPToolSource": ".mcp_tools",
    "McpAnswerError": "..model.connection_errors",
    "McpConnection": ".mcp_connection",
    "McpFile": ".mcp_file",
    "McpLostError": "..model.connection_errors",
    "McpServerSpec": ".mcp_file",
    "McpServers": ".mcp_servers",
    "McpState": ".mcp_connection",
    "McpToolOptions": ".mcp_tools",
    "McpUnavailableError": "..model.connection_errors",
    "SampleReply": ".mcp_talk",
    "SampleRequest": ".mcp_talk",
    "SampledByModel": ".mcp_sampling",
    "StdioMCPClient": ".mcp_clients",
    "connect_mcp": ".mcp_servers",
    "find_mcp_file": ".mcp_file",
    "read_mcp_file": ".mcp_file",
    "register_mcp_tools": ".mcp_tools",
}

__all__ = [
    "HttpMCPClient",
    "MCPToolSource",
    "McpAnswerError",
    "McpConnection",
    "McpFile",
    "McpLostError",
    "McpServerSpec",
    "McpServers",
    "McpState",
    "McpToolOptions",
    "McpUnavailableError",
    "SampleReply",
    "SampleRequest",
    "SampledByModel",
    "StdioMCPClient",
    "connect_mcp",
    "find_mcp_file",
    "read_mcp_file",
    "register_mcp_tools",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
