"""Which of a reply's reasoning goes back to the provider: all of it, except what would be refused.

Owns: one rule for each protocol, over what the reply left in `ProviderState`; the sources stand in `docs/providers.md`.
Must not know: HTTP, how the rest of a request is written.
Read next: `anthropic_request.py`, `openai_responses_request.py`, `openai_chat_request.py`, which apply the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..model.messages import AssistantMessage, ProviderState
from ..ports.llm import LLMResponse
from .json_values import as_object, as_text, objects, section

THINKING: Final = frozenset(("thinking", "redacted_thinking"))
"""Kinds of Anthropic's blocks that carry a signature."""

_DATED = re.compile(r"[-@:]?(\d{8}|\d{4}-\d{2}-\d{2}|\d{4})$")
_BINDS_PREFIX = re.compile(r"claude-[a-z]+-(5[-.][1-9]|[6-9])(?!\d)")
_GEMINI_SIGNS = re.compile(r"gemini-([3-9]|\d\d)")
_UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Google's own word for a call that another model wrote."""


def with_asked_model(response: LLMResponse, asked: Any) -> LLMResponse:
    """The response whose state also says which name the model was asked by, where it answered under another one."""
    state = response.provider_state
    data = as_object(state.data) if state is not None else None
    if state is None or data is None or not isinstance(asked, str) or asked in ("", state.model):
        return response
    kept = ProviderState(state.provider, state.model, {**data, "asked": asked})
    return msgspec.structs.replace(response, provider_state=kept)


def written_by(state: ProviderState, model: str) -> bool:
    """True when the model that is asked as `model` wrote this, as far as the names tell.

    A provider answers under other names than it is asked by (a dated snapshot, what a deployment stands for), so the
    name that was asked then counts as well; a state that names no model counts as written by whoever is asked.
    """
    if state.model in ("", model) or section_text(state, "asked") == model:
        return True
    return _DATED.sub("", state.model) == _DATED.sub("", model)


def section_text(state: ProviderState, name: str) -> str:
    """A text in the state's data; "" when there is none."""
    return as_text((as_object(state.data) or {}).get(name))


def binds_prefix(model: str) -> bool:
    """True for Claude models that check all of a request before a thinking block (5.1 and later)."""
    return bool(_BINDS_PREFIX.search(model.lower()))


def keeps_thinking(message: AssistantMessage, model: str, *, disabled: bool) -> bool:
    """Anthropic: whether the thinking blocks of `message` go to `model`.

    A model before 5.1 refuses signatures of another one. A later model itself leaves out what it cannot read, and is
    asked to leave out what follows a changed prefix, which it cannot be asked for when thinking is disabled.
    """
    state = message.provider_state
    if state is None:
        return False
    return not disabled if binds_prefix(model) else written_by(state, model)


def lacks_thinking(turns: Sequence[dict[str, Any]]) -> bool:
    """Anthropic: True when the newest assistant turn asks for tools and does not begin with thinking.

    Then thinking with a budget is refused: it has to be left off until the next turn.
    """
    newest = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), None)
    blocks = objects(newest["content"]) if newest is not None else []
    return any(block.get("type") == "tool_use" for block in blocks) and blocks[0].get("type") not in THINKING


def usable_items(state: ProviderState, model: str, wanted: Sequence[str], *, stored: bool) -> list[dict[str, Any]]:
    """OpenAI Responses: the items that go to `model`, with the calls in `wanted` only.

    Left out is reasoning that another model encrypted, that is only a reference to what was never stored, or that has
    lost the item it led to; without all of its reasoning the rest goes as if it were new, under no id.
    """
    items = objects((as_object(state.data) or {}).get("items"))
    own = written_by(state, model)
    kept: list[dict[str, Any]] = []
    anew = False
    for item in items:
        kind = item.get("type")
        if kind == "function_call" and item.get("call_id") not in wanted:
            anew = _without_trailing_reasoning(kept) or anew
        elif kind == "reasoning" and not _is_usable(item, own=own, stored=stored):
            anew = True
        else:
            kept.append(item)
    _without_trailing_reasoning(kept)
    return [{k: v for k, v in item.items() if k != "id"} for item in kept] if anew else kept


def _is_usable(item: dict[str, Any], *, own: bool, stored: bool) -> bool:
    if item.get("encrypted_content"):
        return own
    return stored or bool(item.get("content"))


def _without_trailing_reasoning(items: list[dict[str, Any]]) -> bool:
    """Takes reasoning off the end, which is refused without the item that it led to; True when there was some."""
    before = len(items)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return len(items) < before


def chat_reasoning(message: AssistantMessage, data: dict[str, Any], *, model: str, vendor: str) -> dict[str, Any]:
    """Chat Completions: the reasoning fields of an assistant message that go to `model`.

    Readable text goes to every model of its host. What is encrypted or signed goes to the model that wrote it.
    DeepSeek refuses a turn of calls without the field, even where nothing was thought or another model wrote it.
    """
    fields: dict[str, Any] = {name: data[name] for name in ("reasoning_content", "reasoning") if name in data}
    details = objects(data.get("reasoning_details"))
    state = message.provider_state
    if details and state is not None and not written_by(state, model):
        details = [d for d in details if d.get("type") != "reasoning.encrypted" and not d.get("signature")]
    if details:
        fields["reasoning_details"] = details
    if vendor == "deepseek" and message.tool_calls:
        fields.setdefault("reasoning_content", "")
    return fields


def chat_call_extras(message: AssistantMessage, data: dict[str, Any], *, model: str, vendor: str) -> dict[str, Any]:
    """Chat Completions: what goes with each call beside the protocol's own fields, by call id (Gemini's signatures).

    Gemini 3 and later refuse a turn whose first call has no signature, or one of another model.
    """
    state = message.provider_state
    own = state is not None and written_by(state, model)
    extras = section(data, "call_extras") if own else {}
    calls = message.tool_calls
    if vendor == "gemini" and calls and calls[0].id not in extras and _GEMINI_SIGNS.search(model.lower()):
        return {**extras, calls[0].id: {"extra_content": _UNSIGNED}}
    return extras
