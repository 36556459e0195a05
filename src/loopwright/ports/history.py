"""The seam to what was said earlier in a session, as a tool's handler sees it.

Owns: `SessionHistory`, and the pieces that a send consists of. Must not know: records, how the journal is read.
Read next: `tool.py`, `../tools/recall.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct


class HistoryPiece(Struct, frozen=True, gc=False):
    """One thing that was said or done in a send, verbatim."""

    label: int
    """Of the send; a model sees it as `#134`."""
    part: int
    """Number of the piece in its send, from 1. A result stands right behind its call."""
    who: str
    """Who said it or what it is: "person", "assistant", "call of look", "result of look" …"""
    text: str
    """Whole, with words in brackets in the place of pictures and files."""
    artifact_id: str | None = None
    """The stored output of which `text` shows head and tail; None when `text` is all of it."""
    reply: int = 0
    """How many replies of the send there were, this one included."""
    is_own: bool = True
    """False for what a person said."""


class SessionHistory(Protocol):
    """What was said in a session and, in a fork, in its base up to there; folded or not.

    Reads the journal in pages, never the whole of it at once. From the event loop of the run.
    """

    def pieces(self, label: int) -> AsyncIterator[HistoryPiece]:
        """What was said in one send, in order. Raises: `ToolFailure` naming the nearest labels when there is no such send."""
        ...

    async def search(
        self, query: str, *, limit: int, from_send: int | None = None, to_send: int | None = None
    ) -> Sequence[HistoryPiece]:
        """The pieces with any word of `query` that the model does not see verbatim any more, best first, the newest among equals.

        A query without words finds its characters as they are; a blank one, the beginning of each such send, newest first.
        `from_send` and `to_send` are the lowest and the highest label that count. At most `limit` pieces.
        """
        ...
