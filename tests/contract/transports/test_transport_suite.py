"""The shipped suite, run against every service that ships."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from loopwright.model.errors import LLMContextOverflowError, LLMRequestError, LLMTransientError
from loopwright.ports.llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk
from loopwright.testing.model_server import ModelServer, RawReply, Reply, ServedRequest, refusal
from loopwright.testing.provider_bodies import event_bodies, whole_body
from loopwright.testing.transport_suite import (
    BackendStep,
    CutStream,
    Refusal,
    TransportSuite,
    run_transport_suite,
)
from loopwright.transports import LLMProviderConfig, create_llm_service_from_config


def played(step: BackendStep, request: ServedRequest) -> Reply:
    if isinstance(step, LLMResponse):
        return step
    if isinstance(step, Refusal):
        if step.kind == "overload":
            headers = {} if step.retry_after_s is None else {"retry_after": f"{step.retry_after_s:g}"}
            return refusal(429, "too many requests", **headers)
        status, text = {
            "bad_request": (400, "no such field"),
            "bad_key": (401, "wrong key"),
            "too_long": (400, "This model's maximum context length is 10 tokens"),
        }[step.kind]
        return refusal(status, text)
    if not request.streamed:
        return RawReply(body=whole_body(request.protocol, step.reply, "m")[:40], reset_after=30)
    events = event_bodies(request.protocol, step.reply, "m")
    body = b"".join(events[: len(events) // 2 + 1])
    return (
        RawReply(body=body, reset_after=len(body)) if isinstance(step, CutStream) else RawReply(body=body, stall=True)
    )


class OverHTTP(TransportSuite):
    provider = "openai"

    @asynccontextmanager
    async def playing(self, *steps: BackendStep) -> AsyncIterator[LLMService]:
        left = iter(steps)
        with ModelServer(lambda request: played(next(left), request)) as server:
            config = LLMProviderConfig(provider=self.provider, base_url=server.base_url, model="m", api_key="k")
            service = create_llm_service_from_config(config)
            try:
                yield service
            finally:
                await service.aclose()


class TestOpenAIChat(OverHTTP):
    provider = "openai"


class TestOpenAIResponses(OverHTTP):
    provider = "openai-responses"


class TestAnthropic(OverHTTP):
    provider = "anthropic"


class Forgetful:
    """Keeps every promise but one: a cut stream looks complete."""

    def __init__(self, steps: tuple[BackendStep, ...]) -> None:
        self._steps = iter(steps)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        step = next(self._steps)
        if isinstance(step, Refusal):
            kinds = {"overload": LLMTransientError, "too_long": LLMContextOverflowError}
            raise kinds.get(step.kind, LLMRequestError)("refused", provider="x", retry_after_s=step.retry_after_s)
        return step if isinstance(step, LLMResponse) else step.reply

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamChunk]:
        reply = await self.complete(request)
        yield LLMStreamChunk(reply.text, reply.reasoning)
        yield LLMStreamChunk(response=reply)

    async def aclose(self) -> None:
        pass


class ForgetfulSuite(TransportSuite):
    @asynccontextmanager
    async def playing(self, *steps: BackendStep) -> AsyncIterator[LLMService]:
        yield Forgetful(steps)


async def test_the_suite_notices_a_service_that_hides_a_cut_stream() -> None:
    with pytest.raises(AssertionError):
        await ForgetfulSuite().test_a_cut_stream_raises_instead_of_looking_complete()


async def test_the_suite_runs_without_a_test_runner() -> None:
    assert len(await run_transport_suite(TestOpenAIChat())) >= 10
