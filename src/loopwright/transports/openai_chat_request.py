"""A neutral request as a Chat Completions body.

Owns: the request side of the protocol (developers.openai.com, Chat Completions reference, November 2026) and the
vendors' known differences. Must not know: HTTP, replies.
Read next: `openai_chat.py`.
"""

from __future__ import annotations

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
from .json_values import objects, section
from .kept_reasoning import chat_call_extras, chat_reasoning
from .prompt_cache import (
    CLAUDE_MARK,
    OPENAI_MARK,
    cache_headers,
    cache_key,
    ends,
    is_cacheable,
    mark_parts,
    marks_claude_parts,
    marks_openai_parts,
    parts_only,
)
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

FAMILY = "openai"


def render_chat(request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
    """The body of `POST /chat/completions`."""
    specs = tool_specs(request.tools)
    names = wire_names(specs)
    capabilities = settings.capabilities
    body: dict[str, Any] = {"model": request.model or settings.model}
    limit = output_limit(request, settings)
    if limit is not None:
        body[capabilities.max_tokens_field or "max_tokens"] = limit
    warmth = temperature(request, settings)
    if warmth is not None:
        body["temperature"] = warmth
    system = [request.system_prompt] if request.system_prompt else []
    output = request.response_format
    if output is not None and capabilities.json_schema:
        strict = output.strict and is_strict_schema(output.schema)
        shape: dict[str, Any] = {"name": output.name, "schema": output.schema, "strict": strict}
        if output.description:
            shape["description"] = output.description
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    elif output is not None:
        system.append(schema_instruction(output))
    if specs:
        body["tools"] = [_tool(spec, names) for spec in specs]
        body["tool_choice"] = _tool_choice(request.tool_choice, names, settings)
    body["stream"] = stream
    if stream and capabilities.usage_in_stream is not False:
        body["stream_options"] = {"include_usage": True}
    messages: list[dict[str, Any]] = []
    if system:
        messages.append({"role": "system", "content": "\n\n".join(system)})
    turns = _ChatTurns(messages, names, settings, body["model"])
    said = as_messages(request.messages)
    split = stable_split(request)
    turns.write(said if split is None else said[:split])
    stable = len(messages)
    if split is not None:
        turns.write(said[split:])
    body["messages"] = messages
    _mark(body, settings, None if split is None else stable)
    key = cache_key(request, settings)
    if key is not None:
        body["prompt_cache_key"] = key
    body.update(settings.extra)
    body.update(request.extra)
    return RenderedRequest(body, names.host_names(), cache_headers(request, settings))


def _mark(body: dict[str, Any], settings: RenderSettings, stable: int | None) -> None:
    """Breakpoints of the prompt cache, for models that want them; `stable` is None without a tail."""
    messages, model = body["messages"], body["model"]
    if marks_claude_parts(settings, model):
        parts_only(messages, "content", "text")
        kept = messages[:stable]
        system = [i for i, message in enumerate(kept[:1]) if message["role"] == "system"]
        places = [*system, *[i for i in ends(kept)[-2:] if i not in system]]
        if is_cacheable([*objects(body.get("tools")), *kept], model):
            mark_parts(messages, places, "content", CLAUDE_MARK)
    elif marks_openai_parts(settings, model):
        parts_only(messages, "content", "text")
        if stable is not None:
            mark_parts(messages, ends(messages[:stable]), "content", OPENAI_MARK)
            body["prompt_cache_options"] = {"mode": "explicit"}


def _tool(spec: ToolSpec | dict[str, Any], names: WireNames) -> dict[str, Any]:
    if isinstance(spec, dict):
        return spec
    function = {"name": names.wire(spec.name), "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _tool_choice(choice: str, names: WireNames, settings: RenderSettings) -> Any:
    if choice in ("auto", "none"):
        return choice
    if settings.capabilities.forced_tool_choice is False:
        return "auto"
    if choice == "required":
        # Mistral's word for it; it refused the other one until 2025.
        return "any" if settings.vendor == "mistral" else "required"
    return {"type": "function", "function": {"name": names.wire(choice)}}


class _ChatTurns:
    """Writes messages one after the other; holds pictures of tool results back until the results are complete."""

    def __init__(self, out: list[dict[str, Any]], names: WireNames, settings: RenderSettings, model: str) -> None:
        self._out = out
        self._names = names
        self._settings = settings
        self._model = model
        self._held: list[dict[str, Any]] = []

    def write(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            if isinstance(message, ToolResultMessage):
                self._out.append(self._result(message))
                continue
            self._release()
            if isinstance(message, SystemMessage):
                self._out.append({"role": "system", "content": message.content})
            elif isinstance(message, UserMessage):
                self._out.append({"role": "user", "content": self._content(message.content)})
            else:
                self._out.append(self._assistant(message))
        self._release()

    def _release(self) -> None:
        if self._held:
            self._out.append({"role": "user", "content": self._held})
            self._held = []

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        data = state_data(message, FAMILY, self._settings.host) or {}
        calls = message.tool_calls
        turn: dict[str, Any] = {"role": "assistant"}
        # A turn of calls alone has no content: null is accepted where "" is refused, and the other way round for
        # a turn without calls.
        turn["content"] = message.text or (None if calls else "")
        vendor = self._settings.vendor
        turn.update(chat_reasoning(message, data, model=self._model, vendor=vendor))
        if calls:
            extras = chat_call_extras(message, data, model=self._model, vendor=vendor)
            turn["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": self._names.wire(call.name), "arguments": arguments_text(call)},
                    **section(extras, call.id),
                }
                for call in calls
            ]
        return turn

    def _result(self, message: ToolResultMessage) -> dict[str, Any]:
        content = message.content
        if isinstance(content, str):
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        texts: list[str] = []
        for part in content:
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif is_unseen(part, self._settings.capabilities):
                texts.append(unseen_text(part))
            elif isinstance(part, FilePart) and is_text_file(part):
                texts.append(file_text(part))
            else:
                # The protocol has text only in tool results, so the part follows in a user message of its own.
                texts.append(
                    f"[{'image' if isinstance(part, ImagePart) else 'file'} of this result: see the next user message]"
                )
                self._held.append(
                    {"type": "text", "text": f"Content of tool result {message.call_id} ({message.name}):"}
                )
                self._held.append(self._part(part))
        return {"role": "tool", "tool_call_id": message.call_id, "content": "\n".join(texts)}

    def _content(self, content: str | tuple[TextPart | ImagePart | FilePart, ...]) -> str | list[dict[str, Any]]:
        if isinstance(content, str):
            return content
        return [self._part(part) for part in content]

    def _part(self, part: TextPart | ImagePart | FilePart) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        if is_unseen(part, self._settings.capabilities):
            return {"type": "text", "text": unseen_text(part)}
        if isinstance(part, ImagePart):
            image: dict[str, Any] = {"url": part.url if part.data is None else data_url(part)}
            if part.detail:
                image["detail"] = part.detail
            return {"type": "image_url", "image_url": image}
        if is_text_file(part):
            return {"type": "text", "text": file_text(part)}
        if part.data is None:
            return {
                "type": "text",
                "text": unseen_text(part, "the provider takes the bytes of a file only, not an address"),
            }
        return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": data_url(part)}}
