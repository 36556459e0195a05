"""The seam to memory across sessions: what a send may be told that its journal does not say, and what is kept of a send.

Owns: the Protocol and its values. Must not know: where memories are kept, how they are put into a request.
Read next: `memory_index.py` for keeping them in a store, `context/store_memory.py` for the provider that does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from ..model.messages import Message


class RecalledMemory(Struct, frozen=True, kw_only=True):
    """One thing remembered, as the model will read it."""

    text: str
    source: str = ""
    """Where it is from, for events and hooks: an id of the provider's own; "" when it has none."""
    score: float = 0.0
    """Higher fits better; comparable within one answer only."""


class MemorySnapshot(Struct, frozen=True, kw_only=True):
    """A send at its end, whatever the end was."""

    session_id: str
    messages: tuple[Message, ...]
    """Those of this send in order, its input first."""
    final_text: str
    """The answer; "" when there is none."""
    rounds: int
    """Model calls of the send."""
    status: str
    """Its outcome: "completed", "cancelled", "failed", …"""
    metadata: dict[str, Any] = {}
    """What the host gave the session, as it gave it."""


class MemoryProvider(Protocol):
    """Remembers across sessions.

    What it answers is data for the model, never an instruction with authority. Whatever it raises, and however long it
    takes, no send fails for it: a call that raises or exceeds its time is left out.
    Concurrency: sessions call it side by side. Cancel: a call may be cancelled at any await.
    """

    async def recall(
        self, messages: Sequence[Message], session_id: str, budget_tokens: int
    ) -> Sequence[RecalledMemory]:
        """What fits to `messages` (the window; the newest input is its last user message), best first; () when nothing does.

        Called once a send. All texts together should cost at most `budget_tokens`: what is over is left out from the end.
        """
        ...

    async def remember(self, snapshot: MemorySnapshot, session_id: str) -> None:
        """Keeps what is worth it of a send that ended. May be called again for the same send after a crash."""
        ...
