"""Where a request tells its provider what to keep in the prompt cache.

Owns: marks on blocks and parts, keys that keep a conversation on one server, smallest sizes that are cached; the sources
stand in `docs/providers.md`. A mark never changes what stands before it. Must not know: how messages are written.
Read next: `anthropic_request.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from ..ports.llm import LLMRequest
from .json_values import objects
from .wire_parts import RenderSettings, encode_body

CLAUDE_HOST: Final = "api.anthropic.com"
CLAUDE_MARK: Final[dict[str, Any]] = {"cache_control": {"type": "ephemeral"}}
OPENAI_MARK: Final[dict[str, Any]] = {"prompt_cache_breakpoint": {"mode": "explicit"}}

_MINIMA: Final = (
    (re.compile(r"(opus-4[-.][56]|haiku-4[-.]5)(?!\d)"), 4096),
    (re.compile(r"opus-4[-.]7(?!\d)|haiku-3|3(-5)?-haiku"), 2048),
    (re.compile(r"(opus|fable|mythos)-[5-9]"), 512),
)
_LOOKBACK: Final = 18
"""Blocks after which an older mark is repeated: a cached prefix is looked for in the 20 blocks before a mark."""
_SHORTEST_TOKEN: Final = 3
"""Characters a token at least stands for, as an estimate that rather marks too much: below the minimum a mark costs nothing."""
_UNMARKABLE: Final = frozenset(("thinking", "redacted_thinking"))
_MARKS_OPENAI = re.compile(r"gpt-(5\.[6-9]|[6-9])")
_KEY_HOSTS: Final = {
    "openai": "api.openai.com",
    "openai-responses": "api.openai.com",
    "mistral": "api.mistral.ai",
}


def cache_minimum(model: str) -> int:
    """Tokens that a prefix needs before this Claude model caches it."""
    name = model.lower()
    return next((tokens for pattern, tokens in _MINIMA if pattern.search(name)), 1024)


def is_cacheable(parts: Sequence[Any], model: str) -> bool:
    """True when `parts` (JSON values, in order) may reach the model's minimum."""
    left = cache_minimum(model) * _SHORTEST_TOKEN
    for part in parts:
        left -= len(part) if isinstance(part, str) else len(encode_body(part))
        if left <= 0:
            return True
    return False


def mark_blocks(turns: list[dict[str, Any]], mark: dict[str, Any], *, end: bool) -> None:
    """Anthropic: marks the last block of `turns` if `end`, and where the request before ended if that is far back."""
    newest = next((i for i in range(len(turns) - 1, -1, -1) if turns[i]["role"] == "assistant"), 0)
    since = sum(len(turn["content"]) for turn in turns[newest:])
    if newest and since > _LOOKBACK:
        _mark_last(turns[newest - 1]["content"], mark)
    if end and turns:
        _mark_last(turns[-1]["content"], mark)


def _mark_last(blocks: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    for i in range(len(blocks) - 1, -1, -1):
        if blocks[i].get("type") not in _UNMARKABLE:
            blocks[i] = {**blocks[i], "cache_control": mark}
            return


def cache_key(request: LLMRequest, settings: RenderSettings) -> str | None:
    """The key to send in `prompt_cache_key`; None where the vendor is not known to take one."""
    if not request.cache_key:
        return None
    host = _KEY_HOSTS.get(settings.vendor)
    known = settings.vendor == "azure" or (host is not None and f".{settings.host}".endswith(f".{host}"))
    return private_key(request.cache_key) if known else None


def cache_headers(request: LLMRequest, settings: RenderSettings) -> dict[str, str]:
    """xAI takes the key of a chat as a header."""
    if request.cache_key and settings.vendor == "xai" and settings.host == "api.x.ai":
        return {"x-grok-conv-id": private_key(request.cache_key)}
    return {}


def private_key(key: str) -> str:
    """A digest of the key: a host's ids, which may name people, are nobody else's business."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def marks_claude_parts(settings: RenderSettings, model: str) -> bool:
    """True for a Claude model behind OpenRouter, which takes Anthropic's marks on parts of messages."""
    return settings.vendor == "openrouter" and model.lstrip("~").startswith("anthropic/")


def marks_openai_parts(settings: RenderSettings, model: str) -> bool:
    """True for OpenAI's models that reuse a prefix only up to a mark (GPT-5.6 and later), at OpenAI itself."""
    at_home = settings.vendor in ("openai", "openai-responses") and settings.host == "api.openai.com"
    return at_home and bool(_MARKS_OPENAI.search(model))


def parts_only(messages: Sequence[dict[str, Any]], field: str, kind: str) -> None:
    """Writes texts as one part each, so that a mark is all that a later request lacks or adds."""
    for message in messages:
        text = message.get(field)
        if isinstance(text, str) and message.get("role") != "assistant" and text:
            message[field] = [{"type": kind, "text": text}]


def ends(messages: Sequence[dict[str, Any]]) -> list[int]:
    """The places where this request and those before it ended: what stands right before a reply, and the last one."""
    ours = [i for i, message in enumerate(messages) if is_reply(message)]
    starts = [i for i in ours if i and i - 1 not in ours]
    found = [i - 1 for i in starts]
    return [*found, len(messages) - 1] if messages and len(messages) - 1 not in ours else found


def is_reply(message: dict[str, Any]) -> bool:
    """True for what the model wrote, in Chat Completions and in Responses."""
    return message.get("role") == "assistant" or (
        "role" not in message and message.get("type") != "function_call_output"
    )


def mark_parts(messages: Sequence[dict[str, Any]], places: Sequence[int], field: str, mark: dict[str, Any]) -> None:
    """Puts `mark` on the last part that says something of each message in `places`."""
    for place in places:
        parts = objects(messages[place].get(field))
        for part in reversed(parts):
            if "text" not in part or part["text"].strip():
                part.update(mark)
                break
