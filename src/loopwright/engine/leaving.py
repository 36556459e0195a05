"""Host code that tries to end more than its own call.

Owns: what becomes of `SystemExit` and `GeneratorExit` that a host's function raises. Must not know: whose function it is.
Read next: `tool_call.py`, `memory_recall.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ..core.calls import text_of

LEAVING: Final = (SystemExit, GeneratorExit)


def refused(leaving: BaseException, who: str, task: asyncio.Task[Any] | None) -> RuntimeError:
    """The error in place of `leaving`, which came out of host code awaited in `task`.

    Raises `leaving` itself when `task` does not run: then the coroutine is being closed, and the host has no part in it.
    """
    if isinstance(leaving, GeneratorExit) and _running() is not task:
        raise leaving
    return RuntimeError(f"{who} tried to end the process ({text_of(leaving) or type(leaving).__name__})")


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # outside of any event loop
        return None
