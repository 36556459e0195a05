"""What the model sees of a result, and where the rest of it is.

Owns: keeping a long output and large data whole as artifacts, cutting what is shown, reading a part of an output.
Must not know: who made the output.
Read next: `core/calls.py` for the cut, `core/text_ranges.py` for parts.
"""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from ..core.calls import LargeData, as_data, pointer_to, shortened
from ..core.state import State
from ..core.text_ranges import encoded, slice_of, span_to_read
from ..core.unseen import unseen_text
from ..late import Late
from ..model.call_errors import ToolFailure
from ..model.messages import Content, FilePart, ImagePart, TextPart, content_text
from ..ports.tool import OutputSlice, ToolDefinition
from .attachments import may_read, put_away_parts
from .kernel import Kernel

if TYPE_CHECKING:
    from ..core import fold_plan
else:
    fold_plan = Late("loopwright.core.fold_plan")

_PIECE: Final = 256 * 1024
"""Characters made to bytes at once: one step of the interpreter, during which no other thread runs."""

_TEXTS: Final = ("text/", "application/json")
"""Beginnings of media types of which parts can be read as text."""


async def within_limit(
    kernel: Kernel, state: State, content: Content, tool: ToolDefinition | None
) -> tuple[Content, str | None]:
    """(what the model sees, id of the artifact that holds the whole text); no artifact when it fits.

    The limit is the tool's or the loop's, or less: all results of a reply have to fit into a share of the context budget.
    Pictures and files go as `put_away_parts` says. Memory: the text once more as bytes.
    """
    session_id = state.facts.session_id
    content = await put_away_parts(kernel, session_id, content)
    if not isinstance(content, str):
        content = await _with_room(kernel, state, content)
    text = content_text(content)
    limit = (None if tool is None else tool.output_limit) or kernel.config.tool_output_limit
    if state.facts.send is not None and state.facts.send.start.context_budget_tokens is not None:
        limit = fold_plan.shown_characters(state, text, limit)
    if len(text) <= limit:
        return content, None
    data, lines = _packed(text) if len(text) <= _PIECE else await asyncio.to_thread(_packed, text)
    artifact_id = await _put(kernel, session_id, data, "text/plain")
    if limit == 0:
        return f"[not shown: read_output(artifact_id={artifact_id!r})]", artifact_id
    return shortened(content, limit, pointer_to(artifact_id, text, limit, lines)), artifact_id


async def _with_room(
    kernel: Kernel, state: State, content: tuple[TextPart | ImagePart | FilePart, ...]
) -> tuple[TextPart | ImagePart | FilePart, ...]:
    """The parts with a text in place of each picture and file for which the context budget has no room; they are kept."""
    first = fold_plan.shown_parts(state, content)
    out = list(content[:first])
    for part in content[first:]:
        if not isinstance(part, TextPart):
            if part.data is not None:
                artifact_id = await _put(kernel, state.facts.session_id, part.data, part.media_type)
                part = structs.replace(part, data=None, artifact_id=artifact_id)
            part = TextPart(unseen_text(part, "the context budget has no room for it"))
        out.append(part)
    return tuple(out)


async def kept_data(kernel: Kernel, session_id: str, value: Any) -> Any:
    """Data as the record holds it: the JSON value, or where it is when it is large."""
    data = as_data(value)
    if not isinstance(data, LargeData):
        return data
    artifact_id = await _put(kernel, session_id, data.body, "application/json")
    return {"artifact_id": artifact_id, "media_type": "application/json", "bytes": len(data.body)}


async def read_slice(kernel: Kernel, session_id: str, artifact_id: str, offset: int, limit: int) -> OutputSlice:
    """See `ToolContext.read_output`."""
    found = await kernel.store.artifact(artifact_id)
    if found is None or not await may_read(kernel.store, session_id, found):
        raise ToolFailure(f"no stored output {artifact_id!r} in this session")
    if not found.media_type.startswith(_TEXTS):
        raise ToolFailure(f"{artifact_id!r} is {found.media_type} of {found.size} bytes and no text")
    first, length = span_to_read(found.size, offset, limit)
    data = await kernel.store.read_artifact(artifact_id, offset=first, limit=length) if length else b""
    return slice_of(data, first, found.size, offset, limit)


async def _put(kernel: Kernel, session_id: str, data: bytes, media_type: str) -> str:
    kernel.ambient.reach("artifact.before")
    artifact = await kernel.store.put_artifact(session_id, data, media_type)
    kernel.ambient.reach("artifact.after")
    return artifact.artifact_id


def _packed(text: str) -> tuple[bytes, int]:
    """(bytes, lines) of a text."""
    out, lines = io.BytesIO(), 0
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE]
        out.write(encoded(piece))
        lines += piece.count("\n")
    return out.getvalue(), lines + (not text.endswith("\n"))
