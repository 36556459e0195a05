"""The line in which tool steps of a run wait for their records to be stored: the run itself stores them.

Owns: `WorkflowLine`. Must not know: what the records are for. A run writes its journal in one place, so that between what
it decides and what it stores nothing else can happen. Read next: `workflow_run.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..late import Late
from ..model.call_errors import OnCommitError
from ..model.records import Record
from ..ports.settling import settled
from ..ports.store import Op
from .commit_line import CommitLine
from .journal import Journal

if TYPE_CHECKING:
    from . import taking_back
else:
    taking_back = Late("loopwright.engine.taking_back")


class LineEntry(Struct):
    """Records of one tool step, and who waits for them."""

    records: Sequence[Record]
    ops: tuple[Op, ...]
    place: asyncio.Future[None]
    by_itself: bool = False
    """They are written alone: an intent, or with work inside of the transaction."""


class WorkflowLine(CommitLine):
    """Takes what tool steps want stored; the run asks for it."""

    __slots__ = ("_event", "_over", "_wanted")

    def __init__(self, journal: Journal, event: asyncio.Event) -> None:
        super().__init__(journal)
        self._event = event
        self._wanted: list[LineEntry] = []
        self._over = False

    async def append(self, records: Sequence[Record], ops: tuple[Op, ...] = ()) -> None:
        """See `Journal.append`."""
        await self._stand(records, ops, by_itself=False)

    async def alone(self, records: Sequence[Record], *ops: Op) -> None:
        """See `Journal.alone`."""
        await self._stand(records, ops, by_itself=True)

    async def _stand(self, records: Sequence[Record], ops: tuple[Op, ...], *, by_itself: bool) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wanted.append(LineEntry(records, ops, place, by_itself))
        self._event.set()
        if self._over:
            await self.rest()
        _, cancelled = await settled(place)
        if cancelled is not None:
            raise cancelled

    def next_alone(self) -> LineEntry | None:
        """The first that is written by itself."""
        return self._next(by_itself=True)

    def together(self) -> list[LineEntry]:
        """Everything else that waits."""
        found: list[LineEntry] = []
        while (one := self._next(by_itself=False)) is not None:
            found.append(one)
        return found

    def _next(self, *, by_itself: bool) -> LineEntry | None:
        for place, one in enumerate(self._wanted):
            if one.by_itself is by_itself:
                return self._wanted.pop(place)
        return None

    async def write(self, wanted: LineEntry) -> None:
        """Writes one by itself; what its work raises is for who waits, and the run goes on."""
        try:
            await self._journal.commit(wanted.records, sync=wanted.by_itself and not wanted.ops, ops=wanted.ops)
        except OnCommitError as error:
            await taking_back.take_back(self._journal)
            told([wanted], error)
        except BaseException as error:
            told([wanted], error)
            raise
        else:
            told([wanted])

    async def rest(self) -> None:
        """The run stores nothing any more: what still comes is written as it comes."""
        self._over = True
        while self._wanted and not self._in_flight:
            self._in_flight = True
            try:
                await self.write(self._wanted.pop(0))
            except Exception as error:  # noqa: BLE001 - whoever waits for these records was told
                waiting, self._wanted = self._wanted, []
                told(waiting, error)
            finally:
                self._in_flight = False


def told(waiting: Sequence[LineEntry], error: BaseException | None = None) -> None:
    """Says to who waits that it is stored, or why not."""
    for one in waiting:
        if not one.place.done():
            if error is None:
                one.place.set_result(None)
            else:
                one.place.set_exception(error)
