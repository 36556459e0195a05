"""The seam between a commit and the task that waits for it.

Owns: `Settling`, `Settled`, and how both and any other awaitable are waited for. Must not know: what settles.
Read next: `store.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Settling(asyncio.Future[T]):
    """A future that its waiter cannot cancel: it always gets the result of what was begun.

    A task that is cancelled while it awaits one goes on waiting; the cancellation reaches it together with the result.
    Stores that return it save the engine a shield around each commit.
    """

    def cancel(self, msg: object = None) -> bool:
        """Refuses: what was begun is finished."""
        return False


class Settled(Generic[T]):
    """What a call answers that was done at once: awaiting it neither waits nor lets others run.

    Carries the result or, instead, the error, which is raised where it is awaited.
    """

    __slots__ = ("error", "value")

    def __init__(self, value: T, error: BaseException | None = None) -> None:
        """`value` means nothing beside an `error`."""
        self.value = value
        self.error = error

    def __await__(self) -> Generator[Any, Any, T]:
        if self.error is not None:
            raise self.error
        yield from ()  # nothing: it makes this a generator, as `await` needs one
        return self.value


async def settled(work: Awaitable[T]) -> tuple[T, asyncio.CancelledError | None]:
    """The result of `work`, waited for even when this task is cancelled meanwhile; the cancellation comes beside it."""
    if isinstance(work, Settling):
        try:
            return await work, None
        except asyncio.CancelledError as error:
            return work.result(), error
    future = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:
            if not future.done():
                raise
    return future.result(), cancelled
