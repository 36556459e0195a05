"""The seam to how a finished send is shown in later windows.

Owns: the Protocol and what it gets. Must not know: implementers (`context/`), when it is asked (`engine/epochs.py`).
Read next: `core/window.py`.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..model.messages import Message
from .tool import ToolSource


class FinishedSend(Struct, frozen=True):
    """One send that is over, as it was said."""

    label: int
    """What `recall_send` takes; shown as `#134`."""
    messages: tuple[Message, ...]
    """Verbatim: what people said, replies, results, in order; begins with what it was asked."""
    tools: ToolSource
    """The tools as they are now, for their own accounts of a call (`ToolDefinition.project`)."""
    asides: frozenset[int] = frozenset()
    """Places in `messages` of what the engine said itself: to go on, to correct an answer, to come to an end."""


class Representation(Protocol):
    """How finished sends are shown. What it answers is stored with the session: later windows never ask again.

    Concurrency: called from the session's turn, one send after the other; must not block. Whatever it raises leaves that
    send verbatim, with a line in the log.
    """

    @property
    def kind(self) -> str:
        """A name of this way of showing; sessions remember it. "verbatim" is taken."""
        ...

    @property
    def version(self) -> int:
        """From 1; another number makes all sends of the window be projected anew."""
        ...

    def project(self, send: FinishedSend) -> tuple[Message, ...] | None:
        """The messages that stand for `send`; None leaves it verbatim.

        They must be valid by themselves: each call answered, at least one message.
        """
        ...
