"""OpenAI Responses: reading replies.

Owns: the reply side of the protocol, whole and streamed. Must not know: HTTP, how requests are written.
Read next: `anthropic.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..model.messages import ProviderState, ToolCall
from ..model.specs import FinishReason
from ..model.usage import Usage
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk, ToolCallDelta
from .http_service import HTTPModelService
from .json_values import as_object, as_text, count, objects, section
from .lenient_json import decode_lenient
from .openai_responses_request import FAMILY, items_text, render_responses
from .provider_config import LLMProviderConfig
from .provider_failures import FailureReader
from .tool_call_parts import unique_ids
from .wire_parts import RenderedRequest, RenderSettings


class _ResponsesDocument(Struct):
    """A reply: only what is read."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None
    object: str | None = None


class _ResponsesEvent(Struct):
    """One event of a stream: only what is read."""

    type: str = ""
    delta: Any = None
    output_index: int = 0
    summary_index: int = 0
    item: dict[str, Any] | None = None
    response: _ResponsesDocument | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_DECODER: Final = msgspec.json.Decoder(_ResponsesDocument)
_EVENT_DECODER: Final = msgspec.json.Decoder(_ResponsesEvent)


class ResponsesWire:
    """The Responses protocol as a `Wire`."""

    path = "/responses"

    def __init__(self, host: str = "") -> None:
        self._host = host

    def render(self, request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
        """The body to send."""
        return render_responses(request, settings, stream=stream)

    def headers(self, config: LLMProviderConfig) -> dict[str, str]:
        """None of its own."""
        return {}

    def read(self, body: bytes, host_names: Mapping[str, str], failures: FailureReader) -> LLMResponse:
        """A whole reply."""
        document = decode_lenient(_DECODER, body)
        return self.read_document(document, host_names, failures)

    def reader(self, host_names: Mapping[str, str], failures: FailureReader) -> ResponsesReader:
        """A reader for one streamed reply."""
        return ResponsesReader(self, host_names, failures)

    def read_document(
        self, document: _ResponsesDocument, host_names: Mapping[str, str], failures: FailureReader
    ) -> LLMResponse:
        """A reply whose items are all there.

        Raises: `LLMError` when it failed, `ValueError` when it is no finished reply.
        """
        if document.error:
            raise failures.of_stream(document.error)
        if document.output is None or document.status in ("queued", "in_progress"):
            raise ValueError(f"it has no output, status {document.status}")
        if document.status in ("failed", "cancelled"):
            raise failures.transient(f"the reply ended as {document.status}", status=200)
        items = document.output
        calls = _calls(items, host_names)
        text = items_text(items)
        model = document.model or ""
        state = ProviderState(FAMILY, model, {"origin": self._host, "items": items}) if items else None
        return LLMResponse(
            text=text,
            reasoning="".join([_reasoning(item) for item in items]),
            tool_calls=calls,
            finish_reason=_finish(document, items, calls),
            usage=_usage(document.usage),
            provider_state=state,
            model=model,
            response_id=document.id or "",
        )


class ResponsesReader:
    """Shows deltas as they come; the reply itself is read from the terminal event."""

    def __init__(self, wire: ResponsesWire, host_names: Mapping[str, str], failures: FailureReader) -> None:
        self.ended = False
        self.complete = False
        self._wire = wire
        self._host_names = host_names
        self._failures = failures
        self._items: dict[int, dict[str, Any]] = {}
        """Finished items, for servers whose terminal event leaves them out."""
        self._shown: set[int] = set()
        """Output positions of which something was shown."""
        self._summaries: dict[int, int] = {}
        self._call_of: dict[int, int] = {}
        self._document: _ResponsesDocument | None = None

    def read(self, data: bytes) -> list[LLMStreamChunk]:
        """The chunks in one event."""
        if data == b"[DONE]":
            return []
        event = decode_lenient(_EVENT_DECODER, data)
        kind = event.type
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._shown.add(event.output_index)
            return [LLMStreamChunk(as_text(event.delta))]
        if kind == "response.function_call_arguments.delta":
            self._shown.add(event.output_index)
            index = self._call_of.get(event.output_index, 0)
            return [LLMStreamChunk(tool_call=ToolCallDelta(index, arguments=as_text(event.delta)))]
        if kind == "response.reasoning_text.delta":
            self._shown.add(event.output_index)
            return [LLMStreamChunk(reasoning=as_text(event.delta))]
        if kind == "response.reasoning_summary_text.delta":
            return self._summary(event)
        if kind == "response.output_item.added":
            return self._added(event)
        if kind == "response.output_item.done":
            return self._done(event)
        if kind in (
            "response.completed",
            "response.incomplete",
            "response.failed",
            "response.cancelled",
            "response.done",
        ):
            return self._terminal(event)
        if kind == "error" or event.error:
            raise self._failures.of_stream(event.error or {"code": event.code, "message": event.message})
        return []

    def _summary(self, event: _ResponsesEvent) -> list[LLMStreamChunk]:
        self._shown.add(event.output_index)
        seen = self._summaries.get(event.output_index)
        self._summaries[event.output_index] = event.summary_index
        gap = "\n\n" if seen is not None and seen != event.summary_index else ""
        return [LLMStreamChunk(reasoning=gap + as_text(event.delta))]

    def _added(self, event: _ResponsesEvent) -> list[LLMStreamChunk]:
        item = event.item or {}
        if item.get("type") != "function_call":
            return []
        index = self._call_of[event.output_index] = len(self._call_of)
        name = str(item.get("name") or "")
        delta = ToolCallDelta(index, str(item.get("call_id") or ""), self._host_names.get(name, name))
        return [LLMStreamChunk(tool_call=delta)]

    def _done(self, event: _ResponsesEvent) -> list[LLMStreamChunk]:
        """Keeps the item; shows it when no delta did."""
        item = event.item or {}
        self._items[event.output_index] = item
        if event.output_index in self._shown:
            return []
        if item.get("type") == "message":
            text = items_text([item])
            return [LLMStreamChunk(text)] if text else []
        if item.get("type") == "reasoning":
            reasoning = _reasoning(item)
            return [LLMStreamChunk(reasoning=reasoning)] if reasoning else []
        if item.get("type") != "function_call":
            return []
        first = [] if event.output_index in self._call_of else self._added(event)
        arguments = str(item.get("arguments") or "")
        delta = ToolCallDelta(self._call_of[event.output_index], arguments=arguments)
        return [*first, LLMStreamChunk(tool_call=delta)]

    def _terminal(self, event: _ResponsesEvent) -> list[LLMStreamChunk]:
        document = event.response or _ResponsesDocument()
        if document.error or event.type in ("response.failed", "response.cancelled"):
            raise self._failures.of_stream(document.error or {"message": f"the reply ended as {event.type}"})
        # The finished items came one by one. The terminal event repeats them with reasoning encrypted anew, or, at some
        # servers, leaves them out; items that it alone has are taken from it.
        items = [item for _, item in sorted(self._items.items())]
        if len(items) >= len(document.output or ()):
            document.output = items
        document.status = document.status or event.type.removeprefix("response.")
        self._document = document
        self.ended = self.complete = True
        return []

    def response(self) -> LLMResponse:
        """The whole reply."""
        if self._document is None:
            raise ValueError("it has no terminal event")
        return self._wire.read_document(self._document, self._host_names, self._failures)


def _reasoning(item: dict[str, Any]) -> str:
    if item.get("type") != "reasoning":
        return ""
    summary = "\n\n".join([as_text(part.get("text")) for part in objects(item.get("summary"))])
    return summary + "".join([as_text(part.get("text")) for part in objects(item.get("content"))])


def _calls(items: list[dict[str, Any]], host_names: Mapping[str, str]) -> tuple[ToolCall, ...]:
    found = [item for item in items if item.get("type") == "function_call"]
    ids = unique_ids([str(item.get("call_id") or "") for item in found])
    calls: list[ToolCall] = []
    for item, call_id in zip(found, ids, strict=True):
        if item.get("call_id") != call_id:
            item["call_id"] = call_id
        name = str(item.get("name") or "")
        calls.append(ToolCall(call_id, host_names.get(name, name), as_text(item.get("arguments"))))
    return tuple(calls)


def _finish(document: _ResponsesDocument, items: list[dict[str, Any]], calls: tuple[ToolCall, ...]) -> FinishReason:
    if document.status == "incomplete":
        reason = (as_object(document.incomplete_details) or {}).get("reason")
        return "content_filter" if reason == "content_filter" else "length"
    if calls:
        return "tool_calls"
    parts = [part for item in items if item.get("type") == "message" for part in objects(item.get("content"))]
    if any(part.get("type") == "refusal" for part in parts):
        return "content_filter"
    return "stop" if document.status in ("completed", "done") else "unknown"


def _usage(given: Any) -> Usage:
    raw = as_object(given) or {}
    read, made = section(raw, "input_tokens_details"), section(raw, "output_tokens_details")
    return Usage(
        input_tokens=count(raw, "input_tokens"),
        output_tokens=count(raw, "output_tokens"),
        cached_tokens=count(read, "cached_tokens"),
        cache_write_tokens=count(read, "cache_write_tokens"),
        reasoning_tokens=count(made, "reasoning_tokens"),
        calls=1,
    )


def open_service(config: LLMProviderConfig) -> HTTPModelService:
    """A service that speaks Responses."""
    return HTTPModelService(config, ResponsesWire(config.host))
