"""What a way to a server gives, and what it says when it ends.

Owns: the two streams of messages, and the reason why they ended. Must not know: how they are made.
Read next: `mcp_stdio.py`, `mcp_http.py`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from msgspec import Struct

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Of one message of a server; a longer one ends the connection, so that memory stays bounded."""

MAX_MESSAGES_PER_SECOND: Final = 1_000
"""Of messages that answer nothing; a server that sends more is flooding us, and the connection ends."""

MAX_MESSAGES_BETWEEN: Final = 10_000
"""Of messages between two answers, however slowly they come."""

MAX_JUNK_LINES: Final = 100
"""Lines in a row that are no messages, as of a program that prints its log to standard output."""

MAX_TAIL_CHARS: Final = 800
"""What is kept of what a server printed, for the text of errors: the end of it."""


class Streams(Struct, frozen=True):
    """An open way to a server."""

    read: Any
    """A stream of the SDK's messages and errors."""
    write: Any


class McpRoute(Protocol):
    """One way to one server; made anew for each attempt to connect."""

    def opened(self) -> AbstractAsyncContextManager[Streams]:
        """Opens it; what was started is gone when the block ends, however it ends.

        Raises: `OSError` or `McpUnavailableError` where it cannot be opened. Concurrency: entered and left in one task.
        """
        ...

    @property
    def why_it_ended(self) -> str | None:
        """What the way itself saw go wrong, in words; None when it saw nothing."""
        ...

    @property
    def is_refused(self) -> bool:
        """True when trying again cannot help before somebody set something right."""
        ...

    @property
    def is_forgotten(self) -> bool:
        """True when the server does not know our session any more, so that it did not do what it was asked."""
        ...

    @property
    def last_words(self) -> str:
        """The end of what the server printed beside its messages; "" when there is nothing to read."""
        ...
