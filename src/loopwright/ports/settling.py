"""The seam between a commit and the task that waits for it.

Owns: `Settling`. Must not know: what settles.
Read next: `store.py`.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Settling(asyncio.Future[T]):
    """A future that its waiter cannot cancel: it always gets the result of what was begun.

    A task that is cancelled while it awaits one goes on waiting; the cancellation reaches it together with the result.
    Stores that return it save the engine a shield around each commit.
    """

    def cancel(self, msg: object = None) -> bool:
        """Refuses: what was begun is finished."""
        return False
