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

    @tool(
        name=RECALL_SEND,
        description=description_of(RECALL_SEND),
        effect="pure",
        output_limit=_OUTPUT_LIMIT,
        touches="session",
    )
    async def recall_send(send: int | str, ctx: ToolContext, part: _FROM_ONE = 1, offset: _FROM_ZERO = 0) -> str:
        """Read a send.

        Args:
            send: The number that is shown for it, like #134.
            part: First piece to show, from 1.
            offset: Where in that piece to go on; only that piece is shown then.
        """
        label = _label(send)
        lines = [prompt("recalled")]
        room, last = ANSWER_CHARS, 0
        async for piece in ctx.history.pieces(label):
            last = piece.part
            if last < part:
                continue
            if offset:
                lines += await _read(ctx, piece, offset, REST_CHARS)
                break
            if room <= 0:
                lines.append(f"({_call(piece)} goes on)")
                break
            shown = await _read(ctx, piece, 0, PIECE_CHARS)
            lines += shown
            room -= sum(map(len, shown))
        if last < part:
            return f"(#{label} has {last} parts)"
        return "\n".join(lines)

    return recall_send


def recall_folded_tool() -> ToolDefinition:
    """`recall_folded`: the words of a query in what the window does not show verbatim any more. Effect pure."""

    @tool(
        name=RECALL_FOLDED,
        description=description_of(RECALL_FOLDED),
        effect="pure",
        output_limit=_OUTPUT_LIMIT,
        touches="session",
    )
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
            lines += _excerpt(piece, query, each)
        return "\n".join(lines)

    return recall_folded


class RecallingTools:
    """A host's tools and, behind them, those that a window with labels needs, where the host has none of that name."""

    def __init__(self, tools: ToolSource) -> None:
        self._tools = tools
        self._own = ToolRegistry.of(recall_send_tool(), recall_folded_tool())

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


async def _read(ctx: ToolContext, piece: HistoryPiece, offset: int, limit: int) -> list[str]:
    """A piece from an offset on: characters of its text, or bytes of the stored output that it is the head and tail of."""
    start, end, size = offset, min(offset + limit, len(piece.text)), len(piece.text)
    text = piece.text[start:end]
    if piece.artifact_id is not None:
        try:
            stored = await ctx.read_output(piece.artifact_id, offset=offset, limit=limit)
            start, end, size, text = stored.start, stored.end, stored.size, stored.text
        except ToolFailure as failure:
            text = f"{text}\n({failure})"
    if start >= size > 0:
        return [_heading(piece), f"(nothing at offset {offset}: it ends at {size})"]
    lines = [_heading(piece), quoted(text)]
    if end < size:
        lines.append(f"({_call(piece, end)} goes on; it ends at {size})")
    return lines


def _excerpt(piece: HistoryPiece, query: str, limit: int) -> list[str]:
    """A piece, or what stands around a word of the query in it."""
    size = len(piece.text)
    start = max(first_place(piece.text, query) - limit // 4, 0) if size > limit else 0
    lines = [_heading(piece), quoted(piece.text[start : start + limit])]
    if size > limit or piece.artifact_id is not None:
        lines.append(f"({_call(piece)} shows all of it)")
    return lines


def _heading(piece: HistoryPiece) -> str:
    return f"#{piece.label}, part {piece.part}, {' '.join(piece.who.split())[:LISTED_CHARS]}:"


def _call(piece: HistoryPiece, offset: int = 0) -> str:
    return f"{RECALL_SEND}(send={piece.label}, part={piece.part}{f', offset={offset}' if offset else ''})"


def _beginning(text: str) -> str:
    line = " ".join(text[: LISTED_CHARS * 4].split())
    return line if len(line) <= LISTED_CHARS else f"{line[: LISTED_CHARS - 1]}…"


def _label(given: int | str) -> int:
    """The number of a send. Raises: `ToolFailure` for what is none."""
    digits = str(given).strip().removeprefix("#")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise ToolFailure(f"{given!r} is no number of a send; it looks like #134 or 134")
    return int(digits)
