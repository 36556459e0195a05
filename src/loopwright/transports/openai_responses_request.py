"""A neutral request as a Responses body.

Owns: the request side of the protocol (developers.openai.com, Responses reference, November 2026).
Must not know: HTTP, replies.
Read next: `openai_responses.py`.
"""

from __future__ import annotations

import re
from typing import Any

from ..core.unseen import unseen_text
from ..model.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    UserMessage,
    as_messages,
)
from ..model.specs import ToolSpec
from ..ports.llm import LLMRequest
from .json_values import as_text, objects
from .kept_reasoning import usable_items
from .prompt_cache import OPENAI_MARK, cache_key, ends, mark_parts, marks_openai_parts, parts_only
from .wire_parts import (
    RenderedRequest,
    RenderSettings,
    WireNames,
    arguments_text,
    data_url,
    file_text,
    is_strict_schema,
    is_text_file,
    is_unseen,
    output_limit,
    schema_instruction,
    stable_split,
    state_data,
    temperature,
    tool_specs,
    wire_names,
)

FAMILY = "openai-responses"

# These refuse to be asked for encrypted reasoning.
_WITHOUT_REASONING = re.compile(r"gpt-[34]|chatgpt|gpt-5(\.\d+)?-chat|computer-use")


def render_responses(request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
    """The body of `POST /responses`; nothing is stored at the provider unless `extra` says so."""
    specs = tool_specs(request.tools)
    names = wire_names(specs)
    model = request.model or settings.model
    body: dict[str, Any] = {"model": model, "store": False}
    if not _WITHOUT_REASONING.search(model):
        body["include"] = ["reasoning.encrypted_content"]
    limit = output_limit(request, settings)
    if limit is not None:
        body["max_output_tokens"] = limit
    warmth = temperature(request, settings)
    if warmth is not None:
        body["temperature"] = warmth
    system = [request.system_prompt] if request.system_prompt else []
    output = request.response_format
    if output is not None and settings.capabilities.json_schema:
        strict = output.strict and is_strict_schema(output.schema)
        shape: dict[str, Any] = {"type": "json_schema", "name": output.name, "schema": output.schema, "strict": strict}
        if output.description:
            shape["description"] = output.description
        body["text"] = {"format": shape}
    elif output is not None:
        system.append(schema_instruction(output))
    if specs:
        body["tools"] = [_tool(spec, names) for spec in specs]
        body["tool_choice"] = _tool_choice(request.tool_choice, names, settings)
    body["stream"] = stream
    if system:
        body["instructions"] = "\n\n".join(system)
    overrides = {**settings.extra, **request.extra}
    stored = overrides.get("store", False) is not False
    items: list[dict[str, Any]] = []
    split, stable = stable_split(request), 0
    for place, message in enumerate(as_messages(request.messages)):
        items.extend(_items(message, names, settings, model, stored=stored))
        if place + 1 == split:
            stable = len(items)
    if marks_openai_parts(settings, model):
        for field in ("content", "output"):
            parts_only(items, field, "input_text")
            if split is not None:
                mark_parts(items, ends(items[:stable]), field, OPENAI_MARK)
                body["prompt_cache_options"] = {"mode": "explicit"}
    body["input"] = items
    key = cache_key(request, settings)
    if key is not None:
        body["prompt_cache_key"] = key
    for name, value in overrides.items():
        both = isinstance(value, dict) and isinstance(body.get(name), dict)
        body[name] = {**body[name], **value} if both else value
    return RenderedRequest(body, names.host_names())


def _tool(spec: ToolSpec | dict[str, Any], names: WireNames) -> dict[str, Any]:
    if isinstance(spec, dict):
        return spec
    # Left out, `strict` means true here, and a schema that does not fit it would be changed by the provider.
    return {
        "type": "function",
        "name": names.wire(spec.name),
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }


def _tool_choice(choice: str, names: WireNames, settings: RenderSettings) -> Any:
    if choice in ("auto", "none"):
        return choice
    if settings.capabilities.forced_tool_choice is False:
        return "auto"
    return "required" if choice == "required" else {"type": "function", "name": names.wire(choice)}


def _items(
    message: Message, names: WireNames, settings: RenderSettings, model: str, *, stored: bool
) -> list[dict[str, Any]]:
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.content}]
    if isinstance(message, UserMessage):
        return [{"role": "user", "content": _content(message.content, settings)}]
    if isinstance(message, ToolResultMessage):
        output = _content(message.content, settings)
        return [{"type": "function_call_output", "call_id": message.call_id, "output": output}]
    kept = _kept_items(message, settings, model, stored=stored)
    if kept is not None:
        return kept
    items: list[dict[str, Any]] = []
    if message.text or not message.tool_calls:
        items.append({"role": "assistant", "content": message.text})
    items.extend(
        [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": names.wire(call.name),
                "arguments": arguments_text(call),
            }
            for call in message.tool_calls
        ]
    )
    return items


def _kept_items(
    message: AssistantMessage, settings: RenderSettings, model: str, *, stored: bool
) -> list[dict[str, Any]] | None:
    """The provider's own items, untouched, as long as they say what the message says; else None.

    Reasoning that would be refused is left out, and a call that the message no longer holds: nobody will answer it.
    """
    state = message.provider_state
    data = state_data(message, FAMILY, settings.host)
    items = objects(data.get("items")) if data else []
    if state is None or not items or items_text(items) != message.text:
        return None
    wanted = [call.id for call in message.tool_calls]
    held = {item.get("call_id") for item in items if item.get("type") == "function_call"}
    return usable_items(state, model, wanted, stored=stored) if held.issuperset(wanted) else None


def items_text(items: list[dict[str, Any]]) -> str:
    """The text of the message items, refusals included."""
    parts = [part for item in items if item.get("type") == "message" for part in objects(item.get("content"))]
    texts = [as_text(part.get("text" if part.get("type") == "output_text" else "refusal")) for part in parts]
    return "".join(texts)


def _content(
    content: str | tuple[TextPart | ImagePart | FilePart, ...], settings: RenderSettings
) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [_part(part, settings) for part in content]


def _part(part: TextPart | ImagePart | FilePart, settings: RenderSettings) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if is_unseen(part, settings.capabilities):
        return {"type": "input_text", "text": unseen_text(part)}
    if isinstance(part, ImagePart):
        url = part.url if part.data is None else data_url(part)
        return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
    if is_text_file(part):
        return {"type": "input_text", "text": file_text(part)}
    if part.data is None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": data_url(part)}
