"""Neutral requests, written down for each provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from loopwright.model.errors import ConfigError
from loopwright.model.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ProviderState,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.model.specs import StructuredOutputSpec, ToolSpec
from loopwright.ports.llm import LLMRequest
from loopwright.transports import LLMProviderConfig, ModelCapabilities
from loopwright.transports.anthropic_request import render_messages
from loopwright.transports.openai_chat_request import render_chat
from loopwright.transports.openai_responses_request import render_responses
from loopwright.transports.wire_parts import RenderSettings, encode_body

RENDER: dict[str, Callable[..., Any]] = {
    "openai": render_chat,
    "openai-responses": render_responses,
    "anthropic": render_messages,
}
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TURN = [
    UserMessage("hi"),
    AssistantMessage((ReasoningPart("hm"), TextPart("ok"), ToolCall("c1", "add", '{"a": 1}'))),
    ToolResultMessage("c1", "add", "2"),
]


def body(
    provider: str, messages: Any = "hi", *, vendor: str = "", model: str = "gpt-5-mini", **fields: Any
) -> dict[str, Any]:
    """The body as the provider gets it, through JSON."""
    family = provider
    if family == "anthropic" and model == "gpt-5-mini":
        model = "claude-sonnet-4-5"
    config = LLMProviderConfig(provider=vendor or provider, base_url="http://h/v1", api_key="k", model=model)
    capabilities = fields.pop("capabilities", ModelCapabilities()).over(config.capabilities_of(model))
    limit = fields.pop("limit", 100)
    settings = RenderSettings(
        model=model,
        vendor=config.vendor,
        host="h",
        capabilities=capabilities,
        max_output_tokens=limit,
        extra=fields.pop("config_extra", {}),
    )
    given = [UserMessage(messages)] if isinstance(messages, str) else messages
    rendered = RENDER[family](LLMRequest(messages=given, **fields), settings, stream=False)
    decoded: dict[str, Any] = json.loads(encode_body(rendered.body))
    return decoded


def said(request: dict[str, Any]) -> list[Any]:
    found: list[Any] = request.get("messages") or request["input"]
    return found


def test_instructions_go_where_the_provider_has_a_place_for_them() -> None:
    messages = [SystemMessage("B"), UserMessage("hi")]
    assert said(body("openai", messages, system_prompt="A"))[:2] == [
        {"role": "system", "content": "A"},
        {"role": "system", "content": "B"},
    ]
    responses = body("openai-responses", messages, system_prompt="A")
    assert (responses["instructions"], said(responses)[0]) == ("A", {"role": "system", "content": "B"})
    anthropic = body("anthropic", messages, system_prompt="A")
    assert (anthropic["system"], len(said(anthropic))) == ("A\n\nB", 1)


def test_instructions_in_mid_conversation_stay_in_their_place() -> None:
    messages = [UserMessage("hi"), SystemMessage("note")]
    assert said(body("openai", messages))[1] == {"role": "system", "content": "note"}
    (turn,) = said(body("anthropic", messages))
    assert [block["text"] for block in turn["content"]] == ["hi", "<system>\nnote\n</system>"]


@pytest.mark.parametrize("provider", RENDER)
def test_tool_choice_is_never_sent_without_tools(provider: str) -> None:
    assert "tool_choice" not in body(provider, tool_choice="required")
    assert "tools" not in body(provider, tool_choice="required")


@pytest.mark.parametrize(
    "provider, choice, expected",
    [
        ("openai", "required", "required"),
        ("openai", "add", {"type": "function", "function": {"name": "add"}}),
        ("openai-responses", "add", {"type": "function", "name": "add"}),
        ("openai-responses", "none", "none"),
        ("anthropic", "auto", {"type": "auto"}),
        ("anthropic", "none", {"type": "none"}),
        ("anthropic", "required", {"type": "any"}),
        ("anthropic", "add", {"type": "tool", "name": "add"}),
    ],
)
def test_tool_choice_in_the_provider_s_words(provider: str, choice: str, expected: Any) -> None:
    assert body(provider, tools=[ADD], tool_choice=choice)["tool_choice"] == expected


def test_vendors_differ_in_tool_choice_and_output_limit() -> None:
    mistral = body("openai", vendor="mistral", model="mistral-small", tools=[ADD], tool_choice="required")
    assert (mistral["tool_choice"], mistral["max_tokens"]) == ("any", 100)
    assert body("openai", model="gpt-5-mini")["max_completion_tokens"] == 100
    never = ModelCapabilities(forced_tool_choice=False, max_tokens_field="n")
    limited = body("openai", tools=[ADD], tool_choice="add", capabilities=never)
    assert (limited["tool_choice"], limited["n"]) == ("auto", 100)


def test_anthropic_thinking_takes_neither_temperature_nor_a_forced_choice() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    request = body("anthropic", tools=[ADD], tool_choice="required", temperature=0.5, extra=thinking)
    assert request["tool_choice"] == {"type": "auto"}
    assert "temperature" not in request
    assert request["thinking"] == thinking["thinking"]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD.parameters}},
        {"type": "function", "name": "add", "description": "Adds.", "parameters": ADD.parameters},
        {"name": "add", "description": "Adds.", "input_schema": ADD.parameters},
    ],
)
@pytest.mark.parametrize("provider", RENDER)
def test_tools_are_taken_in_any_usual_shape(provider: str, tool: dict[str, Any]) -> None:
    assert body(provider, tools=[tool])["tools"] == body(provider, tools=[ADD])["tools"]


def test_a_provider_s_own_tool_is_passed_on() -> None:
    assert body("openai-responses", tools=[{"type": "web_search"}])["tools"] == [{"type": "web_search"}]


def test_names_are_changed_only_where_needed_and_never_collide() -> None:
    tools = [ToolSpec("fs.read", "", {}), ADD]
    rendered = render_chat(
        LLMRequest(messages=["x"], tools=tools),
        RenderSettings(model="m", vendor="openai", host="h", capabilities=ModelCapabilities()),
        stream=False,
    )
    assert [tool["function"]["name"] for tool in rendered.body["tools"]] == ["fs_read", "add"]
    assert rendered.host_names == {"fs_read": "fs.read"}
    with pytest.raises(ConfigError, match=r"'fs\.read' and 'fs_read'"):
        body("openai", tools=[*tools, ToolSpec("fs_read", "", {})])


def test_a_name_of_the_history_is_changed_like_that_of_an_offered_tool() -> None:
    messages = [
        UserMessage("x"),
        AssistantMessage((ToolCall("c", "fs.read", "{}"),)),
        ToolResultMessage("c", "fs.read", "y"),
    ]
    assert said(body("openai", messages))[1]["tool_calls"][0]["function"]["name"] == "fs_read"


def test_a_turn_of_calls_and_its_results() -> None:
    chat = said(body("openai", TURN))
    assert chat[1] == {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
    }
    assert chat[2] == {"role": "tool", "tool_call_id": "c1", "content": "2"}
    assert said(body("openai-responses", TURN))[1:] == [
        {"role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
    ]
    assert said(body("anthropic", TURN))[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}]},
    ]


def test_a_turn_of_calls_alone_has_no_content() -> None:
    assert (
        said(body("openai", [AssistantMessage((ToolCall("c", "add", "{}"),)), ToolResultMessage("c", "add", "")]))[0][
            "content"
        ]
        is None
    )


DEEP = '{"a":' * 990 + "1" + "}" * 990


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a', {"_raw": '{"a'}),
        ("[1]", {"_raw": "[1]"}),
        (DEEP, {"_raw": DEEP}),
    ],
)
def test_any_argument_text_of_the_history_goes_back_in_an_accepted_form(arguments: str, expected: Any) -> None:
    messages = [
        UserMessage("x"),
        AssistantMessage((ToolCall("c", "add", arguments),)),
        ToolResultMessage("c", "add", "y", ok=False),
    ]
    call, result = said(body("anthropic", messages))[1:]
    assert call["content"][0]["input"] == expected
    assert result["content"][0]["is_error"] is True
    sent = said(body("openai", messages))[1]["tool_calls"][0]["function"]["arguments"]
    assert sent == (arguments if arguments.strip() else "{}")


def test_anthropic_turns_alternate_and_results_come_first() -> None:
    messages = [
        AssistantMessage((TextPart("a"), ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}"))),
        ToolResultMessage("c1", "f", "1"),
        ToolResultMessage("c2", "f", "2"),
        UserMessage("more"),
        UserMessage("and more"),
        AssistantMessage((TextPart(""),)),
        UserMessage(""),
    ]
    turns = said(body("anthropic", messages))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "tool_result", "text", "text", "text"]
    assert all(block["text"].strip() for turn in turns for block in turn["content"] if block["type"] == "text")


def test_anthropic_call_ids_are_unique_and_of_its_alphabet() -> None:
    once = [AssistantMessage((ToolCall("f:0", "f", "{}"),)), ToolResultMessage("f:0", "f", "1")]
    turns = said(body("anthropic", [UserMessage("x"), *once, *once]))
    ids = [block["id"] for turn in turns for block in turn["content"] if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for turn in turns for block in turn["content"] if block["type"] == "tool_result"]
    assert ids == answered == ["f_0", "f_0_2"]


def test_lone_surrogates_become_replacement_characters_everywhere() -> None:
    broken = "a\ud83d"
    messages = [
        UserMessage(broken),
        AssistantMessage((ToolCall("c", "f", json.dumps({"a": broken})),)),
        ToolResultMessage("c", "f", broken),
    ]
    for provider in RENDER:
        text = json.dumps(body(provider, messages, system_prompt=broken), ensure_ascii=False)
        text.encode()
        assert text.count("a\ufffd") >= 3


PICTURE = ImagePart("image/png", b"\x89PNG", detail="low")
LINK = ImagePart(url="https://x/y.png")
PDF = FilePart("application/pdf", "a.pdf", b"%PDF")


def test_pictures_and_files_in_the_provider_s_shape() -> None:
    messages = [UserMessage((TextPart("see"), PICTURE, LINK, PDF))]
    data = "data:image/png;base64,iVBORw=="
    assert said(body("openai", messages))[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": data, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
    ]
    assert said(body("openai-responses", messages))[0]["content"][1:] == [
        {"type": "input_image", "image_url": data, "detail": "low"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    ]
    assert said(body("anthropic", messages))[0]["content"][1:] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        },
    ]


@pytest.mark.parametrize("vendor, model", [("deepseek", "deepseek-chat"), ("somewhere", "never-heard-of")])
def test_a_model_that_cannot_see_reads_that_it_did_not(vendor: str, model: str) -> None:
    content = said(body("openai", [UserMessage((PICTURE, LINK))], vendor=vendor, model=model))[0]["content"]
    assert all("you have NOT seen it" in part["text"] for part in content)
    assert "https://x/y.png" in content[1]["text"]


def test_a_declared_ability_wins_over_the_table() -> None:
    sees = ModelCapabilities(images=True)
    content = said(
        body("openai", [UserMessage((LINK,))], vendor="somewhere", model="never-heard-of", capabilities=sees)
    )[0]["content"]
    assert content[0]["type"] == "image_url"


def test_pictures_of_tool_results_stay_behind_all_results() -> None:
    messages = [
        UserMessage("x"),
        AssistantMessage((ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}"))),
        ToolResultMessage("c1", "f", (TextPart("here"), PICTURE)),
        ToolResultMessage("c2", "f", "done"),
    ]
    assert [m["role"] for m in said(body("openai", messages))] == ["user", "assistant", "tool", "tool", "user"]
    assert said(body("openai", messages))[4]["content"][1]["type"] == "image_url"
    assert said(body("openai-responses", messages))[3]["output"][1]["type"] == "input_image"
    assert said(body("anthropic", messages))[2]["content"][0]["content"][1]["type"] == "image"


def test_text_files_are_shown_as_text_to_every_model() -> None:
    file = FilePart("text/csv", "a.csv", b"a,b")
    for provider in RENDER:
        assert "a,b" in json.dumps(
            said(
                body(provider, [UserMessage((file,))], model="claude-3-haiku" if provider == "anthropic" else "gpt-4o")
            )
        )


def test_structured_output_is_enforced_where_the_provider_can() -> None:
    spec = StructuredOutputSpec("city", CLOSED, description="A city.")
    chat = body("openai", response_format=spec)["response_format"]
    assert chat == {
        "type": "json_schema",
        "json_schema": {"name": "city", "schema": CLOSED, "strict": True, "description": "A city."},
    }
    assert body("openai-responses", response_format=spec)["text"]["format"]["strict"] is True
    assert body("anthropic", response_format=spec)["output_config"] == {
        "format": {"type": "json_schema", "schema": CLOSED}
    }


def test_strict_is_not_asked_for_a_schema_that_would_be_refused() -> None:
    spec = StructuredOutputSpec("open", {"type": "object", "properties": {"a": {"type": "string"}}})
    assert body("openai", response_format=spec)["response_format"]["json_schema"]["strict"] is False
    anthropic = body("anthropic", response_format=spec)
    assert "output_config" not in anthropic
    assert '"properties"' in anthropic["system"]


def test_without_the_ability_the_schema_is_in_the_instructions() -> None:
    spec = StructuredOutputSpec("city", CLOSED)
    request = body("openai", response_format=spec, system_prompt="Be brief.", vendor="deepseek", model="deepseek-chat")
    assert "response_format" not in request
    assert said(request)[0]["content"].startswith("Be brief.\n\nAnswer with one JSON object")


def test_extra_fields_win_over_ours_and_the_request_s_over_the_config_s() -> None:
    request = body("openai", config_extra={"seed": 1, "top_p": 0.5}, extra={"seed": 2, "stream": None})
    assert (request["seed"], request["top_p"], request["stream"]) == (2, 0.5, None)
    merged = body(
        "anthropic", response_format=StructuredOutputSpec("x", CLOSED), extra={"output_config": {"effort": "low"}}
    )
    assert set(merged["output_config"]) == {"format", "effort"}


def test_reasoning_goes_back_to_its_own_provider_only() -> None:
    state = ProviderState("openai", "m", {"origin": "h", "reasoning_content": "secret"})
    reply = AssistantMessage((ReasoningPart("secret"), TextPart("4")), state)
    assert said(body("openai", [UserMessage("x"), reply]))[1]["reasoning_content"] == "secret"
    for provider in ("openai-responses", "anthropic"):
        assert "secret" not in json.dumps(body(provider, [UserMessage("x"), reply]))
    elsewhere = AssistantMessage(
        reply.parts, ProviderState("openai", "m", {"origin": "other", "reasoning_content": "secret"})
    )
    assert "secret" not in json.dumps(body("openai", [UserMessage("x"), elsewhere]))


KEPT_BLOCKS = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "Hello"},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
    {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
]


def kept(parts: Any) -> list[dict[str, Any]]:
    state = ProviderState("anthropic", "claude-sonnet-4-5", {"content": KEPT_BLOCKS})
    results = [ToolResultMessage(p.id, "f", "x") for p in parts if isinstance(p, ToolCall)]
    found: list[dict[str, Any]] = said(body("anthropic", [UserMessage("x"), AssistantMessage(parts, state), *results]))[
        1
    ]["content"]
    return found


def test_thinking_blocks_go_back_first_and_untouched() -> None:
    both = (TextPart("Hello"), ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}"))
    assert kept(both) == KEPT_BLOCKS
    assert kept(both[:2]) == KEPT_BLOCKS[:3], "a call that the message no longer holds has no result"
    assert kept((TextPart("Changed"), both[1]))[0] == {"type": "text", "text": "Changed"}, (
        "a changed text is not overruled"
    )


def test_responses_items_go_back_untouched_and_nothing_is_stored_there() -> None:
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Hi"}],
        },
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]
    reply = AssistantMessage(
        (TextPart("Hi"), ToolCall("c1", "f", "{}")),
        ProviderState("openai-responses", "gpt-5-mini", {"origin": "h", "items": items}),
    )
    messages = [UserMessage("x"), reply, ToolResultMessage("c1", "f", "y")]
    request = body("openai-responses", messages)
    assert (request["store"], request["include"]) == (False, ["reasoning.encrypted_content"])
    assert said(request)[1:4] == items
    del items[0]["encrypted_content"]
    assert [item.get("id") for item in said(body("openai-responses", messages))[1:3]] == [None, None], (
        "ids point at nothing without it"
    )
    assert said(body("openai-responses", messages, extra={"store": True}))[1:4] == items


def test_models_without_reasoning_are_not_asked_for_it() -> None:
    assert "include" not in body("openai-responses", model="gpt-4o")


def test_anthropic_needs_an_output_limit() -> None:
    with pytest.raises(ConfigError, match="max_output_tokens"):
        body("anthropic", limit=None)
    assert "max_completion_tokens" not in body("openai", limit=None)
