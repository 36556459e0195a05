"""What a search for tools returns to the engine.

Owns: `ToolsSought`. Must not know: which tools there are.
Read next: `tools/tool_search.py`, `engine/found_tools.py`.
"""

from __future__ import annotations

from msgspec import Struct


class ToolsSought(Struct, frozen=True):
    """Returned by a handler that looks for tools which were kept back: the engine finds those that this send may use,
    answers the call with them, and shows them to the model from the next round on."""

    query: str
    limit: int = 5
    """Tools to show at most, 1 to 20; more are as good as 20."""
