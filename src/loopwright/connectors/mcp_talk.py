"""What a server may ask of us while it works for us.

Owns: its questions and our answers as plain values. Must not know: the SDK, who answers.
Read next: `mcp_connection.py`, `mcp_sampling.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

MAX_QUESTION_CHARS: Final = 4_000
"""Of the text of a question."""


class Elicitation(Struct, frozen=True, kw_only=True):
    """A question of a server for a person."""

    message: str
    schema: dict[str, Any] | None = None
    """JSON Schema of the form to fill in: a flat object. None when the person is to visit `url`."""
    url: str | None = None


class ElicitationAnswer(Struct, frozen=True):
    """What the person said."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    """What was filled in; for `accept` of a form."""


class SampleRequest(Struct, frozen=True, kw_only=True):
    """A server wants our model to write something."""

    server: str
    system_prompt: str | None
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    """Role and text; pictures and sound are named in the text."""
    max_tokens: int


class SampleReply(Struct, frozen=True):
    """What the model wrote."""

    text: str
    model: str
    is_cut: bool = False
    """True when it reached its limit."""


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
"""Asks a person. Runs in the task of the call; what it raises ends the call, and the server is told to stop."""

Sample: TypeAlias = Callable[[SampleRequest], Awaitable[SampleReply]]
"""Asks a model. Raises: `ToolFailure` to refuse, with the reason that the server may hear."""

Progress: TypeAlias = Callable[[float, float | None, str], None]
"""How far a call is: done, of how much (None: unknown), and what it says. Quick; never raises."""
