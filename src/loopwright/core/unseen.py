"""Pictures and files: how many bytes they are, where those are, and the text in place of one that a model cannot see.

Owns: these rules, for requests of every protocol and for what the engine cannot fetch. Must not know: stores, providers.
Read next: `engine/attachments.py`.
"""

from __future__ import annotations

from typing import Final, TypeGuard

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


def unseen_text(part: ImagePart | FilePart, why: str = "this model cannot read it") -> str:
    """A text in place of `part` which says that it was not seen and where it is."""
    kind = "image" if isinstance(part, ImagePart) else "file"
    name = part.name if isinstance(part, FilePart) else ""
    place = part.url or (f"artifact {part.artifact_id}" if part.artifact_id else "")
    size = f"{len(part.data)} bytes" if part.data is not None else ""
    facts = ", ".join(fact for fact in (part.media_type, name, place, size) if fact)
    return f"[{kind} not shown: {why}; you have NOT seen it ({facts})]"
