"""A neutral request as an Anthropic Messages body.

Owns: the request side of the protocol (docs.claude.com, Messages reference, version 2023-06-01, November 2026).
Must not know: HTTP, replies.
Read next: `anthropic.py`.
"""

from __future__ import annotations

import re
from typing import Any

from ..core.unseen import unseen_text
from ..model.errors import ConfigError
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
from .json_values import as_object, as_text, objects, section
from .kept_reasoning import THINKING, binds_prefix, keeps_thinking, lacks_thinking
from .prompt_cache import CLAUDE_HOST, is_cacheable, mark_blocks
from .wire_parts import (
    RenderedRequest,
    RenderSettings,
    WireNames,
    arguments_object,
    base64_text,
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

FAMILY = "anthropic"

BINDING_BETA = "thinking-binding-controls-2026-08-01"
_LEAVE_OUT_WHAT_IS_BOUND: dict[str, Any] = {
    "type": "adaptive",
    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
}
"""Thinking as these models do it anyway, and what is bound to an earlier window is left out instead of refused."""

_NOTHING_SAID = "(no text)"
"""Stands in for an empty turn, which the provider refuses."""


def render_messages(request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
    """The body of `POST /v1/messages`."""
    specs = tool_specs(request.tools)
    names = wire_names(specs)
    limit = output_limit(request, settings)
    if limit is None:
        raise ConfigError("Anthropic needs an output limit: set max_output_tokens in the config or in the request")
    overrides = {**settings.extra, **request.extra}
    model = str(overrides.get("model") or request.model or settings.model)
    messages = list(as_messages(request.messages))
    first = next((i for i, m in enumerate(messages) if not isinstance(m, SystemMessage)), len(messages))
    system = [request.system_prompt] if request.system_prompt else []
    system.extend([m.content for m in messages[:first] if isinstance(m, SystemMessage)])
    turns = _MessagesTurns(names, settings, model, disabled=_thinking(overrides) == "disabled")
    split = stable_split(request, first)
    turns.write(messages[first:] if split is None else messages[first : first + split])
    if _thinking(overrides) == "enabled" and lacks_thinking(turns.out):
        del overrides["thinking"]  # refused when the turn that asked for these tools did not think
    thinks = _thinking(overrides) == "enabled"
    body: dict[str, Any] = {"model": model, "max_tokens": limit}
    warmth = temperature(request, settings)
    if warmth is not None and not thinks:  # refused together
        body["temperature"] = warmth
    output = request.response_format
    if output is not None and settings.capabilities.json_schema and is_strict_schema(output.schema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": output.schema}}
    elif output is not None:
        system.append(schema_instruction(output))
    if specs:
        forced = not thinks and settings.capabilities.forced_tool_choice is not False
        body["tools"] = [_tool(spec, names) for spec in specs]
        body["tool_choice"] = _tool_choice(request.tool_choice, names, forced=forced)
    body["stream"] = stream
    if system:
        body["system"] = "\n\n".join(system)
    if settings.host == CLAUDE_HOST:
        _mark(body, turns.out, overrides, tail=split is not None)
        if binds_prefix(model) and _thinking(overrides) in ("", "adaptive"):
            body["thinking"] = _LEAVE_OUT_WHAT_IS_BOUND
    if turns.container is not None:
        body["container"] = turns.container
    if split is not None:
        turns.write(messages[first + split :])
    body["messages"] = turns.out
    for name, value in overrides.items():
        both = isinstance(value, dict) and isinstance(body.get(name), dict)
        body[name] = {**body[name], **value} if both else value
    binding = "block_binding" in section(body, "thinking")
    return RenderedRequest(body, names.host_names(), {"anthropic-beta": BINDING_BETA} if binding else {})


def _thinking(overrides: dict[str, Any]) -> str:
    """How the host set thinking: "enabled", "disabled", "adaptive", or "" when it did not."""
    return as_text(section(overrides, "thinking").get("type"))


def _mark(body: dict[str, Any], turns: list[dict[str, Any]], overrides: dict[str, Any], *, tail: bool) -> None:
    """Breakpoints of the prompt cache: behind tools and instructions, far back in a long round, at the stable end.

    Without a tail the provider finds the end itself. The host's own `cache_control` says how each of them looks; None
    leaves them out.
    """
    own = overrides.pop("cache_control", {})
    if own is None:
        return
    mark: dict[str, Any] = {"type": "ephemeral", **(as_object(own) or {})}
    tools, system = objects(body.get("tools")), body.get("system")
    if is_cacheable([*tools, system or ""], body["model"]):
        if system:
            body["system"] = [{"type": "text", "text": system, "cache_control": mark}]
        else:
            body["tools"] = [*tools[:-1], {**tools[-1], "cache_control": mark}]
    mark_blocks(turns, mark, end=tail and is_cacheable([*tools, system or "", *turns], body["model"]))
    if not tail:
        body["cache_control"] = mark


def _tool(spec: ToolSpec | dict[str, Any], names: WireNames) -> dict[str, Any]:
    if isinstance(spec, dict):
        return spec
    return {"name": names.wire(spec.name), "description": spec.description, "input_schema": spec.parameters}


def _tool_choice(choice: str, names: WireNames, *, forced: bool) -> dict[str, Any]:
    if choice == "none":
        return {"type": "none"}
    if choice == "auto" or not forced:  # a forced choice is refused together with thinking
        return {"type": "auto"}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": names.wire(choice)}


class _MessagesTurns:
    """Turns that alternate between user and assistant."""

    def __init__(self, names: WireNames, settings: RenderSettings, model: str, *, disabled: bool) -> None:
        self.out: list[dict[str, Any]] = []
        self.container: Any = None
        """Set while a turn of the provider's own tools is open in it."""
        self._names = names
        self._settings = settings
        self._model = model
        self._disabled = disabled
        self._used_ids: set[str] = set()
        self._wire_ids: dict[str, str] = {}
        """Ids of the newest assistant turn, ours to the provider's."""

    def write(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, AssistantMessage):
                if not self.out:
                    self._add("user", [{"type": "text", "text": _NOTHING_SAID}])
                self._add("assistant", self._assistant(message))
            elif isinstance(message, ToolResultMessage):
                self._add("user", [self._result(message)])
            elif isinstance(message, SystemMessage):
                # Instructions in mid-conversation have no role of their own on most models.
                self._add("user", [{"type": "text", "text": f"<system>\n{message.content}\n</system>"}])
            else:
                self.container = None
                self._add("user", self._user(message))

    def _add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if not blocks:
            return
        if self.out and self.out[-1]["role"] == role:
            self.out[-1]["content"].extend(blocks)
        else:
            self.out.append({"role": role, "content": blocks})

    def _user(self, message: UserMessage) -> list[dict[str, Any]]:
        parts = (TextPart(message.content),) if isinstance(message.content, str) else message.content
        return self._blocks(parts) or [{"type": "text", "text": _NOTHING_SAID}]

    def _blocks(self, parts: tuple[TextPart | ImagePart | FilePart, ...]) -> list[dict[str, Any]]:
        return [self._part(part) for part in parts if not isinstance(part, TextPart) or part.text.strip()]

    def _part(self, part: TextPart | ImagePart | FilePart) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        if is_unseen(part, self._settings.capabilities):
            return {"type": "text", "text": unseen_text(part)}
        if isinstance(part, FilePart) and is_text_file(part):
            return {"type": "text", "text": file_text(part)}
        kind = "image" if isinstance(part, ImagePart) else "document"
        if part.data is None:
            source: dict[str, Any] = {"type": "url", "url": part.url}
        else:
            source = {"type": "base64", "media_type": part.media_type, "data": base64_text(part)}
        block: dict[str, Any] = {"type": kind, "source": source}
        if isinstance(part, FilePart) and part.name:
            block["title"] = part.name
        return block

    def _result(self, message: ToolResultMessage) -> dict[str, Any]:
        call_id = self._wire_ids.get(message.call_id) or _sanitised_id(message.call_id)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
        content = message.content if isinstance(message.content, str) else self._blocks(message.content)
        if content:
            block["content"] = content
        if not message.ok:
            block["is_error"] = True
        return block

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        self._wire_ids = {call.id: self._free_id(call.id) for call in message.tool_calls}
        blocks = self._kept_blocks(message)
        if blocks is not None:
            return blocks
        texts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text.strip() else []
        uses: list[dict[str, Any]] = [
            {
                "type": "tool_use",
                "id": self._wire_ids[call.id],
                "name": self._names.wire(call.name),
                "input": arguments_object(call),
            }
            for call in message.tool_calls
        ]
        return texts + uses

    def _kept_blocks(self, message: AssistantMessage) -> list[dict[str, Any]] | None:
        """The provider's own blocks, untouched, as long as they say what the message says; else None.

        Thinking that would be refused is left out. A call that the message no longer holds is left out: nobody will answer it.
        """
        data = state_data(message, FAMILY, "") or {}
        blocks = objects(data.get("content"))
        if not blocks or blocks_text(blocks) != message.text:
            return None
        wanted = {call.id for call in message.tool_calls}
        if not {block.get("id") for block in blocks if block.get("type") == "tool_use"}.issuperset(wanted):
            return None
        self.container = section(data, "container").get("id") if wanted else None
        thinking = keeps_thinking(message, self._model, disabled=self._disabled)
        kept: list[dict[str, Any]] = []
        for block in blocks:
            kind = block.get("type")
            if kind in THINKING and not thinking:
                continue
            if kind == "tool_use":
                call_id = str(block.get("id"))
                if call_id not in wanted:
                    continue
                if self._wire_ids[call_id] != call_id:
                    block = {**block, "id": self._wire_ids[call_id]}
            elif kind == "text" and not str(block.get("text") or "").strip():
                continue  # the provider sends empty text blocks, but refuses them
            kept.append(block)
        return kept

    def _free_id(self, call_id: str) -> str:
        """An id of the alphabet that the provider accepts and that no other call of the request has."""
        wanted = name = _sanitised_id(call_id)
        count = 1
        while name in self._used_ids:
            count += 1
            name = f"{wanted}_{count}"
        self._used_ids.add(name)
        return name


def _sanitised_id(call_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", call_id) or "call"


def blocks_text(blocks: list[dict[str, Any]]) -> str:
    """The text of the text blocks, joined by nothing."""
    return "".join([str(block.get("text") or "") for block in blocks if block.get("type") == "text"])
