"""What a server sent, as the content of a result of ours.

Owns: texts marked as coming from outside, pictures and files with their bytes, bounds. Must not know: connections, the SDK.
Values in, values out. Read next: `mcp_tools.py`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from msgspec import json

from ..core.fencing import from_outside, inside
from ..model.messages import FilePart, ImagePart, TextPart
from ..ports.tool import ToolHandlerResult
from .mcp_schemas import misfit

Part: TypeAlias = TextPart | ImagePart | FilePart

MAX_BLOCKS: Final = 100
"""Parts of one result; what is beyond is counted."""
MAX_LABEL: Final = 200

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}", re.IGNORECASE)


def result_of(
    result: Mapping[str, Any], *, source: str, output_schema: dict[str, Any] | None = None
) -> ToolHandlerResult:
    """The result of a tool of a server, whatever is in it; `source` says where its text is from.

    Structured content goes to the host as `data`, and to the model where the server sent no text beside it. What does not
    fit `output_schema` is said, and the result stands.
    """
    failed = result.get("isError") is True
    blocks = result.get("content")
    structured = result.get("structuredContent")
    parts = parts_of(cast("list[object]", blocks) if isinstance(blocks, list) else [], source)
    notes: list[str] = []
    if structured is not None:
        if not parts:
            parts = [TextPart(from_outside(source, _json(structured)))]
        if output_schema is not None and not failed and (why := misfit(output_schema, structured)) is not None:
            notes.append(f"[the structured result does not fit the schema that the server promised: {inside(why)}]")
    elif output_schema is not None and not failed:
        notes.append("[the server promised a structured result and sent none]")
    if result.get("unheard"):
        notes.append(
            "[the server asked a question that could not be put to anybody: none of its calls can ask here, or several ran "
            "at once; call it alone if the answer matters]"
        )
    parts += [TextPart(note) for note in notes]
    if not parts:
        parts = [TextPart("(failed without a word)" if failed else "(no content)")]
    only = parts[0]
    content = only if len(parts) > 1 or not isinstance(only, TextPart) else only.text
    data = None if structured is None else {"structuredContent": structured}
    return ToolHandlerResult(tuple(parts) if len(parts) > 1 else content, ok=not failed, data=data)


def parts_of(blocks: Sequence[Any], source: str) -> list[Part]:
    """Content blocks of the protocol as parts; neighbouring texts are one part, in one frame."""
    parts: list[Part] = []
    texts: list[str] = []
    for block in blocks[:MAX_BLOCKS]:
        made = _part(cast("dict[str, Any]", block) if isinstance(block, dict) else {})
        if isinstance(made, str):
            texts.append(made)
            continue
        _close(parts, texts, source)
        parts.append(made)
    if len(blocks) > MAX_BLOCKS:
        texts.append(f"[{len(blocks) - MAX_BLOCKS} more parts are left out]")
    _close(parts, texts, source)
    return parts


def contents_of(contents: Iterable[Any], source: str) -> list[Part]:
    """What reading a resource gave, as parts."""
    return parts_of([{"type": "resource", "resource": one} for one in contents], source)


def _close(parts: list[Part], texts: list[str], source: str) -> None:
    if texts:
        parts.append(TextPart(from_outside(source, "\n".join(texts))))
        texts.clear()


def _part(block: dict[str, Any]) -> str | ImagePart | FilePart:
    kind = block.get("type")
    if kind == "text":
        return _text(block.get("text"))
    if kind in ("image", "audio"):
        return _binary(block.get("data"), _media_type(block), str(kind))
    if kind == "resource_link":
        label = ", ".join(
            _text(block[key])[:MAX_LABEL] for key in ("name", "mimeType", "description") if block.get(key)
        )
        return f"[resource {_text(block.get('uri'))[:2_000]}: {label}]"
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, dict):
        return _resource(cast("dict[str, Any]", resource))
    return f"[content of a kind that is not known: {_text(kind)[:MAX_LABEL]}]"


def _resource(resource: dict[str, Any]) -> str | ImagePart | FilePart:
    uri = _text(resource.get("uri"))[:2_000]
    if isinstance(resource.get("text"), str):
        return f"[resource {uri}]\n{resource['text']}"
    return _binary(resource.get("blob"), _media_type(resource), uri.rstrip("/").rpartition("/")[2][:MAX_LABEL])


def _binary(data: object, media_type: str, name: str) -> str | ImagePart | FilePart:
    if not isinstance(data, str):
        return f"[{name or 'a file'} without data]"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{name or 'a file'} whose data is not base64]"
    if not raw:
        return f"[{name or 'a file'} that is empty]"
    if media_type.startswith("image/"):
        return ImagePart(media_type=media_type, data=raw)
    return FilePart(media_type=media_type, name=inside(name), data=raw)


def _media_type(block: Mapping[str, Any]) -> str:
    given = block.get("mimeType")
    name = given.partition(";")[0].strip().lower() if isinstance(given, str) else ""
    return name if _MEDIA_TYPE.fullmatch(name) else "application/octet-stream"


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: object) -> str:
    try:
        return json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return f"[a value that is no JSON: {type(value).__name__}]"
