"""Messages of any shape between a valid handshake and a valid answer; answers over HTTP that are none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples
from tests.scenario.mcp.servers import connected

from loopwright.connectors import McpAnswerError, McpServerSpec, McpToolOptions, McpUnavailableError
from loopwright.connectors.mcp_http import HttpRoute
from loopwright.connectors.mcp_sdk import SessionMessage, anyio, httpx2, types
from loopwright.connectors.mcp_stdio import StdioRoute
from loopwright.connectors.mcp_streams import Streams
from loopwright.connectors.mcp_tools import offered_tools
from loopwright.model.call_errors import ToolFailure
from loopwright.ports.tool import ToolHandlerResult
from loopwright.testing.tool_context import FakeToolContext

SPEC = McpServerSpec(name="s", command="x", call_timeout_s=1.0, list_timeout_s=1.0)
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
GOOD = {"name": "good", "inputSchema": {"type": "object"}}


class InMemory:
    """A route to a server that is a function: it sends `noise` before each answer."""

    is_refused = is_forgotten = False
    why_it_ended = None
    last_words = ""

    def __init__(self, tools: Any, result: Any, noise: list[Any]) -> None:
        self._answers = {"initialize": ABOUT, "tools/list": {"tools": tools}, "tools/call": result}
        self._noise = noise

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Streams]:
        to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        serving = asyncio.ensure_future(self._serve(from_us, to_us))
        try:
            yield Streams(read, write)
        finally:
            serving.cancel()
            for stream in (to_us, read, write, from_us):
                stream.close()

    async def _serve(self, from_us: Any, to_us: Any) -> None:
        parse = StdioRoute(SPEC)._message
        async for message in from_us:
            request = message.message
            if not isinstance(request, types.JSONRPCRequest):
                continue
            answer = {"jsonrpc": "2.0", "id": request.id, "result": self._answers.get(request.method, {})}
            for line in (*self._noise, answer):
                one = parse(line if isinstance(line, bytes) else json.dumps(line).encode())
                if one is not None and (line is answer or getattr(one, "id", None) != request.id):
                    await to_us.send(SessionMessage(one))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
METHODS = st.sampled_from(
    [
        "notifications/progress",
        "notifications/cancelled",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/subscriptions/acknowledged",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
        "ping",
        "x/y",
    ]
)
MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": st.integers(50) | JSON, "method": METHODS | JSON, "params": JSON, "result": JSON, "error": JSON},
)
TOOL = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5) | JSON,
        "description": JSON,
        "inputSchema": st.fixed_dictionaries({"type": st.just("object")}, optional={"properties": JSON, "$ref": JSON})
        | JSON,
        "outputSchema": JSON,
        "annotations": JSON,
    },
)


@pytest.mark.fuzz
@settings(max_examples=examples(30))
@given(
    noise=st.lists(MESSAGE | JSON | st.binary(max_size=30), max_size=4),
    tools=st.lists(TOOL | JSON, max_size=3).map(lambda some: [*some, GOOD]),
    result=st.fixed_dictionaries({}, optional={"content": JSON, "isError": JSON, "structuredContent": JSON}) | JSON,
)
def test_whatever_comes_between_a_call_ends_and_the_good_tool_is_there(noise: Any, tools: Any, result: Any) -> None:
    async def work() -> None:
        async with connected(SPEC, route=lambda: InMemory(tools, result, noise)) as connection:
            names = {str(tool.get("name")): None for tool in tools if isinstance(tool, dict)}
            offered = await offered_tools(connection, McpToolOptions(only=("good",)))
            assert [one.name for one in offered.definitions] == ["good"]
            assert set(offered.left_out) <= {name[:500] for name in names} | {f"#{place + 1}" for place in range(4)}
            handler = offered.definitions[0].handler
            assert handler is not None
            try:
                made = await handler({}, FakeToolContext())
            except ToolFailure:
                return
            assert isinstance(made, ToolHandlerResult)

    asyncio.run(work())


def answering(*answers: httpx2.Response) -> httpx2.MockTransport:
    left = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)
        sent = json.loads(request.content)
        if sent["method"] == "initialize" and len(left) != 1:
            body = {"jsonrpc": "2.0", "id": sent["id"], "result": ABOUT}
            return httpx2.Response(200, json=body, headers={"mcp-session-id": "s1"})
        if "id" not in sent:
            return httpx2.Response(202)
        return left.pop(0) if len(left) > 1 else left[0]

    return httpx2.MockTransport(answer)


WEB = McpServerSpec(name="web", url="http://example.org/mcp", headers={"Authorization": "Bearer s3cret"})


async def test_a_server_that_wants_credentials_says_which_setting_is_missing() -> None:
    async with connected(WEB, route=lambda: HttpRoute(WEB, transport=answering(httpx2.Response(401)))) as connection:
        with pytest.raises(McpUnavailableError, match="answered 401: it wants credentials; set the header") as raised:
            await connection.connect()
        assert "s3cret" not in str(raised.value)
        assert connection.state.status == "failed"


async def test_an_answer_that_is_too_long_is_cut_off() -> None:
    long = httpx2.Response(200, headers={"content-type": "application/json"}, stream=Endless())
    answers = answering(long, long)
    route = HttpRoute(WEB, transport=answers, max_message_bytes=100_000)
    async with connected(WEB, route=lambda: route) as connection:
        with pytest.raises(Exception, match="an answer of more than 100000 bytes"):
            await connection.call_tool("x", {})


async def test_an_answer_that_is_a_web_page_is_no_answer() -> None:
    page = httpx2.Response(200, html="<html>")
    async with connected(WEB, route=lambda: HttpRoute(WEB, transport=answering(page, page))) as connection:
        with pytest.raises(McpAnswerError, match="Unexpected content type: text/html"):
            await connection.call_tool("x", {})


class Endless(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536
