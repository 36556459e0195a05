"""Replies written the way providers write them, whole and as events.

Owns: the server side of the three protocols. Must not know: sockets; the readers in `transports/`.
Read next: `model_server.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..ports.llm import LLMResponse
from ..transports.json_values import as_text, objects, section
from ..transports.reply_chunks import chunks_of

CHAT = "chat"
RESPONSES = "responses"
MESSAGES = "messages"


# How an item or block looks when it has just begun.
_EMPTY_ITEM: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}
_EMPTY_BLOCK: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def protocol_of(path: str) -> str | None:
    """Which protocol a request path belongs to; None when it is none of them."""
    plain = path.partition("?")[0].rstrip("/")
    for end, protocol in (("/chat/completions", CHAT), ("/responses", RESPONSES), ("/messages", MESSAGES)):
        if plain.endswith(end):
            return protocol
    return None


def whole_body(protocol: str, reply: LLMResponse, model: str) -> bytes:
    """The JSON document of a reply that is not streamed."""
    build = {CHAT: _chat_document, RESPONSES: _responses_document, MESSAGES: _messages_document}[protocol]
    return _json(build(reply, reply.model or model)).encode()


def event_bodies(protocol: str, reply: LLMResponse, model: str) -> list[bytes]:
    """The events of a streamed reply, each with its blank line."""
    build = {CHAT: _chat_events, RESPONSES: _responses_events, MESSAGES: _messages_events}[protocol]
    return [event.encode() for event in build(reply, reply.model or model)]


def error_body(protocol: str, message: str, kind: str) -> bytes:
    """The JSON document of a refusal."""
    error = {"message": message, "type": kind, "code": kind}
    return _json({"type": "error", "error": error} if protocol == MESSAGES else {"error": error}).encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _words(reply: LLMResponse, field: str) -> Iterator[str]:
    for chunk in chunks_of(reply):
        if value := getattr(chunk, field):
            yield value


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


# --- Chat Completions ---------------------------------------------------------------------------------------------------


def _chat_usage(reply: LLMResponse) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _chat_finish(reply: LLMResponse) -> str:
    return "stop" if reply.finish_reason in ("unknown", "error") else reply.finish_reason


def _chat_document(reply: LLMResponse, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in reply.tool_calls
        ]
    return {
        "id": reply.response_id or "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_finish(reply)}],
        "usage": _chat_usage(reply),
    }


def _chat_events(reply: LLMResponse, model: str) -> Iterator[str]:
    head = {"id": reply.response_id or "chatcmpl-test", "object": "chat.completion.chunk", "created": 0, "model": model}

    def event(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {_json({**head, 'choices': [choice]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    for word in _words(reply, "reasoning"):
        yield event({"reasoning_content": word})
    for word in _words(reply, "text"):
        yield event({"content": word})
    for index, call in enumerate(reply.tool_calls):
        first, second = _halves(call.arguments)
        function = {"name": call.name, "arguments": first}
        yield event({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        yield event({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
    yield event({}, _chat_finish(reply))
    yield f"data: {_json({**head, 'choices': [], 'usage': _chat_usage(reply)})}\n\n"
    yield "data: [DONE]\n\n"


# --- Responses ----------------------------------------------------------------------------------------------------------


def _responses_items(reply: LLMResponse) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": "rs_test", "summary": summary, "encrypted_content": "opaque"})
    if reply.text or not reply.tool_calls:
        content: list[dict[str, Any]] = [{"type": "output_text", "text": reply.text, "annotations": []}]
        content = content if reply.text else []
        items.append(
            {"type": "message", "id": "msg_test", "role": "assistant", "status": "completed", "content": content}
        )
    for index, call in enumerate(reply.tool_calls):
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call.id, "name": call.name}
        items.append({**item, "arguments": call.arguments, "status": "completed"})
    return items


def _responses_document(reply: LLMResponse, model: str, *, running: bool = False) -> dict[str, Any]:
    usage = reply.usage
    cut = reply.finish_reason in ("length", "content_filter")
    reason = "max_output_tokens" if reply.finish_reason == "length" else "content_filter"
    return {
        "id": reply.response_id or "resp_test",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "in_progress" if running else "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if cut and not running else None,
        "output": [] if running else _responses_items(reply),
        "usage": None
        if running
        else {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
    }


def _responses_events(reply: LLMResponse, model: str) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {_json({'type': kind, **fields})}\n\n"

    running = _responses_document(reply, model, running=True)
    yield event("response.created", response=running)
    yield event("response.in_progress", response=running)
    for index, item in enumerate(_responses_items(reply)):
        kind = item["type"]
        empty = _EMPTY_ITEM[kind]
        yield event("response.output_item.added", output_index=index, item={**item, **empty})
        if kind == "message":
            for word in _words(reply, "text"):
                yield event("response.output_text.delta", output_index=index, content_index=0, delta=word)
        elif kind == "reasoning":
            for word in _words(reply, "reasoning"):
                yield event("response.reasoning_summary_text.delta", output_index=index, summary_index=0, delta=word)
        else:
            for half in _halves(item["arguments"]):
                yield event("response.function_call_arguments.delta", output_index=index, delta=half)
        yield event("response.output_item.done", output_index=index, item=item)
    document = _responses_document(reply, model)
    yield event(f"response.{document['status']}", response=document)


# --- Anthropic Messages -------------------------------------------------------------------------------------------------


def _messages_blocks(reply: LLMResponse) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c2lnbmF0dXJl"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    blocks.extend([{"type": "tool_use", "id": c.id, "name": c.name, "input": c.parsed()} for c in reply.tool_calls])
    return blocks


def _messages_stop(reply: LLMResponse) -> str:
    reasons = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
    return reasons.get(reply.finish_reason, "end_turn")


def _messages_usage(reply: LLMResponse) -> dict[str, Any]:
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _messages_document(reply: LLMResponse, model: str) -> dict[str, Any]:
    return {
        "id": reply.response_id or "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _messages_blocks(reply),
        "stop_reason": _messages_stop(reply),
        "stop_sequence": None,
        "usage": _messages_usage(reply),
    }


def _messages_events(reply: LLMResponse, model: str) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {_json({'type': kind, **fields})}\n\n"

    def piece(index: int, kind: str, **fields: Any) -> str:
        return event("content_block_delta", index=index, delta={"type": kind, **fields})

    start: dict[str, Any] = {**_messages_document(reply, model), "content": [], "stop_reason": None}
    yield event("message_start", message={**start, "usage": {**_messages_usage(reply), "output_tokens": 1}})
    yield event("ping")
    calls = iter(reply.tool_calls)
    for index, block in enumerate(_messages_blocks(reply)):
        kind = block["type"]
        empty = _EMPTY_BLOCK[kind]
        yield event("content_block_start", index=index, content_block={**block, **empty})
        if kind == "text":
            for word in _words(reply, "text"):
                yield piece(index, "text_delta", text=word)
        elif kind == "thinking":
            for word in _words(reply, "reasoning"):
                yield piece(index, "thinking_delta", thinking=word)
            yield piece(index, "signature_delta", signature=block["signature"])
        else:
            for half in _halves(next(calls).arguments):
                yield piece(index, "input_json_delta", partial_json=half)
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": _messages_stop(reply), "stop_sequence": None}
    yield event("message_delta", delta=delta, usage=_messages_usage(reply))
    yield event("message_stop")


# --- reading requests ---------------------------------------------------------------------------------------------------


def asked_turns(protocol: str, body: dict[str, Any]) -> list[tuple[str, str]]:
    """The conversation of a request as (role, text), tool results under the role "tool", calls left out."""
    turns: list[tuple[str, str]] = []
    if protocol == RESPONSES:
        if isinstance(body.get("input"), str):
            return [("user", body["input"])]
        for item in objects(body.get("input")):
            if item.get("type") == "function_call_output":
                turns.append(("tool", _plain(item.get("output"))))
            elif "role" in item:
                turns.append((item["role"], _plain(item.get("content"))))
        return turns
    for message in objects(body.get("messages")):
        content = message.get("content")
        results = [b for b in objects(content) if b.get("type") == "tool_result"]
        turns.extend([("tool", _plain(block.get("content"))) for block in results])
        rest = [b for b in objects(content) if b not in results] if results else content
        if rest or not results:
            turns.append((as_text(message.get("role")), _plain(rest)))
    return turns


def asked_tools(body: dict[str, Any]) -> list[str]:
    """Names of the tools that a request offers."""
    tools = objects(body.get("tools"))
    return [str((section(t, "function") or t).get("name") or t.get("type")) for t in tools]


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join([as_text(part.get("text")) for part in objects(content) if "text" in as_text(part.get("type"))])
