"""Pictures and files: out of a message before it is stored, back into it right before a model is asked.

Owns: which bytes become artifacts, and what a request gets in their place. Must not know: who said the message.
An artifact is stored before the record or inbox item that names it: a crash between them leaves one that nothing names,
which is swept. Equal bytes have one id in a session, so saying a picture again stores nothing.
Read next: `core/unseen.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from ..core.unseen import INLINE_BYTES, is_reference, size_of, unseen_text
from ..model.errors import StoreError
from ..model.messages import Content, FilePart, ImagePart, TextPart, ToolResultMessage, UserMessage
from ..ports.llm import LLMRequest
from .kernel import Kernel

if TYPE_CHECKING:
    from ..ports.artifact import Artifact
    from ..ports.store_admin import SessionStore

HELD_BYTES: Final = 64 * 1024 * 1024
"""Of pictures and files that a run keeps at hand between its rounds."""

THREAD_BYTES: Final = 256 * 1024
"""From here on bytes are looked through in a thread."""


async def put_away(kernel: Kernel, session_id: str, message: UserMessage) -> UserMessage:
    """The message as it is stored: see `put_away_parts`."""
    if type(message.content) is not tuple:
        return message
    content = await put_away_parts(kernel, session_id, message.content)
    return message if content is message.content else structs.replace(message, content=content)


async def put_away_parts(kernel: Kernel, session_id: str, content: Content) -> Content:
    """Content whose pictures and files of over `INLINE_BYTES` are artifacts of the session; the very same when there are none.

    What cannot be kept becomes a text that says so: bytes over `max_message_bytes`, an artifact of another session.
    """
    if isinstance(content, str):
        return content
    left = kernel.config.max_message_bytes
    out: list[TextPart | ImagePart | FilePart] = []
    changed = False
    for part in content:
        kept = await _kept(kernel, session_id, part, left)
        if not isinstance(kept, TextPart):
            left -= size_of((part,))
        out.append(kept)
        changed = changed or kept is not part
    return tuple(out) if changed else content


async def _kept(
    kernel: Kernel, session_id: str, part: TextPart | ImagePart | FilePart, left: int
) -> TextPart | ImagePart | FilePart:
    if isinstance(part, TextPart):
        return part
    if is_reference(part):
        try:
            found = await kernel.store.artifact(str(part.artifact_id))
            if found is not None and await may_read(kernel.store, session_id, found):
                return part
        except StoreError:  # damaged: whoever asks a model with it says so
            return part
        return TextPart(unseen_text(part, "this session has no such artifact"))
    data: Any = part.data  # of whatever type: handlers may come without any
    if data is None:
        return part
    if not isinstance(data, bytes):
        return TextPart(unseen_text(structs.replace(part, data=None), f"it was given as {type(data).__name__}"))
    if len(data) <= INLINE_BYTES:
        return part
    if len(data) > left:
        return TextPart(unseen_text(part, f"it is over the limit of {kernel.config.max_message_bytes} bytes a message"))
    kernel.ambient.reach("artifact.before")
    stored = await kernel.store.put_artifact(session_id, data, str(part.media_type))
    kernel.ambient.reach("artifact.after")
    return structs.replace(part, data=None, artifact_id=stored.artifact_id)


async def may_read(store: SessionStore, session_id: str, found: Artifact) -> bool:
    """True for an artifact of the session, or of another one that it has a share of: it is a fork."""
    if found.session_id == session_id:
        return True
    known = (await store.inventory(session_id)).artifacts
    return any(one.artifact_id == found.artifact_id for one in known)


class Attachments:
    """The bytes that requests of one run need, read from the store once as long as `HELD_BYTES` hold them."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._bytes: dict[str, bytes | None] = {}
        """By artifact, the one used last at the end; None for one that cannot be read."""
        self._held = 0

    async def filled(self, request: LLMRequest) -> LLMRequest:
        """The request with the bytes of each picture and file in it, or with a text where there are none.

        The same for the same window, in whatever process. Raises what a store raises that is away.
        """
        messages = list(request.messages)
        changed = False
        for at, message in enumerate(messages):
            if isinstance(message, UserMessage | ToolResultMessage) and not isinstance(message.content, str):
                content = [await self._part(part) if is_reference(part) else part for part in message.content]
                if any(new is not old for new, old in zip(content, message.content, strict=True)):
                    messages[at] = structs.replace(message, content=tuple(content))
                    changed = True
        return structs.replace(request, messages=tuple(messages)) if changed else request

    async def _part(self, part: ImagePart | FilePart) -> TextPart | ImagePart | FilePart:
        artifact_id = str(part.artifact_id)
        if artifact_id in self._bytes:
            data = self._bytes.pop(artifact_id)
        else:
            data = await self._read(artifact_id)
            self._held += len(data or b"")
        self._bytes[artifact_id] = data
        while self._held > HELD_BYTES and len(self._bytes) > 1:
            self._held -= len(self._bytes.pop(next(iter(self._bytes))) or b"")
        if data is None:
            return TextPart(unseen_text(part, "its stored bytes are missing or damaged"))
        return structs.replace(part, data=data)

    async def _read(self, artifact_id: str) -> bytes | None:
        """The bytes; None when they are gone or not those that were stored."""
        try:
            found = await self._store.artifact(artifact_id)
            data = b"" if found is None else await self._store.read_artifact(artifact_id)
        except StoreError:  # damaged rows, a seal that does not open
            return None
        if found is None or len(data) != found.size:
            return None
        if len(data) < THREAD_BYTES:
            digest = hashlib.sha256(data).hexdigest()
        else:
            digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        return data if digest == found.digest else None
