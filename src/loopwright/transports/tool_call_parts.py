"""Tool calls of one reply, put together from pieces and made unambiguous.

Owns: which piece belongs to which call, ids that are missing or used twice. Must not know: a protocol, JSON.
Read next: `openai_chat.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..model.messages import ToolCall
from ..ports.llm import ToolCallDelta


class CallParts:
    """One call while it is being put together."""

    __slots__ = ("arguments", "extras", "id", "index", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        """Position among the calls of the reply."""
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extras: dict[str, Any] = {}
        """Fields beside id, name and arguments that the provider wants back."""


class CallPiece(Struct, frozen=True):
    """One piece of a call as a provider sent it."""

    index: int | None
    """Which call the provider says it is."""
    position: int | None
    """Place among several pieces that came together; None for one that came alone."""
    id: str | None
    name: str | None
    arguments: str | None


class CallAssembly:
    """Sorts pieces of calls by index, else by id, else by position.

    A piece without an index and with a new id begins a call; one with neither continues the newest, unless it names
    a function again. A piece with a known index but another id and a name begins a new call, too: some servers give
    every call the index 0.
    """

    def __init__(self, host_names: Mapping[str, str]) -> None:
        self.calls: list[CallParts] = []
        self._by_index: dict[int, CallParts] = {}
        self._by_id: dict[str, CallParts] = {}
        self._host_names = host_names

    def add(self, piece: CallPiece) -> tuple[CallParts, ToolCallDelta]:
        """Takes one piece; returns its call and the delta to show."""
        call = self._find(piece)
        first_id = first_name = ""
        if piece.id and not call.id:
            call.id = first_id = piece.id
            self._by_id[piece.id] = call
        if piece.name and not call.name:
            call.name = first_name = self._host_names.get(piece.name, piece.name)
        if piece.arguments:
            call.arguments.append(piece.arguments)
        return call, ToolCallDelta(call.index, first_id, first_name, piece.arguments or "")

    def _find(self, piece: CallPiece) -> CallParts:
        if piece.index is not None:
            found = self._by_index.get(piece.index)
            if found is None or (piece.id and piece.name and found.id and found.id != piece.id):
                found = self._by_index[piece.index] = self._begin()
            return found
        if piece.id:
            return self._by_id.get(piece.id) or self._begin()
        position = len(self.calls) - 1 if piece.position is None else piece.position
        if not 0 <= position < len(self.calls) or (piece.name and self.calls[position].name):
            return self._begin()
        return self.calls[position]

    def _begin(self) -> CallParts:
        call = CallParts(len(self.calls))
        self.calls.append(call)
        return call

    def finished(self) -> tuple[ToolCall, ...]:
        """The calls; one that never got a name or arguments was no call."""
        real = [call for call in self.calls if call.name or call.arguments]
        ids = unique_ids([call.id for call in real])
        for call, call_id in zip(real, ids, strict=True):
            call.id = call_id
        self.calls = real
        return tuple([ToolCall(call.id, call.name, "".join(call.arguments)) for call in real])


def unique_ids(ids: Iterable[str]) -> list[str]:
    """The ids, a missing one as `call_<index>`, one that was used before as `<id>_2`, `<id>_3`, …"""
    taken: set[str] = set()
    result: list[str] = []
    for index, given in enumerate(ids):
        name = wanted = given or f"call_{index}"
        count = 1
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        result.append(name)
    return result
