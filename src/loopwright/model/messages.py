"""What is said: messages with typed parts, in one provider-neutral shape.

Owns: the message union that windows, requests and journals hold, and reading OpenAI-style dicts into it.
Must not know: how a provider writes them on the wire (see `transports/`).
Read next: `records.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct, json

from .errors import InvalidMessageError


class TextPart(Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class ImagePart(Struct, frozen=True, gc=False, tag_field="type", tag="image", omit_defaults=True):
    """A picture, by exactly one of bytes, address or artifact."""

    media_type: str = "image/png"
    data: bytes | None = None
    """Raw bytes; None when the picture is referenced."""
    url: str | None = None
    """An address the provider can fetch; None when the bytes are here or in an artifact."""
    artifact_id: str | None = None
    """Id in the store's artifacts; resolved to bytes right before a request."""
    detail: str | None = None
    """Provider hint such as "low" or "high"; None leaves the choice to the provider."""


class FilePart(Struct, frozen=True, gc=False, tag_field="type", tag="file", omit_defaults=True):
    """A document, by exactly one of bytes, address or artifact."""

    media_type: str = "application/pdf"
    name: str = ""
    data: bytes | None = None
    url: str | None = None
    artifact_id: str | None = None


class ReasoningPart(Struct, frozen=True, gc=False, tag_field="type", tag="reasoning"):
    """Readable reasoning of the model; what the provider must get back is in `ProviderState`."""

    text: str


class ToolCall(Struct, frozen=True, gc=False, tag_field="type", tag="tool_call"):
    """One tool call as the model wrote it."""

    id: str
    """The provider's id; unique within its message, not across messages."""
    name: str
    arguments: str
    """The argument text exactly as sent; may be empty, cut off or not JSON."""

    def parsed(self) -> dict[str, Any]:
        """The arguments as a dict; empty text means `{}`.

        Raises: `ValueError` when the text is not one JSON object. Nothing is ever repaired by guess.
        """
        if not self.arguments.strip():
            return {}
        value = json.decode(self.arguments.encode("utf-8", "replace"))
        if not isinstance(value, dict):
            raise ValueError(f"arguments must be a JSON object, not {type(value).__name__}")
        return cast("dict[str, Any]", value)


class ProviderState(Struct, frozen=True, gc=False):
    """What one provider needs back, untouched: signatures, encrypted items, ids, content blocks."""

    provider: str
    """The transport family that wrote it: "anthropic", "openai", "openai-responses"; others ignore it."""
    model: str
    """The model that answered; some providers bind signatures to it."""
    data: Any
    """A JSON value in that family's own shape."""


Content: TypeAlias = str | tuple[TextPart | ImagePart | FilePart, ...]
"""Text, or parts in the order in which they are meant to be read."""


class SystemMessage(Struct, frozen=True, gc=False, tag_field="role", tag="system"):
    """Instructions with authority; rendered as the provider wants them."""

    content: str


class UserMessage(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """Something said to the model."""

    content: str | tuple[TextPart | ImagePart | FilePart, ...]

    @property
    def text(self) -> str:
        """The text parts joined by nothing; "" when there is none."""
        return content_text(self.content)


class AssistantMessage(Struct, frozen=True, gc=False, tag_field="role", tag="assistant", omit_defaults=True):
    """One reply of the model, in the order it was written."""

    parts: tuple[TextPart | ReasoningPart | ToolCall, ...] = ()
    provider_state: ProviderState | None = None

    @property
    def text(self) -> str:
        """The text parts joined by nothing."""
        parts = self.parts
        if len(parts) == 1 and type(parts[0]) is TextPart:
            return parts[0].text
        return "".join([p.text for p in parts if type(p) is TextPart])

    @property
    def reasoning(self) -> str:
        """The readable reasoning joined by nothing."""
        return "".join([p.text for p in self.parts if type(p) is ReasoningPart])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order they were written."""
        parts = self.parts
        if len(parts) == 1 and type(parts[0]) is not ToolCall:
            return ()
        return tuple([p for p in parts if type(p) is ToolCall])


class ToolResultMessage(Struct, frozen=True, gc=False, tag_field="role", tag="tool", omit_defaults=True):
    """The answer to one tool call."""

    call_id: str
    name: str
    content: str | tuple[TextPart | ImagePart | FilePart, ...]
    ok: bool = True
    """False when the tool failed, was refused, skipped or never ran."""

    @property
    def text(self) -> str:
        """The text parts joined by nothing."""
        return content_text(self.content)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage
"""Everything that can stand in a window."""

MessageLike: TypeAlias = Message | Mapping[str, Any] | Sequence[TextPart | ImagePart | FilePart]
"""A message, an OpenAI-style dict of one, or the parts of what a user says."""


_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolResultMessage)


def content_text(content: str | tuple[TextPart | ImagePart | FilePart, ...]) -> str:
    """The text in `content`, parts joined by nothing; pictures and files contribute nothing."""
    if isinstance(content, str):
        return content
    return "".join([p.text for p in content if type(p) is TextPart])


def is_blank(content: str | tuple[TextPart | ImagePart | FilePart, ...]) -> bool:
    """True when there is neither visible text nor any other part."""
    if isinstance(content, str):
        return not content.strip()
    return all(type(p) is TextPart and not p.text.strip() for p in content)


def as_message(value: MessageLike | str) -> Message:
    """A typed message from a typed message, a string or a list of parts (said by the user) or an OpenAI-style dict.

    Accepts the Chat Completions shape (developers.openai.com, November 2026): roles system, developer,
    user, assistant and tool; content as text or as parts of type text, image_url, input_image, image,
    file, input_file and reasoning.
    Raises: `InvalidMessageError` that names what is wrong.
    """
    if isinstance(value, str):
        return UserMessage(value)
    if isinstance(value, _MESSAGES):
        return value
    if isinstance(value, list | tuple):
        return _parts_said(cast("list[Any]", value))
    if not isinstance(value, Mapping):
        raise InvalidMessageError(
            f"a message is text, a message value, a list of parts or a dict, not {type(value).__name__}"
        )
    role = value.get("role")
    content = value.get("content")
    if role in ("system", "developer"):
        return SystemMessage(content_text(_content(content)))
    if role == "user":
        return UserMessage(_content(content))
    if role == "assistant":
        return _assistant(value)
    if role == "tool":
        call_id = value.get("tool_call_id") or value.get("call_id")
        if not call_id:
            raise InvalidMessageError("a message of role tool needs tool_call_id")
        return ToolResultMessage(
            str(call_id), str(value.get("name") or ""), _content(content), ok=bool(value.get("ok", True))
        )
    raise InvalidMessageError(f"unknown message role {role!r}; use system, developer, user, assistant or tool")


def _parts_said(values: list[Any]) -> UserMessage:
    if any(isinstance(one, _MESSAGES) or (isinstance(one, Mapping) and "role" in one) for one in values):
        raise InvalidMessageError("one message was expected, not a list of messages; a list is taken as its parts")
    return UserMessage(_content(values))


def as_messages(values: Iterable[MessageLike | str]) -> tuple[Message, ...]:
    """`as_message` over many."""
    return tuple([as_message(v) for v in values])


def _assistant(value: Mapping[str, Any]) -> AssistantMessage:
    parts: list[TextPart | ReasoningPart | ToolCall] = []
    reasoning = value.get("reasoning_content") or value.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        parts.append(ReasoningPart(reasoning))
    if text := content_text(_content(value.get("content"))):
        parts.append(TextPart(text))
    for index, call in enumerate(value.get("tool_calls") or ()):
        function = call.get("function") or call
        arguments: Any = function.get("arguments", "")
        text = str(arguments) if isinstance(arguments, str) else json.encode(arguments).decode()
        parts.append(ToolCall(str(call.get("id") or f"call_{index}"), str(function.get("name", "")), text))
    return AssistantMessage(tuple(parts))


def _content(value: Any) -> str | tuple[TextPart | ImagePart | FilePart, ...]:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise InvalidMessageError(f"content must be text or a list of parts, not {type(value).__name__}")
    return tuple([_part(p) for p in cast("list[Any]", value)])


def _part(value: Any) -> TextPart | ImagePart | FilePart:
    if isinstance(value, str):
        return TextPart(value)
    if isinstance(value, TextPart | ImagePart | FilePart):
        return value
    part: Mapping[str, Any] = _mapping(value)
    kind: Any = part.get("type")
    if kind in ("text", "input_text", "output_text"):
        return TextPart(str(part.get("text") or ""))
    if kind in ("image_url", "input_image"):
        return _image(part)
    if kind in ("file", "input_file"):
        inner = _mapping(part.get("file", part))
        if inner.get("file_id"):
            raise InvalidMessageError("files by provider id are not supported; give file_data or file_url")
        media_type, data = _data_url(str(inner.get("file_data") or ""), "application/pdf")
        return FilePart(media_type, str(inner.get("filename") or ""), data, inner.get("file_url"))
    raise InvalidMessageError(f"unknown content part {kind!r}; use text, image_url or file")


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidMessageError(f"a content part must be an object, not {type(value).__name__}")
    return cast("Mapping[str, Any]", value)


def _image(part: Mapping[str, Any]) -> ImagePart:
    target: Any = part.get("image_url") or ""
    detail: Any = part.get("detail")
    if not isinstance(target, str):
        inner = _mapping(target)
        target, detail = inner.get("url", ""), inner.get("detail")
    media_type, data = _data_url(str(target), "image/png")
    return ImagePart(media_type, data, None if data is not None else str(target), detail=detail)


def _data_url(url: str, default_type: str) -> tuple[str, bytes | None]:
    if not url.startswith("data:"):
        return default_type, None
    head, _, body = url[5:].partition(",")
    media_type = head.partition(";")[0] or default_type
    if not head.endswith(";base64"):
        return media_type, body.encode()
    try:
        return media_type, base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise InvalidMessageError(f"a data: URL of type {media_type} is not base64") from error
