"""What a store object is bound to: one process, one event loop, one lifetime.

Owns: the check at the entry of every call. Must not know: what is stored.
Read next: `memory.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from ..model.errors import StoreForkedError, UsageError


class LoopBinding:
    """Binds an object to the event loop of its first use and to the process that made it."""

    def __init__(self, what: str, forget: Callable[[], None]) -> None:
        """`forget` drops what was offered on a loop that was closed before it came to it."""
        self._what = what
        self._forget = forget
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def enter(self) -> asyncio.AbstractEventLoop:
        """The bound loop, which is the running one. Raises `UsageError`, `StoreForkedError`.

        A loop that was closed gives the binding up: nothing can be under way on it any more.
        """
        self.check()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise UsageError(f"{self._what} was called outside of an event loop; await it in a coroutine") from error
        if loop is not self._loop:
            if self._loop is not None and not self._loop.is_closed():
                raise UsageError(
                    f"{self._what} is bound to the event loop of its first use and was called from another;"
                    " open one store object per event loop (they may share the data)"
                )
            self._forget()
            self._loop = loop
        return loop

    def check(self) -> None:
        """Raises when the object was closed or its process is another one; any thread may ask."""
        if self.closed:
            raise UsageError(f"{self._what} is closed; open it again")
        if os.getpid() != self._pid:
            raise StoreForkedError(
                f"{self._what} was opened by process {self._pid} before it forked; open it anew in the child process"
            )

    def is_here(self) -> bool:
        """True when the calling thread runs the bound loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False
