"""A recorded reply, rendered into the next request, has the shape of the recorded next request.

Normalised away, since providers document both forms as accepted (left: recorded, right: ours):
- chat: `content` of a turn of calls null, absent, "" or []; a text as a string or as one text part; `tool_calls` []
  or absent; Mistral's `prefix: false` and `index` of a call, which are defaults.
- anthropic: `citations` null or empty; `caller`, which the recording client left out and the provider sent.
- responses: `id` and `status` (optional on input; DeepSeek's recording leaves ids out); `content: []`,
  `encrypted_content: null`, `annotations`, `logprobs`; a message as `{"role", "content": text}`; empty messages;
  call ids that the recording client made unique with a `resp_…:` prefix of its own, or in one old recording replaced
  by the item's id; `phase` where the recording uses the short form of a message, which has no place for it;
  typographic quotes, which the recorder replaced in requests; results of the provider's own MCP calls, which the
  recording client left out.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.contract.transports.traffic_oracle import FAMILIES, FOLDER, is_stream, stream_error, traffic_files

from loopwright.model.messages import ToolResultMessage, UserMessage
from loopwright.ports.llm import LLMRequest, LLMResponse
from loopwright.transports import LLMProviderConfig
from loopwright.transports.anthropic import MessagesWire
from loopwright.transports.kept_reasoning import with_asked_model
from loopwright.transports.openai_chat import ChatWire
from loopwright.transports.openai_responses import ResponsesWire
from loopwright.transports.provider_failures import FailureReader
from loopwright.transports.sse import EventReader
from loopwright.transports.wire_parts import RenderSettings, encode_body

WIRES: dict[str, Any] = {
    "openai": ChatWire("h"),
    "openai-responses": ResponsesWire("h"),
    "anthropic": MessagesWire("h"),
}
FAILURES = FailureReader("test", "KEY", ())
SAID = ("user", "tool", "system", "developer")


def read(family: str, body: str) -> LLMResponse:
    wire = WIRES[family]
    if not is_stream(body):
        response: LLMResponse = wire.read(body.encode(), {}, FAILURES)
        return response
    events, reader = EventReader(), wire.reader({}, FAILURES)
    for data in [*events.feed(body.encode()), *events.finish()]:
        reader.read(data)
    streamed: LLMResponse = reader.response()
    return streamed


def continuations() -> list[Any]:
    """(family, reply body, models of both requests, recorded follow-up items) of every pair of exchanges that belong together."""
    found = []
    for path in traffic_files():
        family = FAMILIES[path.parent.name]
        exchanges = json.loads(path.read_text())["exchanges"]
        for number, (first, second) in enumerate(pairwise(exchanges)):
            body = first["response"]["body"]
            if first["response"]["status"] != 200 or (is_stream(body) and stream_error(body)):
                continue
            asked = second["request"]["body"]
            old, new = turns(first["request"]["body"]), turns(asked)
            # The first turn that the older request does not have is the reply, if there is one at all.
            if len(new) > len(old) and not drops_thinking_on_purpose(path, number):
                models = (first["request"]["body"]["model"], asked["model"])
                found.append(pytest.param(family, body, models, new[len(old)], id=f"{path.stem[-60:]}-{number}"))
    return found


def drops_thinking_on_purpose(path: Path, number: int) -> bool:
    """In this recording the second follow-up repeats the first one without its thinking, to see what the cache does."""
    return "drops_prefix" in path.name and number == 1


def turns(body: Any) -> list[list[Any]]:
    """Runs of items that the model wrote, in the order of a request."""
    items = body.get("messages") or body.get("input")
    runs: list[list[Any]] = [[]]
    for item in items if isinstance(items, list) else []:
        if item.get("role") in SAID or item.get("type") == "function_call_output":
            runs.append([])
        else:
            runs[-1].append(item)
    return [run for run in runs if run]


def rendered(family: str, response: LLMResponse, models: tuple[str, str]) -> list[Any]:
    response, model = with_asked_model(response, models[0]), models[1]
    results = [ToolResultMessage(c.id, c.name, "done") for c in response.tool_calls]
    request = LLMRequest(messages=[UserMessage("hi"), response.message(), *results, UserMessage("go on")])
    capabilities = LLMProviderConfig(provider=family, model=model, api_key="k").capabilities_of(model)
    settings = RenderSettings(model=model, vendor=family, host="h", capabilities=capabilities, max_output_tokens=100)
    body = json.loads(encode_body(WIRES[family].render(request, settings, stream=True).body))
    return turns(body)[0]


def plain(family: str, items: list[Any]) -> list[Any]:
    """The items without what the module's docstring lists."""
    shape = {"openai": plain_chat, "anthropic": plain_block, "openai-responses": plain_item}[family]
    if family == "anthropic":
        items = [block for item in items for block in item["content"]]
    return [shape(item) for item in items if plain_item(item) != ("message", "", None)]


def aligned(ours: list[Any], recorded: list[Any]) -> list[Any]:
    """The recorded items with what only this recording client does differently put right."""
    ids = {item.get("id"): item.get("call_id") for item in ours if item.get("type") == "function_call"}
    phases = [item.get("phase") for item in ours if item.get("type") == "message"]
    fixed = []
    for item in recorded:
        if item.get("call_id") in ids:
            item = {**item, "call_id": ids[item["call_id"]]}
        if "type" not in item and "role" in item and phases:
            item = {**item, "phase": phases[-1]}
        fixed.append(item)
    return fixed


def plain_chat(message: Any) -> Any:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join([part["text"] for part in content])
    calls = [
        (c["id"], c["type"], c["function"]["name"], json.loads(c["function"]["arguments"]))
        for c in message.get("tool_calls") or ()
    ]
    rest = {k: v for k, v in message.items() if k not in ("role", "content", "tool_calls", "prefix")}
    return text, calls, rest


def plain_block(block: Any) -> Any:
    return {k: v for k, v in block.items() if k != "caller" and not (k == "citations" and not v)}


def plain_item(item: Any) -> Any:
    kind = item.get("type") or ("message" if item.get("role") == "assistant" else None)
    if kind == "message":
        content = item.get("content") or ""
        text = content if isinstance(content, str) else "".join([part["text"] for part in content])
        return "message", text.translate({0x2019: "'", 0x201C: '"', 0x201D: '"'}), item.get("phase")
    dropped = ("id", "status", "output", "tools", "error", "approval_request_id")
    kept = {k: v for k, v in item.items() if k not in dropped and v not in (None, [])}
    if "call_id" in kept:
        kept["call_id"] = kept["call_id"].rpartition(":")[2]
    return kept


@pytest.mark.skipif(not traffic_files(), reason=f"recorded traffic is not here: {FOLDER}")
@pytest.mark.parametrize("family, body, models, recorded", continuations())
def test_a_reply_goes_back_in_the_shape_that_the_provider_accepted(
    family: str, body: str, models: tuple[str, str], recorded: list[Any]
) -> None:
    ours = rendered(family, read(family, body), models)
    if family == "openai-responses":
        recorded = aligned(ours, recorded)
    assert plain(family, ours) == plain(family, recorded)


@pytest.mark.skipif(not traffic_files(), reason=f"recorded traffic is not here: {FOLDER}")
def test_the_recording_holds_follow_ups_of_every_protocol() -> None:
    assert {case.values[0] for case in continuations()} == set(WIRES)
