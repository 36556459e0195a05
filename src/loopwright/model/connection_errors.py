"""Errors of connections to servers of other people; a part of the tree in `errors.py`.

Owns: these classes, their codes and their facts. Must not know: connections.
"""

from __future__ import annotations

from .errors import RetryLaterError, RunError


class McpUnavailableError(RetryLaterError):
    """An MCP server cannot be reached; nothing was asked of it, so the call may be made again."""

    code = "mcp.unavailable"

    def __init__(self, server: str, why: str) -> None:
        self.server = server
        self.why = why
        """In words, with the end of what the server printed."""
        super().__init__(f"MCP server {server!r} is not available: {why}")


class McpAnswerError(RunError):
    """An MCP server answered a request with an error, with something that is no answer, or not in time."""

    code = "mcp.answer"

    def __init__(self, server: str, request: str, why: str) -> None:
        self.server = server
        self.request = request
        self.why = why
        super().__init__(f"MCP server {server!r}, {request}: {why}")


class McpLostError(RunError):
    """An MCP server went away before it answered a request that was sent; what it did is not known."""

    code = "mcp.lost"

    def __init__(self, server: str, request: str, why: str) -> None:
        self.server = server
        self.request = request
        self.why = why
        """In words, with the end of what the server printed."""
        super().__init__(f"MCP server {server!r} went away during {request}: {why}")
