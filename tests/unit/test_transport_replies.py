"""Replies as the providers' documents show them, and the odd ones that vendors send, are read as one shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.model.errors import LLMContextOverflowError, LLMError, LLMRequestError, LLMTransientError
from loopwright.model.usage import Usage
from loopwright.ports.llm import LLMResponse, LLMStreamChunk
from loopwright.transports.anthropic import MessagesWire
from loopwright.transports.openai_chat import ChatWire
from loopwright.transports.openai_responses import ResponsesWire
from loopwright.transports.provider_failures import FailureReader

FAILURES = FailureReader("test", "KEY", ())
CHAT, RESPONSES, MESSAGES = ChatWire("h"), ResponsesWire("h"), MessagesWire("h")


def whole(wire: Any, document: Any, names: dict[str, str] | None = None) -> LLMResponse:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    response: LLMResponse = wire.read(raw, names or {}, FAILURES)
    return response


def streamed(wire: Any, *events: Any) -> tuple[list[LLMStreamChunk], LLMResponse]:
    reader = wire.reader({}, FAILURES)
    chunks: list[LLMStreamChunk] = []
    for event in events:
        chunks += reader.read(event if isinstance(event, bytes) else json.dumps(event).encode())
    assert reader.complete
    return chunks, reader.response()


def chat(message: dict[str, Any], finish: str | None = "stop", **rest: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **rest}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str, arguments: Any = "{}", call_id: str | None = "c", **rest: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **rest}


# --- Chat Completions ---------------------------------------------------------------------------------------------------


def test_usage_counts_cached_and_reasoning_tokens_apart() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    assert whole(CHAT, chat({"content": "x"}, usage=usage)).usage == Usage(100, 30, 64, 8, 20, calls=1)


@pytest.mark.parametrize("usage", [None, {}, "n/a", {"prompt_tokens": None}])
def test_missing_usage_is_all_zero_and_not_estimated_here(usage: Any) -> None:
    assert whole(CHAT, chat({"content": "x"}, usage=usage)).usage == Usage(calls=1)


def test_groq_usage_and_usage_only_chunks_are_found() -> None:
    used = {"prompt_tokens": 7, "completion_tokens": 2}
    _, groq = streamed(CHAT, delta(content="a"), {**delta("stop"), "x_groq": {"usage": used}}, b"[DONE]")
    _, last = streamed(CHAT, delta(content="a"), delta("stop"), {"choices": [], "usage": used}, b"[DONE]")
    assert groq.usage == last.usage == Usage(7, 2, calls=1)


@pytest.mark.parametrize(
    "given, expected",
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("brand_new", "unknown"),
        (None, "unknown"),
    ],
)
def test_finish_reasons_have_one_vocabulary(given: str | None, expected: str) -> None:
    assert whole(CHAT, chat({"content": "x"}, given)).finish_reason == expected


def test_a_stop_with_calls_means_tool_calls_and_a_cut_stays_a_cut() -> None:
    assert whole(CHAT, chat({"tool_calls": [call("f")]}, "stop")).finish_reason == "tool_calls"
    assert whole(CHAT, chat({"tool_calls": [call("f", '{"a')]}, "length")).finish_reason == "length"


def test_a_refusal_is_text_that_was_filtered() -> None:
    response = whole(CHAT, chat({"content": None, "refusal": "I can't."}))
    assert (response.text, response.finish_reason) == ("I can't.", "content_filter")


def test_call_pieces_are_joined_by_index() -> None:
    _, response = streamed(
        CHAT,
        delta(tool_calls=[call("f", "", "a", index=0), call("g", "", "b", index=1)]),
        delta(tool_calls=[{"index": 1, "function": {"arguments": '{"y":'}}]),
        delta(
            tool_calls=[{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"arguments": "2}"}}]
        ),
        delta("tool_calls"),
    )
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [("a", "f", "{}"), ("b", "g", '{"y":2}')]


def test_call_pieces_without_index_are_joined_by_id_and_else_by_position() -> None:
    _, by_id = streamed(
        CHAT,
        delta(tool_calls=[call("f", "{", "a")]),
        delta(tool_calls=[call("g", "{", "b")]),
        delta(tool_calls=[{"id": "a", "function": {"arguments": "}"}}]),
        delta(tool_calls=[{"id": "b", "function": {"arguments": "}"}}]),
        delta("tool_calls"),
    )
    _, by_place = streamed(
        CHAT,
        delta(tool_calls=[call("f", "{", None), call("g", "{", None)]),
        delta(tool_calls=[{"function": {"arguments": "}"}}, {"function": {"arguments": "}"}}]),
        delta("tool_calls"),
    )
    assert [(c.name, c.arguments) for c in by_id.tool_calls] == [("f", "{}"), ("g", "{}")]
    assert [(c.name, c.arguments) for c in by_place.tool_calls] == [("f", "{}"), ("g", "{}")]


def test_calls_that_all_carry_index_0_stay_apart() -> None:
    document = chat({"tool_calls": [call("f", call_id="a", index=0), call("g", call_id="b", index=0)]})
    _, response = streamed(
        CHAT, *[delta(tool_calls=[c]) for c in document["choices"][0]["message"]["tool_calls"]], delta("stop")
    )
    assert [c.name for c in response.tool_calls] == [c.name for c in whole(CHAT, document).tool_calls] == ["f", "g"]


def test_a_name_repeated_in_every_piece_is_taken_once() -> None:
    pieces = [delta(tool_calls=[call("f", text, "a", index=0)]) for text in ("{", '"a"', ":1}")]
    _, response = streamed(CHAT, *pieces, delta("tool_calls"))
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [("a", "f", '{"a":1}')]


def test_missing_ids_are_numbered_and_repeated_ids_made_different() -> None:
    made = whole(CHAT, chat({"tool_calls": [call("f", call_id=None), call("g", call_id="x"), call("h", call_id="x")]}))
    assert [c.id for c in made.tool_calls] == ["call_0", "x", "x_2"]


def test_the_legacy_function_call_is_a_call() -> None:
    _, response = streamed(
        CHAT,
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": "{}"}),
        delta("function_call"),
    )
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [("call_0", "f", "{}")]
    assert response.finish_reason == "tool_calls"


def test_arguments_sent_as_an_object_become_text() -> None:
    assert whole(CHAT, chat({"tool_calls": [call("f", {"a": 1})]})).tool_calls[0].parsed() == {"a": 1}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_shown_and_kept_for_the_provider(field: str) -> None:
    message = {"content": "4", field: "thinking"}
    _, response = streamed(CHAT, delta(**{field: "thin"}), delta(**{field: "king"}), delta(content="4"), delta("stop"))
    assert response.reasoning == "thinking"
    assert response.provider_state == whole(CHAT, chat(message)).provider_state
    assert response.provider_state is not None
    assert response.provider_state.data[field] == "thinking"


def test_typed_content_of_mistral_is_told_into_reasoning_and_text() -> None:
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"}]
    response = whole(CHAT, chat({"content": content}))
    assert (response.reasoning, response.text) == ("hm", "4")


def test_other_choices_and_chunks_without_choices_are_ignored() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None}]}
    _, response = streamed(CHAT, {"choices": []}, {"choices": None}, delta(content="yes"), second, delta("stop"))
    assert response.text == "yes"


def test_broken_utf_8_and_lone_surrogates_do_not_stop_a_stream() -> None:
    bad = b'{"choices":[{"delta":{"content":"a\xff\\ud83d"}}]}'
    _, response = streamed(CHAT, bad, delta("stop"))
    assert response.text == "a\ufffd\ufffd"


def test_an_error_inside_of_a_stream_is_typed_by_what_it_says() -> None:
    cases: list[tuple[dict[str, Any], type[LLMError]]] = [
        ({"message": "overloaded", "code": 502}, LLMTransientError),
        ({"message": "slow down", "type": "rate_limit_error"}, LLMTransientError),
        ({"message": "no idea"}, LLMTransientError),
        ({"message": "bad field", "type": "invalid_request_error"}, LLMRequestError),
        ({"message": "too long", "code": "context_length_exceeded"}, LLMContextOverflowError),
    ]
    for error, kind in cases:
        with pytest.raises(LLMError) as caught:
            streamed(CHAT, delta(content="a"), {"error": error})
        assert type(caught.value) is kind, error


# --- Responses ----------------------------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}],
        "encrypted_content": "xx",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Hi"}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'},
]


def answered(items: list[dict[str, Any]], status: str = "completed", **rest: Any) -> dict[str, Any]:
    return {"id": "r1", "object": "response", "model": "m", "status": status, "output": items, "usage": None, **rest}


def test_output_items_are_kept_in_order_and_untouched() -> None:
    response = whole(RESPONSES, answered(ITEMS))
    assert (response.text, response.reasoning) == ("Hi", "A\n\nB")
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [("call_1", "f", '{"a": 1}')]
    assert response.provider_state is not None
    assert response.provider_state.data["items"] == ITEMS


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("repeated", [True, False])
def test_a_stream_is_whole_with_or_without_deltas_and_final_output(deltas: bool, repeated: bool) -> None:
    events: list[Any] = [{"type": "response.created", "response": answered([], "in_progress")}]
    pieces = {
        0: [
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "A"},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "B"},
        ],
        1: [{"type": "response.output_text.delta", "output_index": 1, "delta": text} for text in "Hi"],
        2: [
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": text}
            for text in ('{"a"', ": 1}")
        ],
    }
    for index, item in enumerate(ITEMS):
        if deltas:
            events.append(
                {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}}
            )
            events += pieces[index]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": answered(ITEMS if repeated else [])})
    chunks, response = streamed(RESPONSES, *events)
    assert response == whole(RESPONSES, answered(ITEMS))
    assert "".join([c.text for c in chunks]) == "Hi"
    assert "".join([c.reasoning for c in chunks]) == "A\n\nB"
    assert "".join([c.tool_call.arguments for c in chunks if c.tool_call]) == '{"a": 1}'


@pytest.mark.parametrize(
    "reason, expected", [("max_output_tokens", "length"), ("content_filter", "content_filter"), (None, "length")]
)
def test_an_incomplete_reply_says_why(reason: str | None, expected: str) -> None:
    document = answered(ITEMS[1:2], "incomplete", incomplete_details={"reason": reason})
    assert whole(RESPONSES, document).finish_reason == expected
    assert streamed(RESPONSES, {"type": "response.incomplete", "response": document})[1].finish_reason == expected


def test_a_failed_reply_is_an_error_whole_or_streamed() -> None:
    document = answered([], "failed", error={"code": "server_error", "message": "oops"})
    with pytest.raises(LLMTransientError, match="oops"):
        whole(RESPONSES, document)
    with pytest.raises(LLMTransientError, match="oops"):
        streamed(RESPONSES, {"type": "response.failed", "response": document})
    with pytest.raises(LLMRequestError, match="no credit"):
        streamed(RESPONSES, {"type": "error", "code": "insufficient_quota", "message": "quota"})


# --- Anthropic Messages -------------------------------------------------------------------------------------------------

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "sig"},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "text", "text": "Hello"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
]
USED = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 8}


def message(blocks: list[dict[str, Any]], stop: str | None = "tool_use") -> dict[str, Any]:
    return {"id": "m1", "type": "message", "model": "claude", "content": blocks, "stop_reason": stop, "usage": USED}


def started(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


STREAM: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**message([], None), "usage": {**USED, "output_tokens": 1}}},
    {"type": "ping"},
    started(0, {"type": "thinking", "thinking": "", "signature": ""}),
    piece(0, "thinking_delta", thinking="h"),
    piece(0, "thinking_delta", thinking="m"),
    piece(0, "signature_delta", signature="sig"),
    {"type": "content_block_stop", "index": 0},
    started(1, {"type": "redacted_thinking", "data": "opaque"}),
    {"type": "content_block_stop", "index": 1},
    started(2, {"type": "text", "text": ""}),
    piece(2, "text_delta", text="Hel"),
    piece(2, "text_delta", text="lo"),
    {"type": "content_block_stop", "index": 2},
    started(3, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
    piece(3, "input_json_delta", partial_json=""),
    piece(3, "input_json_delta", partial_json='{"a"'),
    piece(3, "input_json_delta", partial_json=": 1}"),
    {"type": "content_block_stop", "index": 3},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 8}},
    {"type": "message_stop"},
]


def test_content_blocks_are_kept_in_order_and_untouched() -> None:
    response = whole(MESSAGES, message(BLOCKS))
    assert (response.text, response.reasoning, response.finish_reason) == ("Hello", "hm", "tool_calls")
    assert response.usage == Usage(18, 8, 5, 3, calls=1)
    assert response.provider_state is not None
    assert response.provider_state.data["content"] == BLOCKS


def test_a_messages_stream_equals_the_whole_message() -> None:
    chunks, response = streamed(MESSAGES, *STREAM)
    assert response == whole(MESSAGES, message(BLOCKS))
    assert "".join([c.text for c in chunks]) == "Hello"
    assert "".join([c.tool_call.arguments for c in chunks if c.tool_call]) == '{"a": 1}'


def test_a_call_without_arguments_is_an_empty_object() -> None:
    events = [STREAM[0], started(0, {"type": "tool_use", "id": "t", "name": "f", "input": {}}), *STREAM[-2:]]
    events.insert(2, {"type": "content_block_stop", "index": 0})
    chunks, response = streamed(MESSAGES, *events)
    assert response.tool_calls[0].arguments == "{}" == "".join([c.tool_call.arguments for c in chunks if c.tool_call])


def test_cut_off_arguments_stay_as_they_are() -> None:
    cut = [*STREAM[:16], {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"}]
    _, response = streamed(MESSAGES, *cut)
    assert response.finish_reason == "length"
    assert response.tool_calls[0].arguments == '{"a"'


def test_plain_text_is_not_stored_twice() -> None:
    assert whole(MESSAGES, message([{"type": "text", "text": "Hello"}], "end_turn")).provider_state is None


@pytest.mark.parametrize(
    "stop, expected",
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("model_context_window_exceeded", "length"),
        (None, "unknown"),
    ],
)
def test_stop_reasons_have_the_same_vocabulary(stop: str | None, expected: str) -> None:
    assert whole(MESSAGES, message([{"type": "text", "text": "x"}], stop)).finish_reason == expected


def test_an_overloaded_event_is_a_passing_fault() -> None:
    with pytest.raises(LLMTransientError, match="Overloaded") as caught:
        streamed(MESSAGES, STREAM[0], {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert caught.value.status == 529


# --- all ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
@pytest.mark.parametrize(
    "body", [b"", b"<html>busy</html>", b'{"choices": [{', b"[]", b'{"ok": true}', b"null", b'"x"']
)
def test_a_body_that_is_no_reply_is_never_taken_for_one(wire: Any, body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.read(body, {}, FAILURES)


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
def test_tool_names_come_back_as_the_host_knows_them(wire: Any) -> None:
    documents: dict[Any, Any] = {
        CHAT: chat({"tool_calls": [call("fs_read")]}),
        RESPONSES: answered([{**ITEMS[2], "name": "fs_read"}]),
        MESSAGES: message([{**BLOCKS[3], "name": "fs_read"}]),
    }
    assert whole(wire, documents[wire], {"fs_read": "fs.read"}).tool_calls[0].name == "fs.read"


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
@pytest.mark.parametrize("depth", [201, 990, 100_000])
def test_what_is_nested_without_end_is_no_reply(wire: Any, depth: int) -> None:
    body = b'{"error": ' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(ValueError, match="levels deep"):
        wire.read(body, {}, FAILURES)
    with pytest.raises(ValueError, match="levels deep"):
        wire.reader({}, FAILURES).read(body)


def test_brackets_inside_of_strings_are_no_nesting() -> None:
    assert whole(CHAT, chat({"content": '"[{\\' * 5000})).text == '"[{\\' * 5000


def test_tool_input_nested_without_end_stays_the_text_it_is() -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    events = [*STREAM[:14], piece(3, "input_json_delta", partial_json=deep), *STREAM[-3:]]
    _, response = streamed(MESSAGES, *events)
    assert response.tool_calls[0].arguments == deep
    assert response.provider_state is not None
    assert response.provider_state.data["content"][3]["input"] == {"_raw": deep}


@pytest.mark.parametrize("given", [{"input": {}}, {}])
def test_arguments_of_which_nothing_was_written_before_the_limit_stay_empty(given: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", **given}
    end = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
    for stop in ([], [{"type": "content_block_stop", "index": 0}]):
        _, response = streamed(MESSAGES, STREAM[0], started(0, block), *stop, end, STREAM[-1])
        assert response.tool_calls[0].arguments == ""
    assert whole(MESSAGES, message([block], "max_tokens")).tool_calls[0].arguments == ""
    assert whole(CHAT, chat({"tool_calls": [call("f", {})]}, "length")).tool_calls[0].arguments == ""


@pytest.mark.parametrize("number", [-5, 2**53 + 1, 10**30, 1e300, "7"])
def test_a_figure_that_no_count_can_be_is_missing(number: Any) -> None:
    usage = {"prompt_tokens": number, "completion_tokens": 3}
    assert whole(CHAT, chat({"content": "x"}, usage=usage)).usage == Usage(output_tokens=3, calls=1)
