"""The tools that bring earlier parts of a conversation back, word for word.

Owns: `recall_send`, `recall_folded`, how pieces are shown, and the source that adds them to a host's tools.
Must not know: journals (`engine/past_sends.py`), what fits a query (`core/recall_rules.py`).
Every line of what is quoted begins with "| ", so no quoted text can look like a line of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from ..core.recall_rules import RECALL_FOLDED, RECALL_SEND, first_place
from ..model.call_errors import ToolFailure
from ..ports.history import HistoryPiece
from ..ports.tool import ToolContext, ToolDefinition, ToolSource
from ..prompts import prompt
from .decorator import tool
from .descriptions import description_of
from .read_output import read_output_tool
from .registry import ToolRegistry

PIECE_CHARS = 2_000
"""Shown of each piece."""
REST_CHARS = 8_000
"""Shown of one piece from an offset on."""
ANSWER_CHARS = 16_000
"""After so many characters no further piece is begun."""
LISTED_CHARS = 120
_LEAST_CHARS = 200
_OUTPUT_LIMIT = 40_000

_SHORT = Annotated[int, Meta(ge=1, le=50)]
_FROM_ONE = Annotated[int, Meta(ge=1)]
_FROM_ZERO = Annotated[int, Meta(ge=0)]


def recall_send_tool() -> ToolDefinition:
    """`recall_send`: one send of the session as it was, folded or not, in pieces of 2,000 characters. Effect pure."""

    @tool(name=RECALL_SEND, description=description_of(RECALL_SEND), effect="pure", output_limit=_OUTPUT_LIMIT)
    async def recall_send(send: int | str, ctx: ToolContext, part: _FROM_ONE = 1, offset: _FROM_ZERO = 0) -> str:
        """Read a send.

        Args:
            send: The number that is shown for it, like #134.
            part: First piece to show, from 1.
            offset: First character of that piece to show; only that piece is shown then.
        """
        label = _label(send)
        lines = [prompt("recalled")]
        room, last = ANSWER_CHARS, 0
        async for piece in ctx.history.pieces(label):
            last = piece.part
            if last < part:
                continue
            if offset:
                lines += _shown(piece, offset, REST_CHARS)
                break
            if room <= 0:
                lines.append(f"(recall_send(send={label}, part={last}) goes on)")
                break
            shown = _shown(piece, 0, PIECE_CHARS)
            lines += shown
            room -= sum(map(len, shown))
        if last < part:
            return f"(#{label} has {last} parts)"
        return "\n".join(lines)

    return recall_send


def recall_folded_tool() -> ToolDefinition:
    """`recall_folded`: the words of a query in what the window does not show verbatim any more. Effect pure."""

    @tool(name=RECALL_FOLDED, description=description_of(RECALL_FOLDED), effect="pure", output_limit=_OUTPUT_LIMIT)
    async def recall_folded(
        ctx: ToolContext,
        query: str = "",
        limit: _SHORT = 20,
        from_send: int | str | None = None,
        to_send: int | str | None = None,
    ) -> str:
        """Search.

        Args:
            query: Words to look for; without any, the earlier parts are listed, the newest first.
            limit: Pieces to show.
            from_send: Only parts from this number on.
            to_send: Only parts up to this number.
        """
        low = None if from_send is None else _label(from_send)
        high = None if to_send is None else _label(to_send)
        found = await ctx.history.search(query, limit=limit, from_send=low, to_send=high)
        if not found:
            what = "has any of these words" if query.strip() else "is there"
            return f"(nothing {what} among what is not shown word for word any more)"
        lines = [prompt("recalled")]
        if not query.strip():
            return "\n".join([*lines, *[f"#{one.label}:\n{quoted(_beginning(one.text))}" for one in found]])
        each = max(min(PIECE_CHARS, ANSWER_CHARS // len(found)), _LEAST_CHARS)
        for piece in found:
            start = max(first_place(piece.text, query) - each // 4, 0) if len(piece.text) > each else 0
            lines += _shown(piece, start, each)
        return "\n".join(lines)

    return recall_folded


class RecallingTools:
    """A host's tools and, behind them, those that a window with labels and pointers needs, where the host has none of that name."""

    def __init__(self, tools: ToolSource) -> None:
        self._tools = tools
        self._own = ToolRegistry.of(recall_send_tool(), recall_folded_tool(), read_output_tool())

    def get(self, name: str) -> ToolDefinition | None:
        """The host's tool of this name, else ours, else None."""
        return self._tools.get(name) or self._own.get(name)

    def names(self) -> tuple[str, ...]:
        """The host's names and then ours."""
        given = self._tools.names()
        return (*given, *[name for name in self._own.names() if name not in given])

    def problems(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """What the owner of the tool says."""
        owner = self._own if self._tools.get(name) is None and name in self._own else self._tools
        return owner.problems(name, arguments)


def quoted(text: str) -> str:
    """`text` with a mark at the beginning of each line, whatever ends a line in it."""
    return "\n".join([f"| {line}" for line in text.splitlines()] or ["| "])


def _shown(piece: HistoryPiece, start: int, limit: int) -> list[str]:
    size = len(piece.text)
    end = min(start + limit, size)
    who = " ".join(piece.who.split())[:LISTED_CHARS]
    lines = [f"#{piece.label}, part {piece.part}, {who}:"]
    if start >= size > 0:
        return [*lines, f"(nothing at offset {start}: it has {size} characters)"]
    lines.append(quoted(piece.text[start:end]))
    if start > 0 or end < size:
        more = f"recall_send(send={piece.label}, part={piece.part}, offset={end if end < size else 0})"
        lines.append(
            f"(characters {start} to {end} of {size}; {more} {'goes on' if end < size else 'shows the beginning'})"
        )
    if piece.artifact_id is not None:
        lines.append(f"(the whole output: read_output(artifact_id={piece.artifact_id!r}))")
    return lines


def _beginning(text: str) -> str:
    line = " ".join(text[: LISTED_CHARS * 4].split())
    return line if len(line) <= LISTED_CHARS else f"{line[: LISTED_CHARS - 1]}…"


def _label(given: int | str) -> int:
    """The number of a send. Raises: `ToolFailure` for what is none."""
    digits = str(given).strip().removeprefix("#")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise ToolFailure(f"{given!r} is no number of a send; it looks like #134 or 134")
    return int(digits)
