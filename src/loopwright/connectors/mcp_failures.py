"""What an error of the SDK means for a request, and in words.

Owns: reading them. Must not know: requests, connections.
Read next: `mcp_connection.py`.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from .mcp_sdk import MCPError, ValidationError, anyio, httpx2, types

MAX_WORDS: Final = 1_000

_GONE: Final = ("Connection closed", "SSE stream ")
"""How the SDK says that no answer will come. Servers use the same code for errors of their own, so the words count."""

OF_A_CONNECTION: Final = (
    OSError,
    MCPError,
    ValidationError,
    RuntimeError,
    ValueError,
    httpx2.HTTPError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    ExceptionGroup,
)
"""All that opening and holding a connection can raise when the server is at fault."""


def verdict(error: BaseException) -> Literal["lost", "session", "answer"]:
    """Whether the server went away, forgot our session before it did anything, or answered with an error."""
    if isinstance(error, MCPError):
        if error.code == types.CONNECTION_CLOSED and error.message.startswith(_GONE):
            return "lost"
        if error.code == types.INVALID_REQUEST and error.message == "Session terminated":
            return "session"
    elif isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return "lost"
    return "answer"


def words(error: BaseException) -> str:
    """What went wrong, in one short line."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, MCPError):
        said = f"{error.message} (error {error.code})"
    elif isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[:1]
        place = ".".join(str(step) for one in first for step in one["loc"])
        said = f"its answer is not as the protocol has it ({place}: {first[0]['msg'] if first else error})"
    else:
        said = str(error) or type(error).__name__
    return " ".join(said.split())[:MAX_WORDS]
