"""What is wrong with the settings of a tool.

Owns: that list. Must not know: functions, registries.
Read next: `decorator.py`, `registry.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from ..ports.tool import ToolDefinition

if TYPE_CHECKING:
    from ..ports.tool_retry import ToolRetry

MAX_ATTEMPTS = 10
"""Calls of a handler that a tool may ask for."""

_EFFECTS = ("pure", "idempotent", "once")


def settings_problems(tool: ToolDefinition) -> list[str]:
    """Everything that is wrong with the settings of a definition; none of it depends on other tools."""
    problems: list[str] = []
    if tool.effect not in _EFFECTS:
        problems.append(f"effect {tool.effect!r} is unknown; use {', '.join(_EFFECTS)}")
    if tool.timeout_s is not None and not tool.timeout_s > 0:
        problems.append(f"timeout_s must be over 0, not {tool.timeout_s!r}")
    if tool.output_limit is not None and tool.output_limit < 1:
        problems.append(f"output_limit must be at least 1 character, not {tool.output_limit!r}")
    if tool.max_parallel is not None and not _is_count(tool.max_parallel, 1):
        problems.append(f"max_parallel must be a whole number from 1 on, not {tool.max_parallel!r}")
    if tool.retry is not None:
        problems += _retry_problems(tool, tool.retry)
    if tool.background and tool.handler is None:
        problems.append("background needs a handler: a call that the host answers is waited for anyway")
    return [f"tool {tool.name!r}: {problem}" for problem in problems]


def _retry_problems(tool: ToolDefinition, retry: ToolRetry) -> list[str]:
    problems: list[str] = []
    if tool.effect == "once":
        problems.append("retry is for tools that are declared pure or idempotent; a once tool is never run again")
    if not _is_count(retry.attempts, 2) or retry.attempts > MAX_ATTEMPTS:
        problems.append(f"retry.attempts must be 2 to {MAX_ATTEMPTS}, not {retry.attempts!r}")
    pause: Any = retry.backoff_s
    if isinstance(pause, bool) or not isinstance(pause, int | float) or not 0 <= pause < math.inf:
        problems.append(f"retry.backoff_s must be 0 or more seconds, not {pause!r}")
    if not _is_choice(retry.on):
        problems.append(f"retry.on must be a tuple of exception classes or a function of the error, not {retry.on!r}")
    return problems


def _is_choice(on: object) -> bool:
    if not isinstance(on, tuple):
        return callable(on)
    kinds = cast("tuple[object, ...]", on)
    return all(isinstance(one, type) and issubclass(one, BaseException) for one in kinds)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
