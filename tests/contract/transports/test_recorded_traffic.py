"""Every recorded exchange, replayed by a real server in pieces of any size."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from tests.contract.transports.traffic_oracle import (
    FAMILIES,
    FOLDER,
    document_of,
    exchanges_of,
    expected,
    is_stream,
    stream_error,
    traffic_files,
)

from loopwright.model.errors import LLMError, LLMRequestError, LLMTransientError
from loopwright.ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from loopwright.testing.model_server import ModelServer, RawReply
from loopwright.transports import LLMProviderConfig, create_llm_service_from_config
from loopwright.transports.anthropic import MessagesReader
from loopwright.transports.openai_chat import ChatReader
from loopwright.transports.openai_responses import ResponsesReader, ResponsesWire
from loopwright.transports.provider_failures import FailureReader
from loopwright.transports.sse import EventReader

FILES = traffic_files()
SEEDS = range(3)
ONE_BYTE_LIMIT = 2_500
ASK = LLMRequest(messages=[{"role": "user", "content": "hi"}])

pytestmark = pytest.mark.skipif(not FILES, reason=f"recorded traffic is not here: {FOLDER}")


class Player:
    """A server whose next reply the test sets."""

    def __init__(self) -> None:
        self.reply = RawReply()
        self.server = ModelServer(lambda request: self.reply)

    def set(
        self, body: bytes, status: int = 200, pieces: tuple[int, ...] = (), kind: str = "text/event-stream"
    ) -> None:
        self.reply = RawReply(body=body, status=status, pieces=pieces, headers={"content-type": kind})


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    made = Player()
    with made.server:
        yield made


def service_for(path: Path, player: Player) -> Any:
    config = LLMProviderConfig(provider=FAMILIES[path.parent.name], base_url=player.server.base_url, model="m")
    return create_llm_service_from_config(config)


def sizes(seed: int, length: int) -> tuple[int, ...]:
    """Sizes from 1 byte to 64 KiB, small ones more often, so that every kind of seam is met."""
    chance = random.Random(seed)
    made: list[int] = []
    while sum(made) < length:
        made.append(min(int(2 ** chance.uniform(0, 16)), 65_536))
    return tuple(made)


def facts(response: LLMResponse) -> dict[str, Any]:
    return {
        "text": response.text,
        "reasoning": response.reasoning,
        "calls": [(c.id, c.name, c.parsed()) for c in response.tool_calls],
        "finish": response.finish_reason,
        "tokens": (response.usage.input_tokens, response.usage.output_tokens),
        "cached": response.usage.cached_tokens,
        "written": response.usage.cache_write_tokens,
        "reasoned": response.usage.reasoning_tokens,
    }


def same(streamed: LLMResponse, whole: LLMResponse) -> None:
    """Equal in everything; argument texts may differ in white space that a document does not carry."""
    assert facts(streamed) == facts(whole)
    assert streamed.usage == whole.usage
    # Reasoning is encrypted anew for each event that carries it, so only its presence can be compared.
    assert without_ciphers(streamed.provider_state) == without_ciphers(whole.provider_state)
    assert (streamed.model, streamed.response_id) == (whole.model, whole.response_id)


def without_ciphers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bool(v) if k == "encrypted_content" and v else without_ciphers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [without_ciphers(v) for v in value]
    return without_ciphers(msgspec.to_builtins(value)) if isinstance(value, Struct) else value


def check_chunks(chunks: list[LLMStreamChunk], response: LLMResponse) -> None:
    assert [chunk.response is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join([chunk.text for chunk in chunks]) == response.text
    assert "".join([chunk.reasoning for chunk in chunks]) == response.reasoning
    arguments = [""] * len(response.tool_calls)
    for chunk in chunks:
        if chunk.tool_call is not None:
            arguments[chunk.tool_call.index] += chunk.tool_call.arguments
    assert arguments == [call.arguments for call in response.tool_calls]


@pytest.mark.parametrize("path", FILES, ids=[f"{p.parent.name}-{p.stem[:70]}" for p in FILES])
async def test_a_recorded_reply_is_read_alike_in_any_pieces(path: Path, player: Player) -> None:
    service = service_for(path, player)
    family = FAMILIES[path.parent.name]
    try:
        for exchange in exchanges_of(path):
            body, status = exchange["response"]["body"], exchange["response"]["status"]
            if status >= 400:
                await check_refusal(service, player, body, status)
            elif is_stream(body) and stream_error(body):
                await check_stream_error(service, player, body)
            elif is_stream(body):
                await check_stream(service, player, family, body)
            elif "choices" in body or "output" in body or "content" in json.loads(body):
                await check_document(service, player, family, json.loads(body), body.encode())
            else:
                await check_no_reply(service, player, body)
    finally:
        await service.aclose()


async def check_refusal(service: Any, player: Player, body: str, status: int) -> None:
    player.set(body.encode(), status, kind="application/json")
    for call in (service.complete(ASK), collect(service)):
        with pytest.raises(LLMRequestError) as caught:
            await call
        assert caught.value.status == status
        assert json.loads(body)["error"]["message"][:40] in str(caught.value)


async def check_stream_error(service: Any, player: Player, body: str) -> None:
    """The recorded one is Groq's status 400 inside of a stream."""
    for seed in SEEDS:
        player.set(body.encode(), pieces=sizes(seed, len(body)))
        with pytest.raises(LLMRequestError, match="did not call a tool") as caught:
            await collect(service)
        assert caught.value.status == stream_error(body)["status_code"]


async def check_no_reply(service: Any, player: Player, body: str) -> None:
    player.set(body.encode(), kind="application/json")
    with pytest.raises(LLMTransientError, match="not a reply of its protocol"):
        await service.complete(ASK)


async def check_document(service: Any, player: Player, family: str, document: Any, raw: bytes) -> LLMResponse:
    player.set(raw, pieces=sizes(len(raw), len(raw)), kind="application/json")
    whole: LLMResponse = await service.complete(ASK)
    assert facts(whole) == expected(family, document)
    chunks = await collect(service)  # a server that does not stream although it was asked to
    check_chunks(chunks, whole)
    return whole


async def check_stream(service: Any, player: Player, family: str, body: str) -> None:
    document = document_of(family, body)
    whole = await check_document(service, player, family, document, json.dumps(document).encode())
    variants = [body.encode(), body.replace("\n", "\r\n").encode()]
    for raw in variants:
        plans = [sizes(seed, len(raw)) for seed in SEEDS]
        if len(raw) <= ONE_BYTE_LIMIT:
            plans.append((1,))
        for pieces in plans:
            player.set(raw, pieces=pieces)
            chunks = await collect(service)
            response = chunks[-1].response
            assert response is not None
            same(response, whole)
            check_chunks(chunks, response)


async def collect(service: Any) -> list[LLMStreamChunk]:
    return [chunk async for chunk in service.stream(ASK)]


def reader_for(family: str) -> Any:
    failures = FailureReader("test", "KEY", ())
    if family == "openai":
        return ChatReader("127.0.0.1", {}, failures)
    if family == "anthropic":
        return MessagesReader({}, failures)
    return ResponsesReader(ResponsesWire("127.0.0.1"), {}, failures)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_streams_survive_single_bytes_and_every_line_ending(family: str, ending: str) -> None:
    """Without HTTP in between, so that the long ones can be cut into single bytes too."""
    for path in FILES:
        if path.parent.name != family:
            continue
        for exchange in exchanges_of(path):
            body = exchange["response"]["body"]
            if not is_stream(body) or stream_error(body):
                continue
            raw = ("\ufeff" + body).replace("\n", ending).encode()
            wholes = [read_all(FAMILIES[family], raw, step) for step in (1, 7, 1 << 16)]
            assert wholes[0] == wholes[1] == wholes[2]
            assert facts(wholes[0]) == expected(FAMILIES[family], document_of(FAMILIES[family], body))


def read_all(family: str, raw: bytes, step: int) -> LLMResponse:
    events, reader = EventReader(), reader_for(family)
    for position in range(0, len(raw), step):
        for data in events.feed(raw[position : position + step]):
            reader.read(data)
    for data in events.finish():
        reader.read(data)
    assert reader.complete
    response: LLMResponse = reader.response()
    return response


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_recorded_stream_cut_anywhere_never_looks_complete(family: str, player: Player) -> None:
    """Cut at 12 places: before the terminal event it is a passing fault, whatever came through."""
    path, body = next((p, b) for p, b in stream_bodies() if p.parent.name == family)
    service = service_for(path, player)
    raw = body.encode()
    chat = family == "openai_chat"
    last = re.search(rb'"finish_reason": ?"', raw).start() if chat else raw.rstrip().rindex(b"\n\n")
    try:
        for position in range(0, last, max(last // 12, 1)):
            player.set(raw[:position], pieces=sizes(position, position))
            with pytest.raises(LLMError) as caught:
                await collect(service)
            assert isinstance(caught.value, LLMTransientError)
    finally:
        await service.aclose()


def stream_bodies() -> Iterator[tuple[Path, str]]:
    for path in FILES:
        for exchange in exchanges_of(path):
            body = exchange["response"]["body"]
            if is_stream(body) and not stream_error(body):
                yield path, body
