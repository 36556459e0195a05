"""What stands below the lines that a command prints, drawn again and again while it works.

Owns: when it is drawn, and that only the thread of the event loop draws: a thread of its own would do so between what a
print erases and what it writes. Must not know: what is drawn. Read next: `live_screen.py`, `workflow_screen.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

FRAMES_PER_S: Final = 10


class LiveBottom:
    """The part at the bottom of a terminal that changes; begun in a running event loop, gone when it is stopped."""

    def __init__(self, console: Console, shown: Callable[[], RenderableType]) -> None:
        self._live = Live(
            get_renderable=shown,
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._frame)

    def refresh(self) -> None:
        """Draws it now."""
        self._live.refresh()

    def stop(self) -> None:
        """Takes it away."""
        self._next.cancel()
        self._live.stop()

    def _frame(self) -> None:
        self._live.refresh()
        self._next = self._loop.call_later(1 / FRAMES_PER_S, self._frame)
