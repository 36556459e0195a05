"""Anthropic Messages: reading replies.

Owns: the reply side of the protocol, whole and streamed. Must not know: HTTP, how requests are written.
Read next: `echo.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ..model.messages import ProviderState, ToolCall
from ..model.specs import FinishReason
from ..model.usage import Usage
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk, ToolCallDelta
from .anthropic_request import FAMILY, blocks_text, render_messages
from .http_service import HTTPModelService
from .json_values import as_object, count, loads_bounded, section
from .lenient_json import decode_lenient
from .provider_config import LLMProviderConfig
from .provider_failures import FailureReader
from .tool_call_parts import unique_ids
from .wire_parts import RenderedRequest, RenderSettings

API_VERSION = "2023-06-01"


class _MessagesInput(Struct):
    input: Raw = Raw(b"")


class _MessagesDocument(Struct):
    """A reply, or the start of one: only what is read."""

    id: str | None = None
    model: str | None = None
    content: list[Any] | None = None
    stop_reason: str | None = None
    usage: Any = None
    container: Any = None
    error: Any = None
    type: str | None = None


class _MessagesRawDocument(Struct):
    content: list[Raw] | None = None


class _MessagesDelta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    citation: Any = None
    content: Any = None
    stop_reason: str | None = None
    container: Any = None


class _MessagesEvent(Struct):
    """One event of a stream: only what is read."""

    type: str = ""
    index: int = 0
    delta: _MessagesDelta | None = None
    content_block: Raw = Raw(b"")
    message: _MessagesDocument | None = None
    usage: Any = None
    error: Any = None


_DECODER: Final = msgspec.json.Decoder(_MessagesDocument)
_RAW_DECODER: Final = msgspec.json.Decoder(_MessagesRawDocument)
_INPUT_DECODER: Final = msgspec.json.Decoder(_MessagesInput)
_EVENT_DECODER: Final = msgspec.json.Decoder(_MessagesEvent)

_FINISH: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    # A long turn of the provider's own tools that it wants to go on with: the same next step as a cut text.
    "pause_turn": "length",
    "refusal": "content_filter",
}


class MessagesWire:
    """Anthropic Messages as a `Wire`."""

    path = "/v1/messages"

    def __init__(self, host: str = "") -> None:
        self._host = host

    def render(self, request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
        """The body to send."""
        return render_messages(request, settings, stream=stream)

    def headers(self, config: LLMProviderConfig) -> dict[str, str]:
        """The version of the protocol."""
        return {"anthropic-version": API_VERSION}

    def read(self, body: bytes, host_names: Mapping[str, str], failures: FailureReader) -> LLMResponse:
        """A whole reply."""
        document = decode_lenient(_DECODER, body)
        if document.error:
            raise failures.of_stream(document.error)
        if document.content is None:
            raise ValueError("it has no content")
        reply = _MessagesReply(host_names)
        reply.start(document)
        for index, (block, text) in enumerate(zip(document.content, _raw_inputs(body, document.content), strict=True)):
            reply.whole_block(index, as_object(block) or {}, text)
        return reply.response()

    def reader(self, host_names: Mapping[str, str], failures: FailureReader) -> MessagesReader:
        """A reader for one streamed reply."""
        return MessagesReader(host_names, failures)


def _raw_inputs(body: bytes, blocks: list[Any]) -> list[str]:
    """The `input` of each block exactly as it was sent."""
    try:
        raw = _RAW_DECODER.decode(body).content or []
        return [bytes(_INPUT_DECODER.decode(block).input).decode() for block in raw]
    except ValueError:
        return [
            json.dumps(b["input"], ensure_ascii=False) if isinstance(b, dict) and "input" in b else "" for b in blocks
        ]


class MessagesReader:
    """Puts one streamed reply together."""

    def __init__(self, host_names: Mapping[str, str], failures: FailureReader) -> None:
        self.ended = False
        self.complete = False
        self._reply = _MessagesReply(host_names)
        self._failures = failures

    def read(self, data: bytes) -> list[LLMStreamChunk]:
        """The chunks in one event."""
        event = decode_lenient(_EVENT_DECODER, data)
        kind = event.type
        delta = event.delta
        if kind == "content_block_delta":
            return self._reply.delta(event.index, delta) if delta is not None else []
        if kind == "content_block_start":
            block = json.loads(bytes(event.content_block) or b"{}")
            given = bytes(decode_lenient(_INPUT_DECODER, bytes(event.content_block)).input).decode("utf-8", "replace")
            return self._reply.open_block(event.index, block, given)
        if kind == "content_block_stop":
            return self._reply.close_block(event.index)
        if kind == "message_start" and event.message is not None:
            self._reply.start(event.message)
        elif kind == "message_delta":
            self._reply.end(delta, event.usage)
        elif kind == "message_stop":
            self.ended = self.complete = True
        elif kind == "error" or event.error:
            raise self._failures.of_stream(event.error or {"message": "an error without a description"})
        return []

    def response(self) -> LLMResponse:
        """The whole reply."""
        return self._reply.response()


class _MessagesBlock:
    """One content block while it comes in."""

    __slots__ = ("call_index", "closed", "data", "given", "json", "text", "thinking")

    def __init__(self, data: dict[str, Any], given: str, call_index: int) -> None:
        self.data = data
        self.given = given
        """The `input` that the block began with; it counts when no delta follows."""
        self.call_index = call_index
        """Position among the tool calls; -1 for other blocks."""
        self.json: list[str] = []
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.closed = False

    @property
    def arguments(self) -> str:
        return "".join(self.json) or self.given

    def close(self) -> None:
        """Writes what came in into the block, in the shape in which it goes back."""
        self.closed = True
        data = self.data
        if self.text:
            data["text"] = "".join(self.text)
        if self.thinking:
            data["thinking"] = "".join(self.thinking)
        if self.json:
            text = "".join(self.json)
            try:
                value = loads_bounded(text)
            except ValueError:
                value = None
            # Cut off arguments cannot go back as they are; an object is required.
            data["input"] = value if isinstance(value, dict) else {"_raw": text}


class _MessagesReply:
    """All blocks of one reply, whether they came whole or in pieces."""

    def __init__(self, host_names: Mapping[str, str]) -> None:
        self._host_names = host_names
        self._blocks: dict[int, _MessagesBlock] = {}
        self._call_count = 0
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._container: Any = None
        self._model = ""
        self._id = ""

    def start(self, document: _MessagesDocument) -> None:
        self._model = document.model or ""
        self._id = document.id or ""
        self._container = document.container
        self._stop = document.stop_reason
        self._usage.update(as_object(document.usage) or {})

    def end(self, delta: _MessagesDelta | None, usage: Any) -> None:
        if delta is not None:
            self._stop = delta.stop_reason or self._stop
            self._container = delta.container or self._container
        # Cumulative figures; what is absent or null keeps its first value.
        given = as_object(usage) or {}
        self._usage.update({name: value for name, value in given.items() if value is not None})

    def whole_block(self, index: int, data: dict[str, Any], given: str) -> None:
        self.open_block(index, data, given)
        self._blocks[index].close()

    def open_block(self, index: int, data: dict[str, Any], given: str) -> list[LLMStreamChunk]:
        is_call = data.get("type") == "tool_use"
        block = self._blocks[index] = _MessagesBlock(data, given, self._call_count if is_call else -1)
        if is_call:
            self._call_count += 1
            name = str(data.get("name") or "")
            first = ToolCallDelta(block.call_index, str(data.get("id") or ""), self._host_names.get(name, name))
            return [LLMStreamChunk(tool_call=first)]
        for field, pieces in (("text", block.text), ("thinking", block.thinking)):
            if data.get("type") == field and isinstance(data.get(field), str) and data[field]:
                pieces.append(data[field])
                return [LLMStreamChunk(data[field]) if field == "text" else LLMStreamChunk(reasoning=data[field])]
        return []

    def delta(self, index: int, delta: _MessagesDelta) -> list[LLMStreamChunk]:
        block = self._blocks.get(index)
        if block is None:
            raise ValueError(f"a piece for block {index}, which never began")
        kind = delta.type
        if kind == "text_delta":
            block.text.append(delta.text)
            return [LLMStreamChunk(delta.text)] if delta.text else []
        if kind == "input_json_delta":
            if not delta.partial_json:
                return []
            block.json.append(delta.partial_json)
            if block.call_index < 0:
                return []
            return [LLMStreamChunk(tool_call=ToolCallDelta(block.call_index, arguments=delta.partial_json))]
        if kind == "thinking_delta":
            block.thinking.append(delta.thinking)
            return [LLMStreamChunk(reasoning=delta.thinking)] if delta.thinking else []
        if kind == "signature_delta":
            block.data["signature"] = delta.signature
        elif kind == "citations_delta":
            block.data["citations"] = [*(block.data.get("citations") or ()), delta.citation]
        elif kind == "compaction_delta" and isinstance(delta.content, str):
            block.data["content"] = (block.data.get("content") or "") + delta.content
        return []

    def close_block(self, index: int) -> list[LLMStreamChunk]:
        block = self._blocks.get(index)
        if block is None or block.closed:
            return []
        block.close()
        if block.call_index >= 0 and not block.json and block.given:
            return [LLMStreamChunk(tool_call=ToolCallDelta(block.call_index, arguments=block.given))]
        return []

    def response(self) -> LLMResponse:
        blocks = [block for _, block in sorted(self._blocks.items())]
        for block in blocks:
            if not block.closed:
                block.close()
        data = [block.data for block in blocks]
        calls = self._calls(blocks)
        finish: FinishReason = _FINISH.get(self._stop or "", "unknown")
        thinking = [d["thinking"] for d in data if d.get("type") == "thinking" and isinstance(d.get("thinking"), str)]
        return LLMResponse(
            text=blocks_text(data),
            reasoning="".join(thinking),
            tool_calls=calls,
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            usage=_usage(self._usage),
            provider_state=self._state(data),
            model=self._model,
            response_id=self._id,
        )

    def _calls(self, blocks: list[_MessagesBlock]) -> tuple[ToolCall, ...]:
        found = [block for block in blocks if block.call_index >= 0]
        ids = unique_ids([str(block.data.get("id") or "") for block in found])
        calls: list[ToolCall] = []
        for block, call_id in zip(found, ids, strict=True):
            if block.data.get("id") != call_id:
                block.data["id"] = call_id
            name = str(block.data.get("name") or "")
            # At the limit an empty object stands for arguments of which nothing was written.
            cut = _FINISH.get(self._stop or "") == "length" and not block.json and not block.data.get("input")
            arguments = "" if cut else block.arguments
            calls.append(ToolCall(call_id, self._host_names.get(name, name), arguments))
        return tuple(calls)

    def _state(self, blocks: list[dict[str, Any]]) -> ProviderState | None:
        """The blocks, unless the message's own parts say all of it: then they would only be stored twice."""
        kinds = [str(block.get("type")) for block in blocks]
        plain = kinds[:1] == ["text"] and all(kind == "tool_use" for kind in kinds[1:])
        plain = plain or all(kind == "tool_use" for kind in kinds)
        plain = plain and not any(_has_more(block) for block in blocks)
        if plain and self._container is None:
            return None
        data: dict[str, Any] = {"content": blocks}
        if self._container is not None:
            data["container"] = self._container
        return ProviderState(FAMILY, self._model, data)


def _has_more(block: dict[str, Any]) -> bool:
    return any(value for name, value in block.items() if name not in ("type", "text", "id", "name", "input"))


def _usage(raw: dict[str, Any]) -> Usage:
    cached, written = count(raw, "cache_read_input_tokens"), count(raw, "cache_creation_input_tokens")
    return Usage(
        # Anthropic counts cached tokens apart.
        input_tokens=count(raw, "input_tokens") + cached + written,
        output_tokens=count(raw, "output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count(section(raw, "output_tokens_details"), "thinking_tokens"),
        calls=1,
    )


def open_service(config: LLMProviderConfig) -> HTTPModelService:
    """A service that speaks Anthropic Messages."""
    return HTTPModelService(config, MessagesWire(config.host))
