"""How often a tool's handler is called again when it fails.

Owns: the setting. Must not know: who carries it out (`engine/tool_attempts.py`).
Read next: `tool.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class ToolRetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempts of one call, for tools that are declared `pure` or `idempotent`; all within the tool's time limit."""

    attempts: int = 3
    """Calls of the handler in all, 2 to 10."""
    backoff_s: float = 0.5
    """Pause before the second attempt; doubled before each further one."""
    on: tuple[type[BaseException], ...] | Callable[[BaseException], bool] = (Exception,)
    """Which failures are worth another attempt. What a handler tells the model (`ToolFailure`) never is."""
