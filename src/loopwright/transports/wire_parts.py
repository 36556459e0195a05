"""What all three protocols need when a neutral request is written down.

Owns: tool names and call ids that a provider accepts, what a model cannot be shown, JSON that is
valid UTF-8, schemas in instructions, tool specs from dicts.
Must not know: a protocol's shapes, HTTP.
Read next: `openai_chat_request.py`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..model.errors import ConfigError
from ..model.messages import AssistantMessage, FilePart, ImagePart, TextPart, ToolCall
from ..model.specs import StructuredOutputSpec, ToolSpec
from ..ports.llm import LLMRequest
from .json_values import as_list, as_object, loads_bounded, map_texts, section
from .model_capabilities import ModelCapabilities

_ENCODER = msgspec.json.Encoder()
_VALID_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RenderSettings(Struct, frozen=True, kw_only=True):
    """What rendering needs to know beside the request."""

    model: str
    vendor: str
    host: str
    """Where the request goes; state from another host is not sent."""
    capabilities: ModelCapabilities
    max_output_tokens: int | None = None
    temperature: float | None = None
    extra: Mapping[str, Any] = msgspec.field(default_factory=lambda: {})


class RenderedRequest(Struct, frozen=True):
    """One request body and how to read names in its reply."""

    body: dict[str, Any]
    host_names: dict[str, str]
    """Tool names as the provider knows them to the names that they stand for; holds only those that differ."""
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {})
    """Headers that this body needs beside the service's own."""


class WireNames:
    """Tool names as a provider accepts them: `[A-Za-z0-9_-]{1,64}`, changed only where needed.

    Raises: `ConfigError` when two tools would get the same name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._wire: dict[str, str] = {}
        taken: dict[str, str] = {}
        for name in names:
            wire = _sanitised(name)
            if taken.setdefault(wire, name) != name:
                raise ConfigError(f"tools {taken[wire]!r} and {name!r} are both {wire!r} for the provider; rename one")
            self._wire[name] = wire

    def wire(self, name: str) -> str:
        """The name to send; also for a tool of the history that is no longer offered."""
        return self._wire.get(name) or _sanitised(name)

    def host_names(self) -> dict[str, str]:
        """The changed names, from the provider's to ours."""
        return {wire: name for name, wire in self._wire.items() if wire != name}


def _sanitised(name: str) -> str:
    if _VALID_NAME.fullmatch(name):
        return name
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"


def tool_specs(tools: Sequence[ToolSpec | Mapping[str, Any]]) -> list[ToolSpec | dict[str, Any]]:
    """Specs out of specs and OpenAI-style dicts; a provider's own tool (`{"type": "web_search"}`) stays a dict."""
    found: list[ToolSpec | dict[str, Any]] = []
    for tool in tools:
        if isinstance(tool, ToolSpec):
            found.append(tool)
            continue
        inner = tool.get("function", tool)
        schema = inner.get("parameters") or inner.get("input_schema")
        if tool.get("type", "function") not in ("function", "custom") or (
            not schema and "type" in tool and inner is tool
        ):
            found.append(dict(tool))
            continue
        name = inner.get("name")
        if not name:
            raise ConfigError(f"a tool needs a name: {sorted(tool)}")
        found.append(
            ToolSpec(str(name), str(inner.get("description") or ""), schema or {"type": "object", "properties": {}})
        )
    return found


def wire_names(specs: Iterable[ToolSpec | dict[str, Any]]) -> WireNames:
    """Names for the specs among `specs`."""
    return WireNames([spec.name for spec in specs if isinstance(spec, ToolSpec)])


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Compact JSON; a lone surrogate, which no provider accepts, becomes U+FFFD."""
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError:
        return _ENCODER.encode(map_texts(body, clean_text))


def clean_text(text: str) -> str:
    """`text` with surrogate pairs joined and lone ones as U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def data_url(part: ImagePart | FilePart) -> str:
    """The bytes of `part` as a data: URL."""
    return f"data:{part.media_type};base64,{base64.b64encode(part.data or b'').decode()}"


def base64_text(part: ImagePart | FilePart) -> str:
    """The bytes of `part` in base64."""
    return base64.b64encode(part.data or b"").decode()


def is_unseen(part: TextPart | ImagePart | FilePart, capabilities: ModelCapabilities) -> bool:
    """True when the model cannot be shown `part`, or is not known to take it."""
    if isinstance(part, TextPart):
        return False
    if part.data is None and part.url is None:
        return True
    if isinstance(part, ImagePart):
        return capabilities.images is not True
    return capabilities.files is not True and not is_text_file(part)


def is_text_file(part: FilePart) -> bool:
    """True when the file's bytes can be shown as text."""
    kind = part.media_type
    return part.data is not None and (
        kind.startswith("text/") or kind in ("application/json", "application/yaml", "application/xml")
    )


def file_text(part: FilePart) -> str:
    """A text file as a text that names it."""
    return f'<file name="{part.name or "file"}" type="{part.media_type}">\n{(part.data or b"").decode("utf-8", "replace")}\n</file>'


def schema_instruction(spec: StructuredOutputSpec) -> str:
    """The instruction that stands in for a provider's own structured output."""
    schema = _ENCODER.encode(spec.schema).decode()
    about = f" It is: {spec.description}" if spec.description else ""
    return f"Answer with one JSON object that is valid under this JSON Schema, and with nothing else.{about}\n{schema}"


def is_strict_schema(schema: Any) -> bool:
    """True when the schema has the shape that providers ask for before they enforce it.

    Every object closed (`additionalProperties: false`) and every property required.
    """
    if isinstance(schema, list):
        return all(is_strict_schema(item) for item in as_list(schema))
    node = as_object(schema)
    if node is None:
        return True
    properties = as_object(node.get("properties"))
    if properties is not None:
        if node.get("additionalProperties") is not False or set(as_list(node.get("required"))) != set(properties):
            return False
    elif node.get("type") == "object":
        return False
    children = [node[key] for key in ("items", "anyOf", "allOf", "oneOf", "prefixItems") if key in node]
    named = [section(node, key) for key in ("properties", "$defs", "definitions")]
    return is_strict_schema(children) and all(is_strict_schema(list(group.values())) for group in named)


def arguments_text(call: ToolCall) -> str:
    """Argument text that a provider accepts back: no text at all is an empty object."""
    return call.arguments if call.arguments.strip() else "{}"


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; text that is not one, or is nested too deeply, is kept under `_raw`, never guessed at."""
    text = call.arguments
    if not text.strip():
        return {}
    try:
        value = loads_bounded(text)
    except ValueError:
        return {"_raw": text}
    return as_object(value) or ({} if value == {} else {"_raw": text})


def state_data(message: AssistantMessage, family: str, host: str) -> dict[str, Any] | None:
    """What the provider at `host` wants back of this message; None when another one wrote it."""
    state = message.provider_state
    if state is None or state.provider != family:
        return None
    data = as_object(state.data)
    origin = data.get("origin") if data else None
    return data if origin is None or origin == host else None


def stable_split(request: LLMRequest, first: int = 0) -> int | None:
    """Where the tail begins among the messages from `first` on; None when there is no tail."""
    if request.stable is None or request.stable >= len(request.messages):
        return None
    return max(request.stable - first, 0)


def output_limit(request: LLMRequest, settings: RenderSettings) -> int | None:
    """The request's own limit, else the service's."""
    return settings.max_output_tokens if request.max_output_tokens is None else request.max_output_tokens


def temperature(request: LLMRequest, settings: RenderSettings) -> float | None:
    """The request's own temperature, else the service's; None is not sent."""
    return settings.temperature if request.temperature is None else request.temperature
