"""Strict data that names what a model may call and what it must answer.

Owns: tool specs as the model sees them and structured-output specs. Must not know: handlers, providers.
Read next: `ports/llm.py` and `ports/tool.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Any, Literal

from msgspec import Struct

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "error", "unknown"]
"""Why the model stopped, in one vocabulary for all providers; "unknown" when none was given."""


class ToolSpec(Struct, frozen=True, gc=False):
    """One tool as the model sees it."""

    name: str
    """Matches `[A-Za-z0-9_-]{1,64}`."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema (2020-12) of the arguments object."""


class StructuredOutputSpec(Struct, frozen=True, gc=False):
    """The shape that the final answer must have."""

    name: str
    schema: dict[str, Any]
    """JSON Schema (2020-12) whose root is an object."""
    strict: bool = True
    """Ask the provider to enforce it where it can; the answer is validated here in any case."""
    description: str = ""
