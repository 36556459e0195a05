"""The tool that reads stored outputs: `read_output`.

Owns: parts by position and by lines, places of a word, and how they are shown. Must not know: where outputs are kept.
Read next: `core/text_ranges.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from msgspec import Meta

from ..core.text_ranges import TextSearch, encoded
from ..model.call_errors import ToolFailure
from ..ports.ambient import breathe
from ..ports.tool import OutputSlice, ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of

MAX_PLACES: Final = 50
"""Places of a word shown at once."""

PAGE_BYTES: Final = 256 * 1024
"""Read at once where an output is gone through."""


def read_output_tool() -> ToolDefinition:
    """`read_output`: any part of a tool output of which the model saw head and tail. Effect pure."""

    @tool(description=description_of("read_output"), effect="pure", output_limit=60_000, touches="session")
    async def read_output(
        artifact_id: str,
        ctx: ToolContext,
        offset: Annotated[int, Meta(ge=0)] = 0,
        limit: Annotated[int, Meta(ge=1, le=50_000)] = 20_000,
        line: Annotated[int, Meta(ge=1)] | None = None,
        lines: Annotated[int, Meta(ge=1)] | None = None,
        search: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None,
    ) -> str:
        """Read stored output.

        Args:
            artifact_id: The id that the shortened output names.
            offset: First byte to show, from 0; with search, where the search begins.
            limit: Bytes to show.
            line: First line to show, from 1, in place of an offset.
            lines: Lines to show; without it, as many as fit into limit.
            search: Text to find; answers with the places where it stands, each with its line and offset.
        """
        if line is not None and (offset or search is not None):
            raise ToolFailure(
                "give one of line, offset and search; to search from some place on, give offset and search"
            )
        if search is not None:
            return await _places(ctx, artifact_id, search, offset)
        if line is not None:
            offset = await _start_of(ctx, artifact_id, line)
        part = await ctx.read_output(artifact_id, offset=offset, limit=limit)
        return _shown(part if lines is None else _first_lines(part, lines), line)

    return read_output


async def _pages(
    ctx: ToolContext, artifact_id: str, begin: int = 0, end: int | None = None
) -> AsyncIterator[OutputSlice]:
    """The output in pieces from byte `begin` on, up to byte `end`; others get their turn between them."""
    while end is None or begin < end:
        part = await ctx.read_output(
            artifact_id, offset=begin, limit=min(PAGE_BYTES, (end or begin + PAGE_BYTES) - begin)
        )
        if not part.text:
            return
        yield part
        begin = part.end
        await breathe()


async def _start_of(ctx: ToolContext, artifact_id: str, line: int) -> int:
    """The byte with which a line begins. Raises `ToolFailure` when there are fewer lines."""
    before, size = 1, 0
    async for part in _pages(ctx, artifact_id):
        more = part.text.count("\n")
        if before + more >= line:
            at = 0
            for _ in range(line - before):
                at = part.text.index("\n", at) + 1
            return part.start + len(encoded(part.text[:at]))
        before, size = before + more, part.size
    raise ToolFailure(f"the output has {before} lines and {size} bytes; line {line} is past its end")


async def _places(ctx: ToolContext, artifact_id: str, word: str, begin: int) -> str:
    line = 1
    async for part in _pages(ctx, artifact_id, 0, begin):
        line += part.text.count("\n")
    search = TextSearch(word, MAX_PLACES + 1, line, begin)
    async for part in _pages(ctx, artifact_id, begin):
        search.feed(part.text, last=part.end >= part.size)
        if search.is_full:
            break
    shown = [f"line {found.line}, offset {found.at}: {found.text}" for found in search.found[:MAX_PLACES]]
    if not shown:
        return (
            f"({word!r} is not in the output{f' from offset {begin} on' if begin else ''}; upper and lower case differ)"
        )
    if search.is_full:
        shown.append(f"(there are more; go on with offset={search.found[MAX_PLACES].at})")
    return "\n".join(shown)


def _shown(part: OutputSlice, line: int | None) -> str:
    """A part with where to go on; `line`: the number of its first line, where that is known."""
    if not part.text:
        return f"(nothing at offset {part.start}: the output has {part.size} bytes)"
    if part.end >= part.size:
        return part.text
    last = part.text.removesuffix("\n").count("\n")
    counted = "" if line is None else f"lines {line} to {line + last}, "
    return f"{part.text}\n({counted}bytes {part.start} to {part.end} of {part.size}; continue with offset={part.end})"


def _first_lines(part: OutputSlice, count: int) -> OutputSlice:
    end = 0
    for _ in range(count):
        end = part.text.find("\n", end) + 1
        if end == 0:
            return part
    text = part.text[:end]
    return OutputSlice(text, part.start, part.start + len(encoded(text)), part.size)
