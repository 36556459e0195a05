"""Faults of the network and of providers, played by a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from loopwright.model.errors import ConfigError, LLMError, LLMRequestError, LLMTransientError
from loopwright.ports.llm import LLMRequest, LLMResponse
from loopwright.testing.model_server import Model, ModelServer, RawReply, Reply, refusal, reply
from loopwright.testing.provider_bodies import CHAT, MESSAGES, RESPONSES, event_bodies, whole_body
from loopwright.transports import LLMProviderConfig, create_llm_service_from_config

PROVIDERS = {"openai": CHAT, "openai-responses": RESPONSES, "anthropic": MESSAGES}
ASK = LLMRequest(messages=[{"role": "user", "content": "hi"}])
HELLO = reply("Hello there, how are you today?", ("add", {"a": 1}))


@asynccontextmanager
async def served(
    provider: str, script: Model | Sequence[Reply], **settings: Any
) -> AsyncIterator[tuple[Any, ModelServer]]:
    with ModelServer(script) as server:
        fields = {"api_key": "sk-topsecret", "model": "m", "base_url": server.base_url, **settings}
        service = create_llm_service_from_config(LLMProviderConfig(provider=provider, **fields))
        try:
            yield service, server
        finally:
            await service.aclose()


async def final(service: Any) -> LLMResponse:
    chunks = [chunk async for chunk in service.stream(ASK)]
    return chunks[-1].response


async def error_of(call: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await call
    assert "topsecret" not in str(caught.value)
    return caught.value


def stream_of(provider: str, response: LLMResponse = HELLO) -> bytes:
    return b"".join(event_bodies(PROVIDERS[provider], response, "m"))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_rate_limit_says_how_long_to_wait_and_is_sent_once(provider: str) -> None:
    async with served(provider, [refusal(429, retry_after="2"), refusal(500), refusal(529, retry_after_ms="1500")]) as (
        service,
        server,
    ):
        errors = [await error_of(final(service)) for _ in range(3)]
        assert [type(error) for error in errors] == [LLMTransientError] * 3
        assert [error.retry_after_s for error in errors] == [2.0, None, 1.5]
        assert len(server.requests) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reset_at_any_place_is_a_passing_fault(provider: str) -> None:
    body = stream_of(provider)
    places = [0, 1, len(body) // 3, len(body) // 2]
    async with served(provider, [RawReply(body=body, reset_after=place) for place in places]) as (service, _):
        for _ in places:
            assert isinstance(await error_of(final(service)), LLMTransientError)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_that_ends_cleanly_without_its_terminal_event_is_cut(provider: str) -> None:
    events = event_bodies(PROVIDERS[provider], HELLO, "m")
    short = {"openai": events[:-3], "openai-responses": events[:-1], "anthropic": events[:-1]}[provider]
    async with served(provider, [RawReply(body=b"".join(short)), RawReply(body=b"")]) as (service, _):
        for _ in range(2):
            error = await error_of(final(service))
            assert isinstance(error, LLMTransientError)
            assert "ended before the reply did" in str(error)


async def test_a_chat_stream_without_done_is_complete_by_its_finish_reason() -> None:
    events = event_bodies(CHAT, HELLO, "m")
    cases = [RawReply(body=b"".join(events[:-1])), RawReply(body=b"".join(events[:-2]))]
    async with served("openai", cases) as (service, _):
        assert [(await final(service)).text for _ in cases] == [HELLO.text] * 2


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "body", [b"data: {oops\n\n", b"data: \x00\xff\n\n", b"data: 17\n\n", b"<html>busy</html>", b'{"choices": [', b""]
)
async def test_garbage_is_a_passing_fault_and_never_an_answer(provider: str, body: bytes) -> None:
    json_type = {"content-type": "application/json"}
    script = [RawReply(body=body), RawReply(body=body, headers=json_type), RawReply(body=body, headers=json_type)]
    async with served(provider, script) as (service, _):
        for call in (final(service), final(service), service.complete(ASK)):
            assert isinstance(await error_of(call), LLMTransientError)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_truncated_document_is_a_passing_fault(provider: str) -> None:
    body = whole_body(PROVIDERS[provider], HELLO, "m")
    json_type = {"content-type": "application/json"}
    script = [
        RawReply(body=body[: len(body) // 2], headers=json_type),
        RawReply(body=body, headers=json_type, reset_after=40),
    ]
    async with served(provider, script) as (service, _):
        for _ in script:
            assert isinstance(await error_of(service.complete(ASK)), LLMTransientError)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_empty_reply_is_reported_as_empty_and_not_invented(provider: str) -> None:
    async with served(provider, [reply(""), reply("")]) as (service, _):
        for response in (await final(service), await service.complete(ASK)):
            assert (response.text, response.tool_calls) == ("", ())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_slow_tokens_arrive_one_by_one(provider: str) -> None:
    sizes = tuple(len(event) for event in event_bodies(PROVIDERS[provider], HELLO, "m"))
    async with served(provider, [RawReply(body=stream_of(provider), pieces=sizes, pause_s=0.003)]) as (service, _):
        loop = asyncio.get_running_loop()
        times = [loop.time() async for chunk in service.stream(ASK)]
    assert max(b - a for a, b in pairwise(times)) >= 0.002


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_silence_ends_with_the_read_timeout(provider: str) -> None:
    half = RawReply(body=stream_of(provider)[:200], stall=True)
    async with served(provider, [half, RawReply(first_pause_s=5)], timeout_s=0.05) as (service, _):
        for _ in range(2):
            error = await error_of(final(service))
            assert isinstance(error, LLMTransientError)
            assert "nothing came for 0.05 s" in str(error)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_connections_are_used_again_also_after_streams(provider: str) -> None:
    async with served(provider, lambda request: HELLO) as (service, server):
        for _ in range(5):
            await final(service)
            await service.complete(ASK)
        assert server.open_connections == 1


async def test_nobody_listening_is_a_passing_fault() -> None:
    with ModelServer([]) as server:
        address = server.base_url
    service = create_llm_service_from_config(LLMProviderConfig(base_url=address, model="m"))
    assert isinstance(await error_of(service.complete(ASK)), LLMTransientError)
    await service.aclose()


async def test_a_wrong_path_is_a_final_refusal() -> None:
    async with served("openai", []) as (service, server):
        wrong = LLMProviderConfig(base_url=server.base_url.replace("/v1", "") + "/x?y=1", model="m")
        assert service.config.url != wrong.url
        other = create_llm_service_from_config(wrong)
        await error_of(other.complete(ASK))
        assert server.requests[-1].path == "/x/chat/completions?y=1"
        await other.aclose()


class Signed(httpx2.Auth):
    def auth_flow(self, request: httpx2.Request) -> Any:
        request.headers["x-signed"] = "yes"
        yield request


async def test_keys_headers_and_auth_reach_the_server() -> None:
    async with served("openai", lambda request: HELLO, headers={"X-Team": "a"}) as (service, server):
        await service.complete(ASK)
        sent = server.requests[-1].headers
        assert (sent["authorization"], sent["x-team"], sent["accept-encoding"]) == (
            "Bearer sk-topsecret",
            "a",
            "identity",
        )
    async with served("anthropic", lambda request: HELLO) as (service, server):
        await service.complete(ASK)
        sent = server.requests[-1].headers
        assert (sent["x-api-key"], sent["anthropic-version"]) == ("sk-topsecret", "2023-06-01")
        assert "authorization" not in sent
    async with served("openai", lambda request: HELLO, auth=Signed()) as (service, server):
        await service.complete(ASK)
        assert server.requests[-1].headers["x-signed"] == "yes"
        assert "authorization" not in server.requests[-1].headers


async def test_a_host_s_own_client_is_used_and_left_open() -> None:
    client = httpx2.AsyncClient(headers={"x-mine": "1"})
    async with client, served("openai", lambda request: HELLO, http_client=client) as (service, server):
        await service.complete(ASK)
        await service.aclose()
        assert server.requests[-1].headers["x-mine"] == "1"
        assert not client.is_closed
        assert (await final(service)).text == HELLO.text


async def test_a_service_can_be_used_from_one_event_loop_after_another() -> None:
    """As a host does that calls `asyncio.run` more than once with the same service."""

    async def once() -> str:
        try:
            return (await final(service)).text
        finally:
            await service.aclose()

    with ModelServer(lambda request: HELLO) as server:
        service = create_llm_service_from_config(LLMProviderConfig(base_url=server.base_url, model="m"))
        for _ in range(3):
            assert await asyncio.to_thread(lambda: asyncio.run(once())) == HELLO.text
        assert await once() == HELLO.text


async def test_a_proxy_of_the_config_is_used() -> None:
    """The server itself stands in for the proxy: a proxied request names the whole address in its first line."""
    async with served("openai", lambda request: HELLO) as (_, server):
        config = LLMProviderConfig(
            base_url="http://model.test/v1", api_key="k", model="m", proxy=server.base_url.removesuffix("/v1")
        )
        service = create_llm_service_from_config(config)
        assert (await service.complete(ASK)).text == HELLO.text
        assert server.requests[-1].path == "http://model.test/v1/chat/completions"
        await service.aclose()


async def test_a_proxy_that_makes_no_sense_is_a_setting_to_fix() -> None:
    service = create_llm_service_from_config(LLMProviderConfig(model="m", api_key="k", proxy="ftp://user:pass-word@x"))
    with pytest.raises(ConfigError) as caught:
        await service.complete(ASK)
    assert "pass-word" not in str(caught.value)


async def test_a_redirect_is_refused_since_it_would_carry_the_key_elsewhere() -> None:
    away = RawReply(status=307, headers={"location": "http://elsewhere.test/"})
    async with served("openai", [away]) as (service, _):
        assert isinstance(await error_of(service.complete(ASK)), LLMRequestError)
