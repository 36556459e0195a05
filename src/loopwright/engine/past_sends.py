"""Reading what was said earlier in a session, for the tools that recall it.

Owns: paging through the journal. Must not know: what fits a query (`core/recall_rules.py`), how it is shown (`tools/recall.py`).
Read next: `core/recall_rules.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from ..core.recall_rules import SPOKEN, HiddenPart, RecallSearch, SendTelling
from ..core.state import State
from ..core.window import is_projected
from ..model.call_errors import ToolFailure
from ..model.codec import decode_record
from ..model.context_records import FoldMade
from ..model.records import Record
from ..ports.history import HistoryPiece
from ..ports.store import Store, StoredRecord
from .threads import in_thread

PAGE = 500
"""Records read, and looked through in a thread, at once."""
NAMED = 2
"""Labels on each side that the error for an unknown one names."""


class JournalHistory:
    """See `ports.history.SessionHistory`; `state` is the session's, as of the last commit."""

    def __init__(self, store: Store, session_id: str, state: State) -> None:
        self._store = store
        self._session_id = session_id
        self._state = state

    async def pieces(self, label: int) -> AsyncIterator[HistoryPiece]:
        """What was said in one send."""
        if label not in await self._labels(label, label + 1):
            raise await self._unknown(label)
        telling = SendTelling()
        async for rows in self._pages(label, self._state.position):
            ends = next((n for n, row in enumerate(rows) if row.kind == "send_started" and row.position != label), None)
            for piece in _told(telling, rows[:ends]):
                yield piece
            if ends is not None:
                break
        for piece in telling.rest():
            yield piece

    async def search(
        self, query: str, *, limit: int, from_send: int | None = None, to_send: int | None = None
    ) -> Sequence[HistoryPiece]:
        """What fits a query, among what the window does not show verbatim."""
        hidden = await self._hidden()
        low = 0 if from_send is None else max(from_send, 0)
        end = self._state.position
        if not hidden.projected and not hidden.rounds:
            end = min(hidden.through, end)
        search, telling = RecallSearch(query), SendTelling()

        def look(pieces: Sequence[HistoryPiece]) -> None:
            for piece in pieces:
                if piece.label >= low and (to_send is None or piece.label <= to_send) and hidden.covers(piece):
                    search.look(piece)

        async for rows in self._pages(low, end):
            await in_thread(partial(_looked, telling, rows, look))
            if to_send is not None and rows[-1].position > to_send and _begins_after(rows, to_send):
                break
        look(telling.rest())
        best = await in_thread(lambda: search.best(limit))
        return await self._at(best)

    async def _at(self, places: Sequence[tuple[int, int]]) -> list[HistoryPiece]:
        """The pieces at these places, in the given order."""
        wanted: dict[int, int] = {}
        for label, part in places:
            wanted[label] = max(part, wanted.get(label, 0))
        found: dict[tuple[int, int], HistoryPiece] = {}
        asked = frozenset(places)
        for label, last in wanted.items():
            async for piece in self.pieces(label):
                if (label, piece.part) in asked:
                    found[label, piece.part] = piece
                if piece.part >= last:
                    break
        return [found[place] for place in places if place in found]

    async def _hidden(self) -> HiddenPart:
        context, send = self._state.facts.context, self._state.facts.send
        through, rounds = 0 if context is None else context.through, 0
        if through:
            async for rows in self._pages(through, self._state.position):
                folds = [_decoded(row) for row in rows if row.kind == "fold_made"]
                rounds += sum([one.rounds for one in folds if isinstance(one, FoldMade) and one.through == through])
        return HiddenPart(through, rounds, is_projected(self._state), 0 if send is None else send.position)

    async def _unknown(self, label: int) -> ToolFailure:
        known = await self._labels(0, self._state.position)
        before = [one for one in known if one < label][-NAMED:]
        after = [one for one in known if one > label][:NAMED]
        near = ", ".join(f"#{one}" for one in (*before, *after))
        return ToolFailure(
            f"no send #{label} in this conversation; the nearest are {near}" if near else f"no send #{label}"
        )

    async def _labels(self, start: int, end: int) -> list[int]:
        """Labels of the sends that start in this part of the journal."""
        return [
            row.position
            async for rows in self._pages(start, min(end, self._state.position))
            for row in rows
            if row.kind == "send_started"
        ]

    async def _pages(self, start: int, end: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """The records of these positions."""
        while 0 <= start < end:
            rows = await self._store.read(self._session_id, after=start, limit=min(PAGE, end - start))
            if not rows:
                return
            yield rows
            start = rows[-1].position + 1


def _told(telling: SendTelling, rows: Sequence[StoredRecord]) -> list[HistoryPiece]:
    made: list[HistoryPiece] = []
    for row in rows:
        if row.kind == "send_started":
            made += telling.begin(row.position)
        elif row.kind in SPOKEN:
            made += telling.told(_decoded(row))
    return made


def _looked(telling: SendTelling, rows: Sequence[StoredRecord], look: Callable[[Sequence[HistoryPiece]], None]) -> None:
    look(_told(telling, rows))


def _decoded(row: StoredRecord) -> Record:
    return decode_record(row.kind, row.version, row.body)


def _begins_after(rows: Sequence[StoredRecord], label: int) -> bool:
    return any(row.kind == "send_started" and row.position > label for row in rows)
