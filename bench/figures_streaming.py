"""Streaming over HTTP: CPU of the client per 1,000 events, the server in a process of its own.

Owns: this figure and its floor. Read next: `served.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from loopwright import LLMProviderConfig, LLMRequest, StatefulAgentLoop, create_llm_service_from_config

from .measuring import Figure, Scale, compared, cpu, interleaved
from .workload import QUESTION

ROOT = Path(__file__).resolve().parent.parent
MILLI_PER_1000 = 1e3 * 1000
KEY = "no-key-needed"


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """The base URL of a model server in its own process."""
    # Not with -m: the reply classes that `served` uses would then be others than the server's own.
    serve = "from loopwright.testing.model_server import main; main()"
    program = [sys.executable, "-c", serve, "--model", "bench.served:served"]
    child = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        url = (await child.stdout.readline()).decode()
        if not url.startswith("http"):
            raise RuntimeError("the model server did not start")
        yield url.strip()
    finally:
        child.terminate()
        await child.wait()


async def bare_reader(client: httpx2.AsyncClient, url: str, model: str) -> str:
    """The floor: lines of the response, JSON of each, the text joined."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    parts: list[str] = []
    async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                for choice in json.loads(line[6:])["choices"]:
                    text = choice["delta"].get("content")
                    if text:
                        parts.append(text)
    return "".join(parts)


async def streaming(scale: Scale) -> list[Figure]:
    async with model_server() as url:
        burst = await _at(scale, url, "burst", scale.of(2000, 500), scale.of(15, 3))
        paced = await _at(scale, url, "paced", scale.of(300, 60), scale.of(5, 2))
    return [*burst, *paced]


async def _at(scale: Scale, url: str, pace: str, count: int, rounds: int) -> list[Figure]:
    """Through the bare reader, through our transport, through the whole loop."""
    model = f"{pace}-{count}"
    config = LLMProviderConfig(provider="openai", base_url=url, api_key=KEY, model=model)
    service = create_llm_service_from_config(config)
    path = scale.folder / f"stream-{pace}.db"
    async with (
        httpx2.AsyncClient(timeout=60) as client,
        StatefulAgentLoop(llm=service, dsn=path, durability="relaxed") as loop,
    ):
        expected = await bare_reader(client, url, model)

        def check(text: str) -> int:
            if text != expected:
                raise RuntimeError("the stream was read wrongly")
            return count

        async def floor() -> int:
            return check(await bare_reader(client, url, model))

        async def transport() -> int:
            request = LLMRequest(messages=[{"role": "user", "content": QUESTION}])
            return check("".join([chunk.text async for chunk in service.stream(request)]))

        async def through_loop() -> int:
            result = await loop.send(QUESTION)
            return check(result.final_text)

        async def through_events() -> int:
            parts = [e.data.text async for e in loop.stream(QUESTION) if e.type == "stream_delta"]
            return check("".join(parts))

        samples = await interleaved(
            {"floor": floor, "transport": transport, "loop": through_loop, "events": through_events}, rounds
        )
    await service.aclose()
    figures: list[Figure] = []
    arrival = "many events a packet" if pace == "burst" else "one event a packet"
    for name, what in (
        ("transport", "transport"),
        ("loop", "whole loop"),
        ("events", "whole loop, events read by loop.stream"),
    ):
        informs = name == "events"
        figures.append(
            compared(
                f"streaming, CPU per 1,000 chunks, {arrival}: {what}",
                "ms",
                {"httpx2 lines + json": cpu(samples["floor"])},
                cpu(samples[name]),
                scale=MILLI_PER_1000,
                budget="" if informs else "≤ 1.5×",
                limit=None if informs else 1.5,
            )
        )
    return figures
