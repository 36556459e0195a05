"""A second, deliberately simple reading of provider bodies, written without a look at the transports.

A stream is put together to the document that the provider would have sent without streaming; a document is read by
looking its fields up. Nothing of `loopwright.transports` is used here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "traffic"
FAMILIES = {"openai_chat": "openai", "openai_responses": "openai-responses", "anthropic_messages": "anthropic"}


def traffic_files() -> list[Path]:
    return sorted(FOLDER.glob("*/*.json"))


def exchanges_of(path: Path) -> list[Any]:
    exchanges: list[Any] = json.loads(path.read_text())["exchanges"]
    return exchanges


def is_stream(body: str) -> bool:
    return not body.lstrip().startswith("{")


def events(body: str) -> list[Any]:
    """The decoded data of each event, `[DONE]` left out."""
    found: list[Any] = []
    for block in re.split(r"\n\n+", body.replace("\r\n", "\n")):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if lines and lines != ["[DONE]"]:
            found.append(json.loads("\n".join(lines)))
    return found


def stream_error(body: str) -> Any:
    """The error object inside of a stream; None when there is none."""
    return next((event["error"] for event in events(body) if event.get("error")), None)


def document_of(family: str, body: str) -> dict[str, Any]:
    """The document that a stream stands for."""
    build = {"openai": _chat, "openai-responses": _responses, "anthropic": _anthropic}[family]
    return build(events(body))


def _chat(chunks: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish, usage, head = None, None, {"id": "", "model": ""}
    for chunk in chunks:
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or usage
        head = {key: head[key] or chunk.get(key) or "" for key in head}
        for choice in chunk["choices"]:
            finish = finish or choice.get("finish_reason")
            delta = choice["delta"]
            for key in ("content", "reasoning"):
                if delta.get(key):
                    message[key] = (message.get(key) or "") + delta[key]
            for detail in delta.get("reasoning_details") or ():
                _add_detail(message.setdefault("reasoning_details", []), detail)
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                call["id"] += piece.get("id") or ""
                call["function"]["name"] += piece["function"].get("name") or ""
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**head, "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """OpenRouter: text pieces of one entry follow each other; other entries come whole."""
    if details and piece["type"] == "reasoning.text" == details[-1]["type"]:
        details[-1]["text"] = details[-1].get("text", "") + piece.get("text", "")
        if piece.get("signature"):
            details[-1]["signature"] = piece["signature"]
    else:
        details.append(dict(piece))


def _responses(found: list[Any]) -> dict[str, Any]:
    last: dict[str, Any] = next(e["response"] for e in found if e["type"] == "response.completed")
    return last


def _anthropic(found: list[Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    partial: dict[int, str] = {}
    for event in found:
        kind = event["type"]
        if kind == "message_start":
            document = dict(event["message"])
            document["content"] = []
        elif kind == "content_block_start":
            document["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            _add_delta(document["content"][event["index"]], event["delta"], partial, event["index"])
        elif kind == "content_block_stop" and partial.get(event["index"]):
            document["content"][event["index"]]["input"] = json.loads(partial[event["index"]])
        elif kind == "message_delta":
            document.update(event["delta"])
            document["usage"] = {**document["usage"], **event["usage"]}
    return document


def _add_delta(block: dict[str, Any], delta: dict[str, Any], partial: dict[int, str], index: int) -> None:
    kind = delta["type"]
    if kind == "text_delta":
        block["text"] += delta["text"]
    elif kind == "thinking_delta":
        block["thinking"] += delta["thinking"]
    elif kind == "signature_delta":
        block["signature"] = delta["signature"]
    elif kind == "input_json_delta":
        partial[index] = partial.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block.setdefault("citations", []).append(delta["citation"])


def expected(family: str, document: dict[str, Any]) -> dict[str, Any]:
    """What a reply must be read as, looked up field by field."""
    read = {"openai": _expect_chat, "openai-responses": _expect_responses, "anthropic": _expect_anthropic}[family]
    return read(document)


def _expect_chat(document: dict[str, Any]) -> dict[str, Any]:
    message = document["choices"][0]["message"]
    usage = document.get("usage") or {}
    details = message.get("reasoning_details") or []
    calls = message.get("tool_calls") or []
    finish = document["choices"][0]["finish_reason"]
    return {
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning") or "".join([d.get("text") or d.get("summary") or "" for d in details]),
        "calls": [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls],
        # Some servers say "stop" for a turn of calls.
        "finish": "tool_calls" if calls and finish == "stop" else finish or "unknown",
        "tokens": (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)),
        # Mistral has a place of its own.
        "cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or usage.get("num_cached_tokens", 0),
        "written": (usage.get("prompt_tokens_details") or {}).get("cache_write_tokens") or 0,
        "reasoned": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    }


def _expect_responses(document: dict[str, Any]) -> dict[str, Any]:
    items = document["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [item for item in items if item["type"] == "reasoning"]
    calls = [item for item in items if item["type"] == "function_call"]
    usage = document["usage"]
    return {
        "text": "".join([part["text"] for part in parts]),
        "reasoning": "".join([p["text"] for t in thoughts for p in [*t["summary"], *(t.get("content") or ())]]),
        "calls": [(c["call_id"], c["name"], json.loads(c["arguments"])) for c in calls],
        "finish": "tool_calls" if calls else "stop",
        "tokens": (usage["input_tokens"], usage["output_tokens"]),
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "written": usage["input_tokens_details"].get("cache_write_tokens") or 0,
        "reasoned": usage["output_tokens_details"]["reasoning_tokens"],
    }


def _expect_anthropic(document: dict[str, Any]) -> dict[str, Any]:
    blocks = document["content"]
    usage = document["usage"]
    cached = usage["cache_read_input_tokens"]
    return {
        "text": "".join([b["text"] for b in blocks if b["type"] == "text"]),
        "reasoning": "".join([b["thinking"] for b in blocks if b["type"] == "thinking"]),
        "calls": [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"],
        "finish": {"end_turn": "stop", "tool_use": "tool_calls"}[document["stop_reason"]],
        "tokens": (usage["input_tokens"] + cached + usage["cache_creation_input_tokens"], usage["output_tokens"]),
        "cached": cached,
        "written": usage["cache_creation_input_tokens"],
        "reasoned": (usage.get("output_tokens_details") or {}).get("thinking_tokens", 0),
    }
