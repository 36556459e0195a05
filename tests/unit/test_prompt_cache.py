"""Requests that begin like the one before, and the marks that tell providers so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.model.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    ProviderState,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.model.specs import ToolSpec
from loopwright.ports.llm import LLMRequest
from loopwright.transports import LLMProviderConfig
from loopwright.transports.anthropic_request import render_messages
from loopwright.transports.openai_chat_request import render_chat
from loopwright.transports.openai_responses_request import render_responses
from loopwright.transports.prompt_cache import cache_minimum, private_key
from loopwright.transports.wire_parts import RenderedRequest, RenderSettings, encode_body

RENDER = {"openai": render_chat, "openai-responses": render_responses, "anthropic": render_messages}
MODELS = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-5-5"),
    ("openai", "gpt-5-mini"),
    ("openai", "gpt-5.6"),
    ("openai-responses", "gpt-5-mini"),
    ("openai-responses", "gpt-5.6"),
    ("openrouter", "anthropic/claude-sonnet-4.6"),
    ("openrouter", "deepseek/deepseek-v4"),
]
LONG = "word " * 4000
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
MARKS = ("cache_control", "prompt_cache_breakpoint")


def rendered(vendor: str, model: str, messages: Sequence[Message], **fields: Any) -> RenderedRequest:
    config = LLMProviderConfig(provider=vendor, model=model, api_key="k", base_url=fields.pop("base_url", None))
    settings = RenderSettings(
        model=model,
        vendor=config.vendor,
        host=config.host,
        capabilities=config.capabilities_of(model),
        max_output_tokens=100,
    )
    return RENDER[config.family](LLMRequest(messages=messages, **fields), settings, stream=False)


def body(vendor: str, model: str, messages: Sequence[Message], **fields: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(encode_body(rendered(vendor, model, messages, **fields).body))
    return decoded


def unmarked(value: Any) -> Any:
    """A JSON value without marks, which no provider counts as part of the text before them."""
    if isinstance(value, dict):
        return {name: unmarked(member) for name, member in value.items() if name not in MARKS}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def units(request: dict[str, Any]) -> list[Any]:
    """What a provider reads, in its order: tools, instructions, then each block of each message."""
    found: list[Any] = [request.get("tools"), request.get("system"), request.get("instructions")]
    for message in request.get("messages") or request["input"]:
        content = message.get("content", message)
        head = {name: value for name, value in message.items() if name != "content"}
        found.append(head)
        found.extend(content if isinstance(content, list) else [content])
    without_marks: list[Any] = unmarked(found)
    return without_marks


texts = st.text("ab \n", max_size=4)
users = st.one_of(
    texts.map(UserMessage),
    st.just(UserMessage((TextPart("see"), ImagePart(data=b"x")))),
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """One round: what is said, a reply that may think and call, the results."""
    number = draw(st.integers(0, 10**6))
    calls = [ToolCall(f"c{number}_{i}", "look", "{}") for i in range(draw(st.integers(0, 12)))]
    text = draw(texts)
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    blocks += [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": call.id, "name": "look", "input": {}} for call in calls]
    state = draw(st.sampled_from([None, ProviderState("anthropic", "claude-sonnet-4-5", {"content": blocks})]))
    reply = AssistantMessage((*([TextPart(text)] if text else []), *calls), state)
    results: list[Message] = []
    for call in calls:
        content = draw(st.sampled_from(["", "seen", (TextPart("a"), ImagePart(data=b"y"))]))
        results.append(ToolResultMessage(call.id, "look", content))
    return [draw(users), reply, *results]


@pytest.mark.parametrize("vendor, model", MODELS)
@given(
    before=st.lists(rounds(), max_size=3),
    more=rounds(),
    tail=st.lists(texts, max_size=2),
    next_tail=st.lists(texts, max_size=2),
    prompt=st.sampled_from([None, "short", LONG]),
)
def test_each_request_begins_with_the_stable_part_of_the_one_before(
    vendor: str,
    model: str,
    before: list[list[Message]],
    more: list[Message],
    tail: list[str],
    next_tail: list[str],
    prompt: str | None,
) -> None:
    said: list[Message] = [message for one in before for message in one]
    said.append(more[0])
    fixed: dict[str, Any] = {"system_prompt": prompt, "tools": (LOOK,), "cache_key": "k"}

    def request(messages: list[Message], last: list[str]) -> dict[str, Any]:
        whole = [*messages, *[UserMessage(text) for text in last]]
        return body(vendor, model, whole, stable=len(messages), **fixed)

    first = request(said, tail)
    bare = units(body(vendor, model, said, **fixed))
    second = request([*said, *more[1:]], next_tail)
    # Judged before they are asserted: to show where texts of this length differ takes minutes.
    kept = [units(later)[: len(bare)] == bare for later in (first, second)]
    assert kept == [True, True], "a tail or the next round changed what stands before it"
    assert json.dumps(first).count('"cache_control"') <= 4


def test_the_tail_stands_behind_the_mark_in_a_turn_that_it_shares_with_the_stable_part() -> None:
    said = [UserMessage(LONG), UserMessage("remembered")]
    [turn] = body("anthropic", "claude-sonnet-4-5", said, stable=1)["messages"]
    assert [block.get("cache_control") for block in turn["content"]] == [{"type": "ephemeral"}, None]


def test_without_a_tail_the_provider_finds_the_end_itself() -> None:
    for stable in (None, 1, 7):
        request = body("anthropic", "claude-sonnet-4-5", [UserMessage(LONG)], stable=stable)
        assert request["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in json.dumps(request["messages"])


def test_long_instructions_and_else_long_tools_have_a_mark_of_their_own() -> None:
    assert body("anthropic", "claude-sonnet-4-5", [UserMessage("x")], system_prompt="short")["system"] == "short"
    request = body("anthropic", "claude-sonnet-4-5", [UserMessage("x")], system_prompt=LONG, tools=(LOOK,))
    assert request["system"] == [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    assert "cache_control" not in json.dumps(request["tools"])
    tools = (LOOK, ToolSpec("read", LONG, {"type": "object", "properties": {}}))
    marked = body("anthropic", "claude-sonnet-4-5", [UserMessage("x")], tools=tools)["tools"]
    assert ["cache_control" in tool for tool in marked] == [False, True]


def test_below_the_smallest_prefix_that_the_model_caches_nothing_is_marked() -> None:
    said = [UserMessage("short"), UserMessage("remembered")]
    assert "cache_control" not in json.dumps(body("anthropic", "claude-sonnet-4-5", said, stable=1))
    middle = [UserMessage("word " * 800), UserMessage("remembered")]
    assert "cache_control" in json.dumps(body("anthropic", "claude-sonnet-4-5", middle, stable=1))
    assert "cache_control" not in json.dumps(body("anthropic", "claude-opus-4-6", middle, stable=1))


@pytest.mark.parametrize(
    "model, tokens",
    [
        ("claude-opus-5", 512),
        ("claude-fable-5-1", 512),
        ("claude-sonnet-4-5-20250929", 1024),
        ("claude-opus-4-1-20250805", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-3-5-haiku-20241022", 2048),
        ("claude-haiku-4-5", 4096),
        ("anthropic/claude-opus-4.6", 4096),
        ("in-house", 1024),
    ],
)
def test_the_smallest_prefix_that_is_cached_is_known_by_family(model: str, tokens: int) -> None:
    assert cache_minimum(model) == tokens


def test_after_a_round_of_many_calls_the_end_of_the_request_before_is_marked_again() -> None:
    calls = tuple([ToolCall(f"c{i}", "look", "{}") for i in range(20)])
    said = [UserMessage("go"), AssistantMessage(calls), *[ToolResultMessage(c.id, "look", "seen") for c in calls]]
    turns = body("anthropic", "claude-sonnet-4-5", said)["messages"]
    assert turns[0]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    few = body("anthropic", "claude-sonnet-4-5", [*said[:1], AssistantMessage(calls[:2]), *said[2:4]])["messages"]
    assert "cache_control" not in json.dumps(few)


def test_the_host_says_how_a_mark_looks_and_may_do_without() -> None:
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    said = [UserMessage(LONG), UserMessage("remembered")]
    request = body("anthropic", "claude-sonnet-4-5", said, stable=1, system_prompt=LONG, extra=hour)
    assert "cache_control" not in request
    assert json.dumps(request).count('"ttl": "1h"') == json.dumps(request).count('"cache_control"') == 2
    assert "cache_control" not in body("anthropic", "claude-sonnet-4-5", said, extra={"cache_control": None})


def test_a_stranger_who_speaks_the_protocol_gets_no_marks_and_no_keys() -> None:
    said = [UserMessage(LONG), UserMessage("remembered")]
    for vendor, model in (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.6"), ("openai-responses", "gpt-5.6")):
        request = rendered(vendor, model, said, stable=1, cache_key="s", base_url="https://gateway.example/v1")
        text = json.dumps(request.body)
        assert not any(word in text for word in (*MARKS, "prompt_cache_key", "prompt_cache_options"))
        assert not request.headers


@pytest.mark.parametrize(
    "vendor, model, base_url",
    [
        ("openai", "gpt-5", None),
        ("openai-responses", "gpt-5", None),
        ("openai", "gpt-5", "https://eu.api.openai.com/v1"),
        ("azure", "deployed", "https://ours.openai.azure.com/openai/v1"),
        ("mistral", "mistral-large-latest", None),
    ],
)
def test_a_conversation_keeps_its_key_where_the_vendor_takes_one(vendor: str, model: str, base_url: str | None) -> None:
    said: list[Message] = [UserMessage("x")]
    request = body(vendor, model, said, cache_key="sess_1", base_url=base_url)
    assert request["prompt_cache_key"] == private_key("sess_1")
    assert "prompt_cache_key" not in body(vendor, model, said, base_url=base_url)
    own = body(vendor, model, said, cache_key="sess_1", base_url=base_url, extra={"prompt_cache_key": "ours"})
    assert own["prompt_cache_key"] == "ours"


def test_xai_takes_the_key_as_a_header_and_groq_does_not_take_one() -> None:
    said: list[Message] = [UserMessage("x")]
    assert rendered("xai", "grok-4", said, cache_key="sess_1").headers == {"x-grok-conv-id": private_key("sess_1")}
    assert "prompt_cache_key" not in body("groq", "llama-4", said, cache_key="sess_1")


@given(st.text(max_size=200))
def test_a_key_is_the_same_each_time_short_enough_for_every_vendor_and_shows_nothing(key: str) -> None:
    found = private_key(key)
    assert (len(found), found.isalnum(), found.isascii()) == (32, True, True)
    assert found == private_key(key)
    assert not key.strip() or len(key) < 5 or key not in found


def test_claude_behind_openrouter_is_marked_on_parts() -> None:
    said = [UserMessage(LONG), AssistantMessage((TextPart("ok"),)), UserMessage("and?"), UserMessage("remembered")]
    request = body("openrouter", "anthropic/claude-sonnet-4.6", said, stable=3, system_prompt="be brief")["messages"]
    marked = [m["role"] for m in request if "cache_control" in json.dumps(m)]
    assert marked == ["system", "user", "user"]
    assert request[-1] == {"role": "user", "content": [{"type": "text", "text": "remembered"}]}
    assert request[2] == {"role": "assistant", "content": "ok"}


@pytest.mark.parametrize("vendor", ["openai", "openai-responses"])
def test_openais_newer_models_are_told_where_the_stable_part_and_those_before_it_end(vendor: str) -> None:
    said = [
        SystemMessage("be brief"),
        UserMessage("x"),
        AssistantMessage((ToolCall("c1", "look", "{}"),)),
        ToolResultMessage("c1", "look", "seen"),
        UserMessage("remembered"),
    ]
    request = body(vendor, "gpt-5.6", said, stable=4)
    items = request.get("messages") or request["input"]
    assert ["prompt_cache_breakpoint" in json.dumps(item) for item in items] == [False, True, False, True, False]
    assert request["prompt_cache_options"] == {"mode": "explicit"}
    plain = body(vendor, "gpt-5.6", said[:4])
    assert "prompt_cache" not in json.dumps(plain)
    assert unmarked(items)[:4] == (plain.get("messages") or plain["input"])
