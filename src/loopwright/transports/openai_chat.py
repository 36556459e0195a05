"""OpenAI Chat Completions and the many servers that speak it: reading replies.

Owns: the reply side of the protocol, whole and streamed, with the vendors' known differences.
Must not know: HTTP, how requests are written (`openai_chat_request.py`).
Read next: `openai_responses.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..model.messages import ProviderState
from ..model.specs import FinishReason
from ..model.usage import Usage
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from .http_service import HTTPModelService
from .json_values import as_object, as_text, count, objects, section
from .lenient_json import decode_lenient
from .openai_chat_request import FAMILY, render_chat
from .provider_config import LLMProviderConfig
from .provider_failures import FailureReader
from .tool_call_parts import CallAssembly, CallPiece
from .wire_parts import RenderedRequest, RenderSettings


class _ChatFunction(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ChatCall(Struct):
    index: int | None = None
    id: str | None = None
    function: _ChatFunction | None = None
    extra_content: Any = None
    """Gemini's thought signature, which it wants back."""


class _ChatMessage(Struct):
    content: str | list[Any] | None = None
    # Not every server keeps to text here; what is of another type is not read.
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: str | None = None
    tool_calls: list[_ChatCall] | None = None
    function_call: _ChatFunction | None = None


class _ChatChoice(Struct):
    index: int | None = None
    delta: _ChatMessage | None = None
    message: _ChatMessage | None = None
    finish_reason: str | None = None
    error: Any = None


class _ChatDocument(Struct):
    """A reply, or one chunk of it: only what is read."""

    id: str | None = None
    model: str | None = None
    choices: list[_ChatChoice] | None = None
    usage: Any = None
    x_groq: Any = None
    error: Any = None


_DECODER: Final = msgspec.json.Decoder(_ChatDocument)
_ENCODER: Final = msgspec.json.Encoder()

_FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "error": "error",
}


class ChatWire:
    """Chat Completions as a `Wire`."""

    path = "/chat/completions"

    def __init__(self, host: str = "") -> None:
        self._host = host

    def render(self, request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
        """The body to send."""
        return render_chat(request, settings, stream=stream)

    def headers(self, config: LLMProviderConfig) -> dict[str, str]:
        """None of its own."""
        return {}

    def reader(self, host_names: Mapping[str, str], failures: FailureReader) -> ChatReader:
        """A reader for one streamed reply."""
        return ChatReader(self._host, host_names, failures)

    def read(self, body: bytes, host_names: Mapping[str, str], failures: FailureReader) -> LLMResponse:
        """A whole reply."""
        document = decode_lenient(_DECODER, body)
        if document.error:
            raise failures.of_stream(document.error)
        if not document.choices:
            raise ValueError("it has no choices")
        reader = ChatReader(self._host, host_names, failures)
        reader.take(document)
        return reader.response()


class ChatReader:
    """Puts one reply together from chunks; a whole reply is read as one chunk."""

    def __init__(self, host: str, host_names: Mapping[str, str], failures: FailureReader) -> None:
        self.ended = False
        self.complete = False
        self._host = host
        self._failures = failures
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._state: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._calls = CallAssembly(host_names)
        self._finish: str | None = None
        self._refused = False
        self._usage: Any = None
        self._model = ""
        self._id = ""

    def read(self, data: bytes) -> list[LLMStreamChunk]:
        """The chunks in one event."""
        if data == b"[DONE]" or data.strip() == b"[DONE]":
            self.ended = self.complete = True
            return []
        document = decode_lenient(_DECODER, data)
        if document.error:
            raise self._failures.of_stream(document.error)
        return self.take(document)

    def take(self, document: _ChatDocument) -> list[LLMStreamChunk]:
        """Adds one chunk."""
        if document.usage:
            self._usage = document.usage
        groq = as_object(document.x_groq)
        if groq is not None:
            if groq.get("error"):
                raise self._failures.of_stream({"message": groq["error"]})
            self._usage = self._usage or groq.get("usage")
        if document.model and not self._model:
            self._model = document.model
        if document.id and not self._id:
            self._id = document.id
        chunks: list[LLMStreamChunk] = []
        for choice in document.choices or ():
            if choice.index:
                continue  # only one reply was asked for
            if choice.error:
                raise self._failures.of_stream(choice.error)
            message = choice.delta or choice.message
            if message is not None:
                self._message(message, chunks, whole=choice.delta is None)
            if choice.finish_reason:
                # The first reason counts; OpenRouter repeats it with the usage.
                self._finish = self._finish or choice.finish_reason
                self.complete = True
        return chunks

    def _message(self, message: _ChatMessage, chunks: list[LLMStreamChunk], *, whole: bool) -> None:
        content = message.content
        if content and type(content) is str:
            self._text.append(content)
            if not (message.reasoning or message.reasoning_content or message.reasoning_details):
                chunks.append(LLMStreamChunk(content))
                content = None
        self._reason(message, chunks)
        if content:
            if isinstance(content, str):
                chunks.append(LLMStreamChunk(content))
            else:
                self._blocks(content, chunks)
        if message.refusal:
            self._refused = True
            self._text.append(message.refusal)
            chunks.append(LLMStreamChunk(message.refusal))
        calls = message.tool_calls
        if calls:
            for position, call in enumerate(calls):
                # A whole reply lists each call once, whatever index (Mistral: always 0) or id it carries.
                index = position if whole else call.index
                self._call(call, index, position if len(calls) > 1 else None, chunks)
        if message.function_call is not None:
            self._call(_ChatCall(0, None, message.function_call), 0, None, chunks)

    def _reason(self, message: _ChatMessage, chunks: list[LLMStreamChunk]) -> None:
        shown = ""
        for name, piece in (("reasoning_content", message.reasoning_content), ("reasoning", message.reasoning)):
            if isinstance(piece, str) and piece:
                shown = shown or piece
                self._state.setdefault(name, []).append(piece)
        if message.reasoning_details:
            texts = [_keep_detail(self._details, detail) for detail in objects(message.reasoning_details)]
            shown = shown or "".join(texts)
        if shown:
            self._reasoning.append(shown)
            chunks.append(LLMStreamChunk(reasoning=shown))

    def _blocks(self, blocks: list[Any], chunks: list[LLMStreamChunk]) -> None:
        """Typed content, as Mistral's reasoning models send it."""
        for block in objects([{"text": b} if isinstance(b, str) else b for b in blocks]):
            if block.get("type") == "thinking":
                inner = block.get("thinking")
                thought = as_text(inner) or "".join([as_text(part.get("text")) for part in objects(inner)])
                if thought:
                    self._reasoning.append(thought)
                    chunks.append(LLMStreamChunk(reasoning=thought))
            elif text := as_text(block.get("text")):
                self._text.append(text)
                chunks.append(LLMStreamChunk(text))

    def _call(self, call: _ChatCall, index: int | None, position: int | None, chunks: list[LLMStreamChunk]) -> None:
        function = call.function or _ChatFunction()
        arguments = function.arguments
        if isinstance(arguments, dict):
            # An empty object is what a server makes of arguments that the limit cut before their first letter.
            arguments = _ENCODER.encode(arguments).decode() if arguments else ""
        piece = CallPiece(index, position, call.id, function.name, arguments)
        parts, delta = self._calls.add(piece)
        if call.extra_content is not None:
            parts.extras["extra_content"] = call.extra_content
        if delta.id or delta.name or delta.arguments:
            chunks.append(LLMStreamChunk(tool_call=delta))

    def response(self) -> LLMResponse:
        """The whole reply."""
        calls = self._calls.finished()
        finish: FinishReason = _FINISH.get((self._finish or "").lower(), "unknown")
        if self._refused:
            finish = "content_filter"
        elif calls and finish == "stop":
            finish = "tool_calls"
        if finish == "error":
            raise self._failures.transient("the provider ended the reply with an error", status=200)
        return LLMResponse(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=finish,
            usage=_usage(self._usage),
            provider_state=self._provider_state(),
            model=self._model,
            response_id=self._id,
        )

    def _provider_state(self) -> ProviderState | None:
        data: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._state.items()}
        if self._details:
            data["reasoning_details"] = self._details
        extras = {call.id: call.extras for call in self._calls.calls if call.extras}
        if extras:
            data["call_extras"] = extras
        if not data:
            return None
        return ProviderState(FAMILY, self._model, {"origin": self._host, **data})


def _keep_detail(kept: list[dict[str, Any]], detail: dict[str, Any]) -> str:
    """Adds a piece of `reasoning_details`, joining what belongs to one entry; returns its readable text.

    Source: OpenRouter, "Reasoning tokens" (November 2026): entries go back unchanged and in order.
    """
    kind = detail.get("type")
    last = kept[-1] if kept else None
    field = {"reasoning.text": "text", "reasoning.summary": "summary"}.get(str(kind))
    shown = detail.get(field) if field else None
    text = shown if isinstance(shown, str) else ""
    if last is None or field is None or last.get("type") != kind or last.get("index") != detail.get("index"):
        kept.append(dict(detail))
        return text
    for name, value in detail.items():
        if name == field:
            last[name] = (last.get(name) or "") + text
        elif value:
            last[name] = value
        else:
            last.setdefault(name, value)
    return text


def _usage(given: Any) -> Usage:
    raw = as_object(given) or {}
    prompt, completion = section(raw, "prompt_tokens_details"), section(raw, "completion_tokens_details")
    return Usage(
        input_tokens=count(raw, "prompt_tokens", "input_tokens"),
        output_tokens=count(raw, "completion_tokens", "output_tokens"),
        # DeepSeek and Mistral have their own places for cache hits.
        cached_tokens=count(prompt, "cached_tokens")
        or count(raw, "prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens"),
        cache_write_tokens=count(prompt, "cache_write_tokens", "cache_creation_tokens"),
        reasoning_tokens=count(completion, "reasoning_tokens") or count(raw, "reasoning_tokens"),
        calls=1,
    )


def open_service(config: LLMProviderConfig) -> HTTPModelService:
    """A service that speaks Chat Completions."""
    return HTTPModelService(config, ChatWire(config.host))
