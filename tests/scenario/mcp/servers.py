"""Connections to small servers that misbehave, for tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loopwright.connectors import McpConnection, McpServerSpec

LYING = Path(__file__).with_name("lying_server.py")


def lying(mode: str, mark: Path | str = "", **settings: Any) -> McpServerSpec:
    """The entry of a server that lies in this way; `mark` is a file of its own."""
    limits = {"start_timeout_s": 20.0, "list_timeout_s": 20.0, "call_timeout_s": 20.0, **settings}
    return McpServerSpec(name=mode, command=sys.executable, args=("-S", "-E", str(LYING), mode, str(mark)), **limits)


@asynccontextmanager
async def connected(spec: McpServerSpec, **options: Any) -> AsyncIterator[McpConnection]:
    connection = McpConnection(spec, **options)
    try:
        yield connection
    finally:
        await connection.aclose()
