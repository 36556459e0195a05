"""What of a journal can be recalled: the pieces of a send, which of them the window does not show, which fit a query.

Owns: these rules. Must not know: stores, tools, how much of a piece is shown.
Read next: `engine/past_sends.py`, `words.py`.
"""

from __future__ import annotations

import json

from msgspec import Struct

from ..model.messages import FilePart, ImagePart, TextPart, ToolCall
from ..model.records import AssistantMessageAdded, Record, ToolFinished, UserMessageAdded
from ..ports.history import HistoryPiece
from .words import WordRanking, plain, query_terms

RECALL_SEND, RECALL_FOLDED = "recall_send", "recall_folded"
"""What these tools were asked and gave is in the journal twice: their calls and results are not searched."""

SPOKEN = frozenset({"user_message_added", "assistant_message_added", "tool_finished"})
"""Kinds of records that pieces are made of."""

_REPEATS = frozenset(f"{what} of {name}" for what in ("call", "result") for name in (RECALL_SEND, RECALL_FOLDED))
_FROM_PEOPLE = frozenset({"send", "inbox"})
_WELL = frozenset({"finished", "answered"})


class SendTelling:
    """Turns the records of one send after the other into pieces; each result comes right behind its call.

    An object because records come in pages. `rest` is asked for after the last record.
    """

    def __init__(self) -> None:
        self._label = 0
        self._part = 0
        self._replies = 0
        self._calls: list[ToolCall] = []
        self._results: dict[str, ToolFinished] = {}

    def begin(self, label: int) -> list[HistoryPiece]:
        """The send `label` starts; answers what was left of the one before."""
        left = self.rest()
        self._label, self._part, self._replies = label, 0, 0
        return left

    def told(self, record: Record) -> list[HistoryPiece]:
        """What can be told after this record, which may be nothing yet."""
        if isinstance(record, ToolFinished):
            self._results.setdefault(record.call_id, record)
            return self.rest() if all(call.id in self._results for call in self._calls) else []
        made = self.rest()
        if isinstance(record, UserMessageAdded):
            own = record.source not in _FROM_PEOPLE
            made.append(
                self._piece(f"loopwright ({record.source})" if own else "person", seen(record.message.content), own=own)
            )
        elif isinstance(record, AssistantMessageAdded):
            self._replies += 1
            if record.message.text:
                made.append(self._piece("assistant", record.message.text))
            self._calls = list(record.message.tool_calls)
        return made

    def rest(self) -> list[HistoryPiece]:
        """Calls that wait for their results, with those that are there."""
        calls, results = self._calls, self._results
        self._calls, self._results = [], {}
        made: list[HistoryPiece] = []
        for call in calls:
            made.append(self._piece(f"call of {call.name}", _arguments(call)))
            if (result := results.get(call.id)) is not None:
                how = "" if result.status in _WELL else f" ({result.status})"
                text = seen(result.content)
                made.append(self._piece(f"result of {call.name}{how}", text, artifact_id=result.artifact_id))
        return made

    def _piece(self, who: str, text: str, *, artifact_id: str | None = None, own: bool = True) -> HistoryPiece:
        self._part += 1
        return HistoryPiece(self._label, self._part, who, text, artifact_id, self._replies, own)


class HiddenPart(Struct, frozen=True):
    """Which pieces of a session the window does not show verbatim."""

    through: int
    """Sends before this label are folded."""
    rounds: int
    """Replies of the send `through` that are folded too."""
    projected: bool
    """Finished sends are shown in another form."""
    newest: int
    """Label of the newest send."""

    def covers(self, piece: HistoryPiece) -> bool:
        """True for a piece that the model may want to read again."""
        if piece.label < self.through or (self.projected and piece.label < self.newest):
            return True
        return piece.label == self.through and piece.is_own and 0 < piece.reply <= self.rounds


class RecallSearch:
    """Which pieces fit a query, as (label, part); keeps no text. An object because pieces come in pages."""

    def __init__(self, query: str) -> None:
        self._terms = query_terms(query)
        self._literal = query.strip().casefold()
        self._ranking: WordRanking[tuple[int, int]] = WordRanking(self._terms)
        self._plain: list[tuple[int, int]] = []

    def look(self, piece: HistoryPiece) -> None:
        """Looks at one piece."""
        if piece.who.partition(" (")[0] in _REPEATS:
            return
        place = (piece.label, piece.part)
        if self._terms:
            self._ranking.add(place, f"{piece.who.partition(' of ')[2]}\n{piece.text}")
        elif self._literal in piece.text.casefold() and (self._literal or piece.part == 1):
            self._plain.append(place)

    def best(self, limit: int) -> list[tuple[int, int]]:
        """The best ones, the newest first among equals."""
        if not self._terms:
            return sorted(self._plain, key=lambda place: (-place[0], place[1]))[:limit]
        found = sorted(self._ranking.scores(), key=lambda hit: (-hit[1], -hit[0][0], -hit[0][1]))
        return [place for place, _ in found[:limit]]


def seen(content: str | tuple[TextPart | ImagePart | FilePart, ...]) -> str:
    """The text of content, with words in the place of pictures and files."""
    if isinstance(content, str):
        return content
    return "\n".join([part.text if isinstance(part, TextPart) else f"[{part.media_type}]" for part in content])


def first_place(text: str, query: str) -> int:
    """Where in `text` the longest word of the query stands; 0 when none does."""
    lowered = text.lower()
    words = sorted({query.strip().lower(), *query.lower().split()}, key=len, reverse=True)
    if len(lowered) == len(text):  # else the places of one are not those of the other
        for word in words:
            if word and (place := lowered.find(word)) >= 0:
                return place
    terms = query_terms(query)
    for place in range(0, len(text), _LOOKED_AT):
        near = plain(text[place : place + 2 * _LOOKED_AT])
        if any(term in near for term in terms):
            return place
    return 0


_LOOKED_AT = 500
"""Characters within which a place is told when the word stands there in another spelling."""


def _arguments(call: ToolCall) -> str:
    """As the model wrote them, with letters in the place of their escapes."""
    if "\\u" not in call.arguments:
        return call.arguments
    try:
        return json.dumps(call.parsed(), ensure_ascii=False)
    except (ValueError, RecursionError):
        return call.arguments
