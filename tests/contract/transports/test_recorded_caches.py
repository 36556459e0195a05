"""The recorded exchanges about prompt caches and reasoning, made again through our own records.

Each request of such a recording is built anew: what was said is taken from the recording, what the model wrote from
the recorded replies, each through a record as the journal keeps it. Then the messages are compared, normalised as in
`test_recorded_follow_ups.py` and in what the recorded client chose for itself:
- a text as a string or as one part; `ttl: "5m"`, the default; which spots it marks (ours are compared by themselves).
- items that announce tools in mid-conversation (`tool_addition`, `additional_tools`), which we do not send.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.contract.transports.test_recorded_follow_ups import FAILURES, WIRES, aligned, plain_block, plain_item, read
from tests.contract.transports.traffic_oracle import FAMILIES, FOLDER, is_stream, stream_error, traffic_files

from loopwright.model.codec import decode_record, encode
from loopwright.model.messages import (
    AssistantMessage,
    Message,
    ProviderState,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    UserMessage,
    as_message,
)
from loopwright.model.records import AssistantMessageAdded
from loopwright.ports.llm import LLMRequest
from loopwright.transports import LLMProviderConfig
from loopwright.transports.kept_reasoning import with_asked_model
from loopwright.transports.wire_parts import RenderSettings, encode_body

ABOUT = re.compile(
    r'"(cache_control|prompt_cache_key|thinking|redacted_thinking|encrypted_content|reasoning(_details|_content)?'
    r"|reasoning_effort|reasoning_format)\""
)
ABSENT = pytest.mark.skipif(not traffic_files(), reason=f"recorded traffic is not here: {FOLDER}")
VENDORS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral",
    "openrouter.ai": "openrouter",
    "api.groq.com": "groq",
}
OURS = {
    "model",
    "messages",
    "input",
    "stream",
    "system",
    "instructions",
    "tools",
    "tool_choice",
    "max_tokens",
    "include",
}
FOREIGN = {"tool_addition", "additional_tools"}


def about_caches_or_reasoning(path: Path) -> bool:
    exchanges = json.loads(path.read_text())["exchanges"]
    said = [json.dumps(exchange["request"]["body"]) + exchange["response"]["body"] for exchange in exchanges]
    return "cache" in path.name or any(ABOUT.search(text) for text in said)


def requests() -> list[Any]:
    """(family, recorded exchanges up to and with the request) of every request that can be said in our messages."""
    found = []
    for path in traffic_files():
        if not about_caches_or_reasoning(path) or "drops_prefix" in path.name:
            continue
        exchanges = json.loads(path.read_text())["exchanges"]
        for number, exchange in enumerate(exchanges):
            if exchange["request"]["body"] and can_be_said(exchanges, number):
                name = f"{path.stem[-60:]}-{number}"
                found.append(pytest.param(FAMILIES[path.parent.name], exchanges[: number + 1], id=name))
    return found


def can_be_said(exchanges: list[Any], number: int) -> bool:
    """False for files that were uploaded before, and where a reply is not among the recordings."""
    body = exchanges[number]["request"]["body"]
    if '"file_id"' in json.dumps(body):
        return False
    return len(runs(body)) <= len([e for e in exchanges[:number] if is_reply(e)])


def is_reply(exchange: Any) -> bool:
    body = exchange["response"]["body"]
    return exchange["response"]["status"] == 200 and not (is_stream(body) and stream_error(body))


def items_of(body: Any) -> list[Any]:
    items = body.get("messages") or body.get("input")
    items = items if isinstance(items, list) else [{"role": "user", "content": items}]
    return [item for item in items if not FOREIGN & set(re.findall(r'"type": "(\w+)"', json.dumps(item)))]


def wrote(item: Any) -> bool:
    return item.get("role") == "assistant" or ("role" not in item and item.get("type") != "function_call_output")


def runs(body: Any) -> list[list[Any]]:
    """What the model wrote, one list for each reply."""
    found: list[list[Any]] = []
    before = False
    for item in items_of(body):
        if wrote(item):
            found[len(found) :] = [] if before else [[]]
            found[-1].append(item)
        before = wrote(item)
    return found


def through_a_record(message: AssistantMessage) -> AssistantMessage:
    """The message as a later process finds it."""
    stored = decode_record("assistant_message_added", 1, encode(AssistantMessageAdded(message, 1)))
    assert isinstance(stored, AssistantMessageAdded)
    return stored.message


def conversation(family: str, exchanges: list[Any]) -> list[Message]:
    """The messages of the last request: inputs as they were said, replies as they were received."""
    replies = []
    for exchange in exchanges[:-1]:
        if is_reply(exchange):
            response = read(family, exchange["response"]["body"])
            replies.append(with_asked_model(response, exchange["request"]["body"]["model"]).message())
    messages: list[Message] = []
    waiting = iter(replies)
    before = False
    for item in items_of(exchanges[-1]["request"]["body"]):
        if not wrote(item):
            messages.extend(said(item))
        elif not before:
            messages.append(through_a_record(next(waiting)))
        before = wrote(item)
    return messages


def said(item: Any) -> list[Message]:
    if item.get("type") == "function_call_output":
        output = item["output"]
        return [as_message({"role": "tool", "tool_call_id": item["call_id"].rpartition(":")[2], "content": output})]
    blocks = item["content"] if isinstance(item["content"], list) else []
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if not results:
        return [as_message({**item, "content": item["content"]})]
    made: list[Message] = []
    for block in blocks:
        if block["type"] == "tool_result":
            content = block.get("content", "")
            text = content if isinstance(content, str) else "".join([part["text"] for part in content])
            made.append(ToolResultMessage(block["tool_use_id"], "", text, ok=not block.get("is_error", False)))
        else:
            made.append(UserMessage((TextPart(block["text"]),)))
    return made


def rebuilt(family: str, recorded: Any, messages: list[Message], **fields: Any) -> dict[str, Any]:
    body = recorded["body"]
    host = recorded["uri"].split("/")[2]
    vendor = VENDORS.get(host, family)
    config = LLMProviderConfig(provider=vendor, model=body["model"], base_url=f"https://{host}", api_key="k")
    settings = RenderSettings(
        model=body["model"],
        vendor=vendor,
        host="h" if family != "anthropic" and vendor != "openrouter" else host,
        capabilities=config.capabilities_of(body["model"]),
        max_output_tokens=100,
    )
    fields.setdefault("extra", {name: value for name, value in body.items() if name not in OURS})
    system = body.get("system") or body.get("instructions")
    request = LLMRequest(messages=messages, system_prompt=system, **fields)
    decoded: dict[str, Any] = json.loads(encode_body(WIRES[family].render(request, settings, stream=False).body))
    return decoded


def plain(family: str, item: Any) -> Any:
    """An item without what the module's docstring lists."""
    if family == "openai-responses" and wrote(item):
        return plain_item(item)
    kept = {
        name: value for name, value in item.items() if value not in (None, [], "") and name not in ("prefix", "type")
    }
    if "call_id" in kept:
        kept["call_id"] = kept["call_id"].rpartition(":")[2]
    for name in ("content", "output"):
        value = kept.get(name)
        if isinstance(value, str):
            kept[name] = [{"type": "text", "text": value}]
        elif isinstance(value, list):
            kept[name] = [part(block) for block in value]
    kept["tool_calls"] = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in item.get("tool_calls") or ()
    ]
    return kept


def part(block: Any) -> Any:
    kind = {"input_text": "text"}.get(block.get("type"), block.get("type"))
    shown = {**plain_block(block), "type": kind}
    shown.pop("cache_control", None)
    if kind == "tool_result":
        content = shown.get("content", "")
        shown["content"] = content if isinstance(content, str) else "".join([inner["text"] for inner in content])
        shown["is_error"] = shown.get("is_error", False)
    return shown


@ABSENT
@pytest.mark.parametrize("family, exchanges", requests())
def test_a_request_about_caches_or_reasoning_is_made_again_shape_for_shape(family: str, exchanges: list[Any]) -> None:
    recorded = exchanges[-1]["request"]
    body = rebuilt(family, recorded, conversation(family, exchanges))
    ours, theirs = items_of(body), items_of(recorded["body"])
    if family == "openai-responses":
        theirs = [aligned(ours, [item])[0] if wrote(item) else item for item in theirs]
    nothing = ("message", "", None)
    shapes = [[shape for item in items if (shape := plain(family, item)) != nothing] for items in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert body.get("system") == recorded["body"].get("system")
    if "cache_control" in recorded["body"]:
        assert body["cache_control"] == recorded["body"]["cache_control"]


@ABSENT
def test_the_recording_holds_such_requests_of_every_protocol_and_follow_ups_among_them() -> None:
    cases = [case.values for case in requests()]
    assert {family for family, _ in cases} == set(WIRES)
    follow_ups = {family for family, exchanges in cases if runs(exchanges[-1]["request"]["body"])}
    assert follow_ups == set(WIRES)


def recorded_exchanges(name: str) -> list[Any]:
    [path] = [path for path in traffic_files() if name in path.name]
    exchanges: list[Any] = json.loads(path.read_text())["exchanges"]
    return exchanges


@ABSENT
def test_thinking_goes_back_as_recorded_and_that_of_another_model_is_left_out_as_recorded() -> None:
    first, second, third = recorded_exchanges("drops_prefix")
    reply = with_asked_model(
        WIRES["anthropic"].read(first["response"]["body"].encode(), {}, FAILURES), first["request"]["body"]["model"]
    ).message()
    asked = [as_message(first["request"]["body"]["messages"][0]), as_message(second["request"]["body"]["messages"][2])]
    kept = rebuilt("anthropic", second["request"], [asked[0], through_a_record(reply), asked[1]])
    assert kept["messages"] == second["request"]["body"]["messages"]
    assert kept["thinking"] == second["request"]["body"]["thinking"]
    assert reply.provider_state is not None
    state = ProviderState("anthropic", "claude-opus-4-1", {"content": reply.provider_state.data["content"]})
    foreign = AssistantMessage(reply.parts, state)
    dropped = rebuilt("anthropic", third["request"], [asked[0], foreign, asked[1]])
    assert dropped["messages"] == third["request"]["body"]["messages"]


@ABSENT
def test_without_words_of_the_host_the_automatic_mark_is_the_recorded_one() -> None:
    exchanges = recorded_exchanges("anthropic_cache_real_api")
    body = rebuilt("anthropic", exchanges[-1]["request"], conversation("anthropic", exchanges), extra={})
    assert {"ttl": "5m", **body["cache_control"]} == exchanges[-1]["request"]["body"]["cache_control"]
    assert [read("anthropic", e["response"]["body"]).usage.cached_tokens for e in exchanges] == [1111, 1111]
    assert [read("anthropic", e["response"]["body"]).usage.cache_write_tokens for e in exchanges] == [0, 418]


@ABSENT
def test_a_key_is_sent_where_the_recorded_one_was() -> None:
    exchanges = recorded_exchanges("mistral_history_uses_prompt_cache")
    body = exchanges[-1]["request"]["body"]
    settings = RenderSettings(
        model=body["model"],
        vendor="mistral",
        host="api.mistral.ai",
        capabilities=LLMProviderConfig(provider="mistral", model="m", api_key="k").capabilities,
    )
    request = LLMRequest(messages=conversation("openai", exchanges), cache_key=body["prompt_cache_key"])
    ours = WIRES["openai"].render(request, settings, stream=False).body
    assert type(ours["prompt_cache_key"]) is type(body["prompt_cache_key"])
    assert read("openai", exchanges[-1]["response"]["body"]).usage.cached_tokens == 224


def longer(value: Any) -> Any:
    """A recording with texts that are long enough to be worth a mark, which the recorded ones are not."""
    if isinstance(value, dict):
        return {k: v * 20 if k in ("text", "content") and isinstance(v, str) else longer(v) for k, v in value.items()}
    return [longer(item) for item in value] if isinstance(value, list) else value


def as_parts(messages: list[Any]) -> list[Any]:
    """Texts as parts, and the default age left out of marks, as we write both."""
    text = json.dumps(messages).replace('"ttl": "5m", ', "").replace('"ttl": "1h", ', "")
    return [
        {**m, "content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]}
        for m in json.loads(text)
    ]


@ABSENT
def test_marks_for_claude_behind_openrouter_stand_where_the_recorded_ones_do() -> None:
    [exchange] = recorded_exchanges("openrouter_cache_instructions_static_dynamic")
    fixed, changing, question = longer(exchange["request"]["body"]["messages"])
    messages: list[Message] = [SystemMessage(changing["content"]), UserMessage(question["content"])]
    recorded = {**exchange["request"], "body": {**exchange["request"]["body"], "system": fixed["content"][0]["text"]}}
    ours = rebuilt("openai", recorded, messages, stable=0, extra={})["messages"]
    assert ours == as_parts([fixed, changing, question])

    [exchange] = recorded_exchanges("openrouter_cache_messages_preserves_cachepoint")
    theirs = longer(exchange["request"]["body"]["messages"])
    ours = rebuilt("openai", exchange["request"], [as_message(theirs[0])], extra={})["messages"]
    assert ours == as_parts(theirs)
