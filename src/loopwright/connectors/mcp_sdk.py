"""The one door to the official SDK (extra `mcp`).

Owns: what is used of it, by name, and what is said where it is missing. Must not know: anything else of ours.
It takes a good part of a second to load, so only modules that speak to a server import this one.
Read next: `mcp_session.py`.
"""

from __future__ import annotations

import logging

from ..model.errors import ConfigError

try:
    import anyio
    import httpx2
    import mcp_types as types
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client.session import ClientRequestContext, ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
    from mcp.shared.dispatcher import CallOptions
    from mcp.shared.exceptions import MCPError
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
    from mcp.shared.message import SessionMessage
    from mcp.shared.transport_context import TransportContext
    from mcp_types import methods
    from pydantic import TypeAdapter, ValidationError
except ImportError as error:
    raise ConfigError(
        f"MCP needs the package mcp 2 or newer ({error}); pip install 'loopwright[mcp]' (from a clone: pip install '.[mcp]')"
    ) from error

for _name in ("client", "mcp"):
    # It logs what a server does wrong with tracebacks; a program that set up no logging would have them on its terminal.
    logging.getLogger(_name).addHandler(logging.NullHandler())

__all__ = [
    "CallOptions",
    "ClientRequestContext",
    "ClientSession",
    "JSONRPCDispatcher",
    "ListenNotSupportedError",
    "MCPError",
    "MemoryObjectReceiveStream",
    "MemoryObjectSendStream",
    "SessionMessage",
    "SubscriptionLost",
    "TransportContext",
    "TypeAdapter",
    "ValidationError",
    "anyio",
    "httpx2",
    "listen",
    "methods",
    "streamable_http_client",
    "types",
]
