"""Connections for hosts that name one server in code.

Owns: their short forms. Must not know: files. Both are `McpConnection`s: `async with` connects and closes.
Read next: `mcp_connection.py`, `mcp_tools.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from .mcp_connection import McpConnection
from .mcp_file import McpServerSpec
from .mcp_talk import Sample


class StdioMCPClient(McpConnection):
    """A server that is a program: `command` with `args`, found through PATH, in `cwd`.

    `env` is added to a short list of harmless variables (`HARMLESS` in `mcp_stdio.py`); keys of this process are not passed
    on. The program runs in a process group of its own, which is gone when the connection is closed.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
        name: str | None = None,
        call_timeout_s: float = 120.0,
        sample: Sample | None = None,
    ) -> None:
        spec = McpServerSpec(
            name=name or PurePath(command).name,
            command=command,
            args=tuple(args),
            env=dict(env or {}),
            cwd=cwd,
            call_timeout_s=call_timeout_s,
        )
        super().__init__(spec, sample=sample)


class HttpMCPClient(McpConnection):
    """A server that answers streamable HTTP at `url`. `headers` go with every request, and to no other origin."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        call_timeout_s: float = 120.0,
        sample: Sample | None = None,
    ) -> None:
        spec = McpServerSpec(
            name=name or urlsplit(url).hostname or "http",
            url=url,
            headers=dict(headers or {}),
            call_timeout_s=call_timeout_s,
        )
        super().__init__(spec, sample=sample)
