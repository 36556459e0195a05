"""Commits of one session that are wanted while another one is under way.

Owns: the line they stand in, and that what waits goes together. Must not know: what the records are for.
Loaded with the first tool result. Read next: `journal.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..late import Late
from ..model.call_errors import OnCommitError
from ..model.records import Record
from ..ports.settling import settled
from ..ports.store import Op

if TYPE_CHECKING:
    from . import taking_back
    from .journal import Journal
else:
    taking_back = Late("loopwright.engine.taking_back")

_tasks: set[asyncio.Task[None]] = set()

Waiting: TypeAlias = tuple[Sequence[Record], tuple[Op, ...], "asyncio.Future[None]"]
"""Records and operations that go with the next commit, and who waits for it."""


class CommitLine:
    """The line of one journal; an object because who waits and who writes belong together."""

    __slots__ = ("_in_flight", "_journal", "_merging")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._in_flight = False
        self._merging: list[Waiting] = []

    async def append(self, records: Sequence[Record], ops: tuple[Op, ...] = ()) -> None:
        """See `Journal.append`."""
        if self._in_flight:
            place = asyncio.get_running_loop().create_future()
            self._merging.append((records, ops, place))
            _, cancelled = await settled(place)
            if cancelled is not None:
                raise cancelled
            return
        await self._in_line(records, sync=False, ops=ops)

    async def alone(self, records: Sequence[Record], *ops: Op) -> None:
        """See `Journal.alone`."""
        while self._in_flight:
            await self.append(())
        await self._in_line(records, sync=not ops, ops=ops)

    async def _in_line(self, records: Sequence[Record], *, sync: bool, ops: tuple[Op, ...] = ()) -> None:
        self._in_flight = True
        refused: Exception | None = None
        try:
            try:
                await self._journal.commit(records, sync=sync, ops=ops)
            except OnCommitError as error:
                refused = error
                await taking_back.take_back(self._journal)
        except BaseException as error:
            self._fail_merging(error)
            raise
        finally:
            self._in_flight = False
            if self._merging:
                self._start_merged()
        if refused is not None:
            raise refused

    def _fail_merging(self, error: BaseException) -> None:
        """What waits to be written after a commit that failed cannot be written either."""
        if isinstance(error, asyncio.CancelledError):
            return  # that commit is done; only its caller was cancelled
        merging, self._merging = self._merging, []
        for *_, place in merging:
            if not place.done():
                place.set_exception(error)

    def _start_merged(self) -> None:
        merging, self._merging = self._merging, []
        _tasks.add(task := asyncio.get_running_loop().create_task(self._write_merged(merging)))
        task.add_done_callback(_tasks.discard)
        self._in_flight = True

    async def _write_merged(self, merging: list[Waiting]) -> None:
        try:
            together = [record for records, _, _ in merging for record in records]
            ops = tuple([op for _, ops, _ in merging for op in ops])
            if together or ops:
                await self._journal.commit(together, ops=ops)
        except BaseException as error:
            self._merging = [*merging, *self._merging]
            self._fail_merging(error)
            if not isinstance(error, Exception):
                raise
        else:
            for *_, place in merging:
                if not place.done():
                    place.set_result(None)
        finally:
            self._in_flight = False
            if self._merging:
                self._start_merged()
