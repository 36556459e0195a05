"""What every `LLMService` must keep, as checks that an implementer runs.

Owns: the promises of `ports/llm.py`, each as one check. Must not know: HTTP, a test runner.
Read next: `ports/llm.py`, where the promises are written.

With pytest and pytest-asyncio it is enough to subclass::

    class TestMyService(TransportSuite):
        @asynccontextmanager
        async def playing(self, *steps):
            async with my_fake_backend(steps) as url:
                yield MyService(url)

Without them, `await run_transport_suite(TestMyService())` runs all checks one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from msgspec import Struct

from ..model.errors import LLMContextOverflowError, LLMError, LLMRequestError, LLMTransientError
from ..model.messages import ToolCall, ToolResultMessage, UserMessage
from ..model.specs import ToolSpec
from ..model.usage import Usage
from ..ports.llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk


class Refusal(Struct, frozen=True):
    """The backend refuses the call."""

    kind: str
    """"overload" (wait and try again), "bad_request", "bad_key" or "too_long"."""
    retry_after_s: float | None = None


class CutStream(Struct, frozen=True):
    """The backend's reply breaks off in its middle."""

    reply: LLMResponse


class Silence(Struct, frozen=True):
    """The backend begins its reply and then says nothing more."""

    reply: LLMResponse


BackendStep: TypeAlias = LLMResponse | Refusal | CutStream | Silence
"""What the backend does with one call."""

ASK = LLMRequest(messages=[UserMessage("What is 2 + 2? Nà, 你好 🙂")])
SAID = LLMResponse(
    text="Four, naïvely: 2 + 2 = 4 你好 🙂\n\nDone.",
    reasoning="Adding two and two.",
    finish_reason="stop",
    usage=Usage(input_tokens=12, output_tokens=9, cached_tokens=4, reasoning_tokens=5, calls=1),
)
CALLED = LLMResponse(
    text="Looking it up.",
    tool_calls=(ToolCall("call_a", "add", '{"a":2,"b":2}'), ToolCall("call_b", "now", "{}")),
    finish_reason="tool_calls",
    usage=Usage(input_tokens=20, output_tokens=15, calls=1),
)
TOOLS = (
    ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
    ToolSpec("now", "The time.", {"type": "object", "properties": {}}),
)


class TransportSuite:
    """The checks; a subclass says how its service meets a backend that plays given steps."""

    wait_s: float = 5.0
    """Longest time that a check waits for something that must happen."""

    def playing(self, *steps: BackendStep) -> AbstractAsyncContextManager[LLMService]:
        """A service whose backend plays these steps, one a call."""
        raise NotImplementedError("a subclass of TransportSuite has to say how its service is opened")

    async def test_a_streamed_reply_equals_the_whole_one(self) -> None:
        """Text, reasoning, calls, finish reason and usage."""
        for reply in (SAID, CALLED):
            async with self.playing(reply, reply) as service:
                whole = await service.complete(ASK)
                last = (await _collect(service, ASK))[-1].response
            assert last is not None
            assert _facts(last) == _facts(whole) == _facts(reply)

    async def test_joined_chunks_equal_the_reply(self) -> None:
        """And only the last chunk carries it."""
        async with self.playing(SAID, CALLED) as service:
            for _ in range(2):
                chunks = await _collect(service, ASK)
                assert [chunk.response is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
                reply = chunks[-1].response
                assert reply is not None
                assert "".join([chunk.text for chunk in chunks]) == reply.text
                assert "".join([chunk.reasoning for chunk in chunks]) == reply.reasoning
                arguments = [""] * len(reply.tool_calls)
                for chunk in chunks:
                    if chunk.tool_call is not None:
                        arguments[chunk.tool_call.index] += chunk.tool_call.arguments
                assert arguments == [call.arguments for call in reply.tool_calls]

    async def test_a_tool_call_makes_the_round_trip(self) -> None:
        """The reply goes back with its results, and the next reply comes."""
        async with self.playing(CALLED, SAID) as service:
            first = await service.complete(LLMRequest(messages=ASK.messages, tools=TOOLS))
            results = [ToolResultMessage(call.id, call.name, "4") for call in first.tool_calls]
            messages = [*ASK.messages, first.message(), *results]
            second = await service.complete(LLMRequest(messages=messages, tools=TOOLS))
            assert second.text == SAID.text

    async def test_a_cut_stream_raises_instead_of_looking_complete(self) -> None:
        """And is a fault that may pass."""
        for reply in (SAID, CALLED):
            async with self.playing(CutStream(reply)) as service:
                error = await _error_of(service)
                assert isinstance(error, LLMTransientError), repr(error)

    async def test_an_overload_may_be_retried_after_the_given_time(self) -> None:
        """The service itself sends one request only."""
        async with self.playing(Refusal("overload", 7.0), Refusal("overload"), SAID) as service:
            first, second = await _error_of(service), await _error_of(service)
            assert isinstance(first, LLMTransientError), repr(first)
            assert first.retry_after_s == 7.0
            assert isinstance(second, LLMTransientError), repr(second)
            assert second.retry_after_s is None
            assert (await service.complete(ASK)).text == SAID.text

    async def test_a_permanent_refusal_is_told_from_a_passing_one(self) -> None:
        """A bad request and a bad key are final; a too long request has its own error."""
        async with self.playing(Refusal("bad_request"), Refusal("bad_key"), Refusal("too_long")) as service:
            errors = [await _error_of(service) for _ in range(3)]
        assert [type(error) for error in errors] == [LLMRequestError, LLMRequestError, LLMContextOverflowError]
        assert all(error.provider for error in errors if isinstance(error, LLMError))

    async def test_a_cancelled_call_ends_at_once_and_frees_its_place(self) -> None:
        """The next call works."""
        async with self.playing(Silence(SAID), SAID) as service:
            arrived = asyncio.Event()

            async def read() -> None:
                async for _ in service.stream(ASK):
                    arrived.set()

            task = asyncio.ensure_future(read())
            await asyncio.wait_for(arrived.wait(), self.wait_s)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=self.wait_s)
            assert done, "a cancelled stream went on"
            assert task.cancelled()
            assert (await asyncio.wait_for(service.complete(ASK), self.wait_s)).text == SAID.text

    async def test_an_abandoned_stream_frees_its_place(self) -> None:
        """A consumer that stops reading and closes the iterator leaves nothing behind."""
        async with self.playing(SAID, SAID) as service:
            chunks = service.stream(ASK)
            await anext(chunks)
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
            del chunks
            assert (await asyncio.wait_for(service.complete(ASK), self.wait_s)).text == SAID.text

    async def test_calls_run_side_by_side(self) -> None:
        """Twenty at once, half of them streamed."""
        async with self.playing(*[SAID] * 20) as service:
            whole = [service.complete(ASK) for _ in range(10)]
            streamed = [_collect(service, ASK) for _ in range(10)]
            replies, chunks = await asyncio.gather(asyncio.gather(*whole), asyncio.gather(*streamed))
        assert {reply.text for reply in replies} == {SAID.text}
        assert {"".join([c.text for c in many]) for many in chunks} == {SAID.text}

    async def test_closing_twice_is_safe(self) -> None:
        """Also before the first call."""
        async with self.playing(SAID) as service:
            assert (await service.complete(ASK)).text == SAID.text
            await service.aclose()
            await service.aclose()
        async with self.playing() as service:
            await service.aclose()


async def run_transport_suite(suite: TransportSuite) -> list[str]:
    """Runs every check of `suite`; returns their names. Raises what the first failing check raises."""
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        await getattr(suite, name)()
    return names


async def _collect(service: LLMService, request: LLMRequest) -> list[LLMStreamChunk]:
    return [chunk async for chunk in service.stream(request)]


async def _error_of(service: LLMService) -> BaseException | None:
    try:
        await _collect(service, ASK)
    except LLMError as error:
        return error
    return None


def _facts(reply: LLMResponse) -> tuple[object, ...]:
    usage = reply.usage
    return (
        reply.text,
        reply.reasoning,
        [(call.id, call.name, call.parsed()) for call in reply.tool_calls],
        reply.finish_reason,
        (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens),
    )
