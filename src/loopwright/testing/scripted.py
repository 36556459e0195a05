"""A model that follows a script: each call takes the next step.

Owns: the scripted service and its steps. Must not know: HTTP, the engine, any test runner.
Read next: `model_server.py` for the same over a socket.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeAlias

from msgspec import Struct

from ..model.messages import ToolCall
from ..model.specs import FinishReason
from ..model.usage import Usage
from ..ports.ambient import breathe
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from ..transports.reply_chunks import chunks_of


class ToolCalls(Struct, frozen=True):
    """A step in which the model asks for tools; made by `calls`."""

    calls: tuple[tuple[str, Mapping[str, Any] | str], ...]
    """(tool name, arguments) each; a str is taken as argument text as it is, JSON or not."""
    text: str = ""
    """Said before the calls."""


class Gated(Struct, frozen=True):
    """A step of a model or of a `FakeTool` that waits; made by `gated`."""

    step: Any
    """A `Step`; of a `FakeTool`, a `ToolStep`."""
    gate: asyncio.Event
    """The reply comes once this is set."""
    reached: asyncio.Event | None = None
    """Set when the call has arrived and waits."""


Said: TypeAlias = "str | LLMResponse | ToolCalls | Gated | BaseException"
"""A text, a whole response, tool calls, any of these once a gate is open, or something to raise."""

Step: TypeAlias = "Said | Callable[[LLMRequest], Said | Awaitable[Said]]"
"""What is said, or a function of the request that returns it, async or not."""


def calls(*wanted: tuple[str, Mapping[str, Any] | str], text: str = "") -> ToolCalls:
    """A step that asks for tools: `calls(("add", {"a": 1}), ("ls", {}))`."""
    return ToolCalls(wanted, text)


def gated(step: Any, gate: asyncio.Event, *, reached: asyncio.Event | None = None) -> Gated:
    """`step`, but only once `gate` is set; `reached` is set when the call waits there."""
    return Gated(step, gate, reached)


class ScriptError(AssertionError):
    """The model was called more often, or less often, than its script says."""


class ScriptedLLM:
    """An `LLMService` that answers from a list of steps.

    Deterministic and without time, though everything else that is ready runs before each chunk, as with a real model: call ids are `call_<call number>_<index>`, token figures are word counts marked as
    estimated. A call beyond the last step raises `ScriptError` at once, and again from `assert_done`, so that it is
    seen even where the caller turns it into a failed run; so does a step that nobody took. Use it as a context manager
    (`with` or `async with`) to have that checked at the end.
    Concurrency: calls take steps in the order in which they arrive, from any thread.
    """

    def __init__(self, steps: Iterable[Step] = (), *, model: str = "scripted") -> None:
        self._steps = list(steps)
        self.model = model
        self._lock = threading.Lock()
        self._next = 0
        self._unexpected: list[LLMRequest] = []
        self.requests: list[LLMRequest] = []
        """Every request that arrived, oldest first."""
        self.closed = False

    def add(self, *steps: Step) -> None:
        """Appends steps."""
        with self._lock:
            self._steps.extend(steps)

    def skip(self, count: int) -> None:
        """Leaves out the next `count` steps."""
        with self._lock:
            self._next += count

    @property
    def remaining(self) -> int:
        """How many steps nobody took yet."""
        return len(self._steps) - self._next

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The next step as a response."""
        number, step = self._take(request)
        return await self._play(step, request, number)

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMStreamChunk, None]:
        """The next step word by word; a gate or an error comes before the first word."""
        number, step = self._take(request)
        for chunk in chunks_of(await self._play(step, request, number)):
            yield chunk
            await breathe()

    async def aclose(self) -> None:
        """Notes that it was closed."""
        self.closed = True

    def assert_done(self) -> None:
        """Raises `ScriptError` when a step is left or a call came unexpected."""
        if self._unexpected:
            last = self._unexpected[-1].messages
            raise ScriptError(
                f"{len(self._unexpected)} call(s) beyond the {len(self._steps)} steps of the script;"
                f" the last asked with {len(last)} messages, ending with {last[-1] if last else 'nothing'!r}"
            )
        if self.remaining:
            raise ScriptError(
                f"{self.remaining} step(s) of the script were not used; the next is {self._steps[self._next]!r}"
            )

    def __enter__(self) -> ScriptedLLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_done()

    async def __aenter__(self) -> ScriptedLLM:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        self.__exit__(kind, error, trace)

    def _take(self, request: LLMRequest) -> tuple[int, Step]:
        with self._lock:
            self.requests.append(request)
            if self._next >= len(self._steps):
                self._unexpected.append(request)
                raise ScriptError(f"call {len(self.requests)} is beyond the {len(self._steps)} steps of the script")
            step = self._steps[self._next]
            self._next += 1
            return self._next - 1, step

    async def _play(self, step: Any, request: LLMRequest, number: int) -> LLMResponse:
        await breathe()
        while isinstance(step, Gated) or callable(step):
            if isinstance(step, Gated):
                if step.reached is not None:
                    step.reached.set()
                await step.gate.wait()
                step = step.step
            else:
                made_of = step(request)
                step = await made_of if inspect.isawaitable(made_of) else made_of
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, LLMResponse):
            return step
        if isinstance(step, str):
            return self._response(step, (), request)
        if isinstance(step, ToolCalls):
            made = [ToolCall(f"call_{number}_{i}", name, _text(given)) for i, (name, given) in enumerate(step.calls)]
            return self._response(step.text, tuple(made), request)
        kind = type(step).__name__
        raise ScriptError(f"a step is a text, calls(...), an LLMResponse, an exception or a function, not {kind}")

    def _response(self, text: str, made: tuple[ToolCall, ...], request: LLMRequest) -> LLMResponse:
        finish: FinishReason = "tool_calls" if made else "stop"
        read = sum(len(str(message).split()) for message in request.messages)
        written = len(text.split()) + sum(len(call.arguments.split()) + 1 for call in made)
        usage = Usage(read, written, calls=1, estimated=True)
        return LLMResponse(text=text, tool_calls=made, finish_reason=finish, usage=usage, model=self.model)


def _text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
