"""What of a reply's reasoning goes back, and to which model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.model.messages import (
    AssistantMessage,
    ProviderState,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.ports.llm import LLMRequest, LLMResponse
from loopwright.transports import LLMProviderConfig
from loopwright.transports.anthropic_request import BINDING_BETA, render_messages
from loopwright.transports.kept_reasoning import binds_prefix, with_asked_model, written_by
from loopwright.transports.openai_chat_request import render_chat
from loopwright.transports.openai_responses_request import render_responses
from loopwright.transports.wire_parts import RenderedRequest, RenderSettings

RENDER = {"openai": render_chat, "openai-responses": render_responses, "anthropic": render_messages}
CALL = ToolCall("c1", "look", "{}")
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
SAYS = {"type": "text", "text": "ok"}


def rendered(vendor: str, model: str, reply: AssistantMessage, *, host: str = "", **extra: Any) -> RenderedRequest:
    config = LLMProviderConfig(provider=vendor, model=model, api_key="k", base_url=f"https://{host}" if host else None)
    settings = RenderSettings(
        model=model,
        vendor=config.vendor,
        host=config.host,
        capabilities=config.capabilities_of(model),
        max_output_tokens=100,
    )
    results = [ToolResultMessage(call.id, call.name, "seen") for call in reply.tool_calls]
    messages = [UserMessage("go"), reply, *(results or [UserMessage("on")])]
    return RENDER[config.family](LLMRequest(messages=messages, extra=extra), settings, stream=False)


def claude(model: str, *blocks: dict[str, Any], asked: str = "") -> AssistantMessage:
    data: dict[str, Any] = {"content": list(blocks)} | ({"asked": asked} if asked else {})
    calls = [CALL] if USE in blocks else []
    texts = [TextPart("ok")] if SAYS in blocks else []
    return AssistantMessage((ReasoningPart("hm"), *texts, *calls), ProviderState("anthropic", model, data))


def blocks_sent(reply: AssistantMessage, model: str, *, host: str = "", **extra: Any) -> list[str]:
    body = rendered("anthropic", model, reply, host=host, **extra).body
    return [block["type"] for block in body["messages"][1]["content"]]


@pytest.mark.parametrize(
    "answered, asked_then, asks_now, same",
    [
        ("claude-sonnet-4-5-20250929", "", "claude-sonnet-4-5", True),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0", "claude-sonnet-4-0", True),
        ("gpt-5.6-sol", "gpt-5.6", "gpt-5.6", True),
        ("gpt-5-2025-08-07", "our-deployment", "our-deployment", True),
        ("gpt-5-2025-08-07", "", "gpt-5", True),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini", "gpt-5", False),
        ("claude-opus-4-8", "claude-opus-4-8", "claude-opus-4-7", False),
        ("", "", "anything", True),
    ],
)
def test_a_model_is_known_by_the_name_it_answered_under_or_was_asked_by(
    answered: str, asked_then: str, asks_now: str, same: bool
) -> None:
    state = ProviderState("anthropic", answered, {"asked": asked_then} if asked_then else {})
    assert written_by(state, asks_now) is same


def test_the_name_that_was_asked_is_kept_where_another_one_answered() -> None:
    state = ProviderState("openai-responses", "gpt-5.6-sol", {"items": []})
    kept = with_asked_model(LLMResponse(provider_state=state), "gpt-5.6").provider_state
    assert kept == ProviderState("openai-responses", "gpt-5.6-sol", {"items": [], "asked": "gpt-5.6"})
    for response in (LLMResponse(), LLMResponse(provider_state=state)):
        assert with_asked_model(response, "gpt-5.6-sol") is response


@pytest.mark.parametrize("kind", [THOUGHT, {"type": "redacted_thinking", "data": "x"}])
def test_thinking_goes_back_to_the_claude_model_that_wrote_it_and_to_no_other(kind: dict[str, Any]) -> None:
    reply = claude("claude-opus-4-8", kind, SAYS, USE)
    assert blocks_sent(reply, "claude-opus-4-8") == [kind["type"], "text", "tool_use"]
    assert blocks_sent(reply, "claude-opus-4-7") == ["text", "tool_use"]


def test_models_that_sort_out_foreign_thinking_themselves_get_all_of_it() -> None:
    reply = claude("claude-opus-5", THOUGHT, SAYS)
    assert blocks_sent(reply, "claude-fable-5-1") == ["thinking", "text"]
    assert blocks_sent(reply, "claude-fable-5-1", thinking={"type": "disabled"}) == ["text"], "it cannot be asked to"


@pytest.mark.parametrize(
    "model, binds",
    [
        ("claude-fable-5-1", True),
        ("claude-opus-5-5", True),
        ("anthropic/claude-haiku-5.5", True),
        ("claude-sonnet-6", True),
        ("claude-opus-5", False),
        ("claude-opus-5-20260901", False),
        ("claude-opus-4-8", False),
        ("claude-3-5-sonnet-20241022", False),
    ],
)
def test_claude_5_1_and_later_bind_thinking_to_all_before_it(model: str, binds: bool) -> None:
    assert binds_prefix(model) is binds


def test_what_is_bound_to_an_earlier_window_is_left_out_by_the_provider_instead_of_refused() -> None:
    reply = claude("claude-opus-5-5", THOUGHT, SAYS)
    request = rendered("anthropic", "claude-opus-5-5", reply)
    assert request.body["thinking"] == {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert request.headers == {"anthropic-beta": BINDING_BETA}
    shown = rendered("anthropic", "claude-opus-5-5", reply, thinking={"type": "adaptive", "display": "summarized"})
    assert set(shown.body["thinking"]) == {"type", "block_binding", "display"}
    for model, host in (("claude-opus-5", ""), ("claude-opus-5-5", "gateway.example")):
        other = rendered("anthropic", model, reply, host=host)
        assert ("thinking" in other.body, dict(other.headers)) == (False, {})


def test_thinking_with_a_budget_waits_for_the_next_turn_when_this_one_began_without() -> None:
    wanted = {"type": "enabled", "budget_tokens": 1024}
    foreign = claude("claude-opus-4-1", THOUGHT, USE)
    assert "thinking" not in rendered("anthropic", "claude-sonnet-4-5", foreign, thinking=wanted).body
    own = claude("claude-sonnet-4-5", THOUGHT, USE)
    assert rendered("anthropic", "claude-sonnet-4-5", own, thinking=wanted).body["thinking"] == wanted
    answered = claude("claude-opus-4-1", THOUGHT, SAYS)
    assert rendered("anthropic", "claude-sonnet-4-5", answered, thinking=wanted).body["thinking"] == wanted


RS = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
FUNCTION = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "look", "arguments": "{}"}
DROPPED = {"type": "function_call", "id": "fd", "call_id": "c0", "name": "look", "arguments": "{}"}


def items_sent(model: str, *items: dict[str, Any], **extra: Any) -> list[dict[str, Any]]:
    state = ProviderState("openai-responses", "gpt-5.1-2025-11-13", {"origin": "api.openai.com", "items": list(items)})
    parts = [TextPart("ok")] * (MESSAGE in items) + [CALL] * (FUNCTION in items)
    found: list[dict[str, Any]] = rendered(
        "openai-responses", model, AssistantMessage(tuple(parts), state), **extra
    ).body["input"][1:]
    return [item for item in found if "role" not in item or item["role"] == "assistant"]


def test_encrypted_reasoning_goes_back_to_its_own_model_and_to_another_one_the_rest_goes_as_new() -> None:
    assert items_sent("gpt-5.1", RS, MESSAGE, FUNCTION)[:3] == [RS, MESSAGE, FUNCTION]
    for other in ("gpt-5-mini", "gpt-4.1"):
        sent = items_sent(other, RS, MESSAGE, FUNCTION)
        assert [(item["type"], item.get("id")) for item in sent[:2]] == [("message", None), ("function_call", None)]


def test_reasoning_is_never_sent_without_the_item_that_it_led_to() -> None:
    again = {**RS, "id": "rs2"}
    assert items_sent("gpt-5.1", MESSAGE, RS) == [MESSAGE]
    sent = items_sent("gpt-5.1", RS, DROPPED, again, MESSAGE)
    assert [item["type"] for item in sent] == ["reasoning", "message"]
    assert sent[0]["encrypted_content"] == "e"


def test_readable_reasoning_items_are_no_ones_secret() -> None:
    readable = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    assert items_sent("gpt-5-mini", readable, MESSAGE) == [readable, MESSAGE]


def chat(model: str, vendor: str, state: dict[str, Any] | None, *, wrote: str = "a/one") -> dict[str, Any]:
    hosts = {
        "openrouter": "openrouter.ai",
        "deepseek": "api.deepseek.com",
        "gemini": "generativelanguage.googleapis.com",
    }
    data = None if state is None else ProviderState("openai", wrote, {"origin": hosts[vendor], **state})
    reply = AssistantMessage((TextPart("ok"), CALL), data)
    found: dict[str, Any] = rendered(vendor, model, reply).body["messages"][1]
    return found


def test_signed_and_encrypted_details_go_to_their_own_model_and_readable_ones_to_each() -> None:
    details = [
        {"type": "reasoning.text", "text": "a", "index": 0},
        {"type": "reasoning.text", "text": "b", "signature": "s", "index": 1},
        {"type": "reasoning.encrypted", "data": "x", "index": 2},
    ]
    state = {"reasoning": "ab", "reasoning_details": details}
    assert chat("a/one", "openrouter", state)["reasoning_details"] == details
    elsewhere = chat("b/two", "openrouter", state)
    assert (elsewhere["reasoning"], elsewhere["reasoning_details"]) == ("ab", details[:1])
    assert "reasoning_details" not in chat("b/two", "openrouter", {"reasoning_details": details[1:]})


def test_deepseek_is_never_sent_calls_without_the_field_of_its_thinking() -> None:
    assert chat("deepseek-v4-pro", "deepseek", {"reasoning_content": "hm"})["reasoning_content"] == "hm"
    assert chat("deepseek-v4-pro", "deepseek", None)["reasoning_content"] == ""
    assert "reasoning_content" not in chat("b/two", "openrouter", None)


def test_gemini_3_gets_its_own_signatures_and_else_the_word_for_a_call_of_another_model() -> None:
    signed = {"call_extras": {"c1": {"extra_content": {"google": {"thought_signature": "sig"}}}}}
    own = chat("gemini-3-pro-preview", "gemini", signed, wrote="gemini-3-pro-preview")["tool_calls"][0]
    assert own["extra_content"]["google"]["thought_signature"] == "sig"
    for state in (signed, None):
        foreign = chat("gemini-3-pro-preview", "gemini", state, wrote="gemini-4-flash")["tool_calls"][0]
        assert foreign["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator"
    assert "extra_content" not in chat("gemini-2.5-pro", "gemini", None)["tool_calls"][0]


def test_without_the_messages_before_it_a_kept_reply_is_still_a_request_that_can_be_sent() -> None:
    reply = claude("claude-sonnet-4-5", THOUGHT, SAYS, USE)
    folded = [UserMessage("note: what was said before"), reply, ToolResultMessage("c1", "look", "seen")]
    settings = RenderSettings(
        model="claude-sonnet-4-5",
        vendor="anthropic",
        host="api.anthropic.com",
        capabilities=LLMProviderConfig(provider="anthropic", model="m", api_key="k").capabilities,
        max_output_tokens=9,
    )
    body = render_messages(LLMRequest(messages=folded), settings, stream=False).body
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert json.dumps(body["messages"][1]["content"]) == json.dumps([THOUGHT, SAYS, USE])
