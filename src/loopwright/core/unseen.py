"""Pictures and files: how many bytes they are, where those are, and the text in place of one that a model cannot see.

Owns: these rules, for requests of every protocol and for what the engine cannot fetch. Must not know: stores, providers.
Read next: `engine/attachments.py`.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from msgspec import structs

from ..model.messages import Content, FilePart, ImagePart, TextPart

INLINE_BYTES: Final = 4096
"""A picture or file of more bytes is stored beside the journal and named in it."""


def size_of(content: Content) -> int:
    """Characters of its texts and bytes of its pictures and files that it carries itself."""
    if isinstance(content, str):
        return len(content)
    return sum([len(part.text) if isinstance(part, TextPart) else len(part.data or b"") for part in content])


def is_reference(part: TextPart | ImagePart | FilePart) -> TypeGuard[ImagePart | FilePart]:
    """True for a picture or file whose bytes are in an artifact."""
    return not isinstance(part, TextPart) and part.artifact_id is not None and part.data is None and part.url is None


def part_problem(part: TextPart | ImagePart | FilePart) -> str | None:
    """Why nobody can see what a part names, None when they can; the types of its fields are not taken for granted."""
    kind = type(part).__name__
    if isinstance(part, TextPart):
        text: Any = part.text
        return None if isinstance(text, str) else f"{kind}.text must be text, not {type(text).__name__}"
    data: Any = part.data
    if data is not None and not isinstance(data, bytes | bytearray):
        hint = f"; read the file first: {kind}(data=Path(...).read_bytes())" if isinstance(data, str) else ""
        return f"{kind}.data must be the bytes themselves, not {type(data).__name__}{hint}"
    given = [name for name in _PLACES if getattr(part, name) not in (None, "")]
    if len(given) == 1:
        return None
    return f"{kind} needs exactly one of data, url and artifact_id; it has {' and '.join(given) or 'none of them'}"


_PLACES: Final = ("data", "url", "artifact_id")


def usable(content: Content) -> tuple[Content, bool]:
    """`content` with a text in place of each part that names nothing, and whether it is all there."""
    if isinstance(content, str):
        return content, True
    parts: list[TextPart | ImagePart | FilePart] = []
    for part in content:
        why = part_problem(part)
        if why is None:
            parts.append(part)
        elif isinstance(part, TextPart):
            parts.append(TextPart(f"[text not shown: {why}]"))
        else:
            parts.append(TextPart(unseen_text(structs.replace(part, data=None), why)))
    whole = all(new is old for new, old in zip(parts, content, strict=True))
    return (content, True) if whole else (tuple(parts), False)


def unseen_text(part: ImagePart | FilePart, why: str = "this model cannot read it") -> str:
    """A text in place of `part` which says that it was not seen and where it is."""
    kind = "image" if isinstance(part, ImagePart) else "file"
    name = part.name if isinstance(part, FilePart) else ""
    place = part.url or (f"artifact {part.artifact_id}" if part.artifact_id else "")
    size = f"{len(part.data)} bytes" if part.data is not None else ""
    facts = ", ".join(fact for fact in (part.media_type, name, place, size) if fact)
    return f"[{kind} not shown: {why}; you have NOT seen it ({facts})]"
