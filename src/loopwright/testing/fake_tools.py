"""Doubles for tools: what a tool answers is a script, and every call of it is written down.

Owns: `FakeTool` and its calls. Must not know: runs, any test runner.
Read next: `scripted.py` (the same for models), `tool_context.py` (a context without a run).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..model.call_errors import ToolValidationError
from ..model.records import Effect
from ..ports.tool import HandlerReturn, ToolContext, ToolDefinition
from ..tools.decorator import FunctionHandler
from ..tools.registry import ToolRegistry
from .scripted import Gated, ScriptError

ToolStep: TypeAlias = "HandlerReturn | BaseException | Gated | Callable[[dict[str, Any], ToolContext], Any]"
"""What a call answers, something to raise, any of these once a gate is open (`gated`), or a function of arguments and
context that gives one of them, async or not."""

Ending: TypeAlias = Literal["running", "returned", "raised", "stopped", "repeated"]

ANYTHING: dict[str, Any] = {"type": "object"}
"""A schema that takes every arguments object."""


class FakeCall(Struct):
    """One call that arrived."""

    arguments: dict[str, Any]
    key: str
    """The idempotency key: equal for every repetition of one call."""
    session_id: str
    call_id: str
    round_index: int
    ended: Ending = "running"
    """`stopped`: cancelled while it ran. `repeated`: its key was answered before, so it got the same answer."""
    value: Any = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised."""


class FakeTool:
    """A tool that answers from a list of steps, or by one function for every call. `tool` is what a loop gets.

    It behaves like a service that knows keys: a call whose key was answered gets that answer again and takes no step; a
    `once` tool must never see that, so it is a `ScriptError` there. A call that failed or was stopped has no answer, and
    its repetition takes the next step. Arguments are checked by the schema before a step is taken. A call beyond the
    last step is a `ScriptError` at once, and again from `assert_done`, where steps that nobody took, calls that still
    run and repeated `once` calls are too. As a context manager (`with` or `async with`) it checks that at its end.
    Concurrency: calls take steps in the order in which they arrive, from any thread.
    """

    def __init__(
        self,
        name: str,
        results: Iterable[ToolStep] | Callable[[dict[str, Any], ToolContext], Any] = (),
        *,
        parameters: Mapping[str, Any] | None = None,
        description: str = "",
        effect: Effect = "idempotent",
        **settings: Any,
    ) -> None:
        """`parameters`: a JSON Schema, by default any object. `settings`: further fields of the `ToolDefinition`."""
        if isinstance(results, str):
            raise ScriptError(f"the results of {name!r} are a list of steps or a function, not the text {results!r}")
        real = ToolDefinition(
            name=name,
            description=description or f"A double of {name}.",
            parameters=dict(ANYTHING if parameters is None else parameters),
            effect=effect,
            **settings,
        )
        self._steps = None if callable(results) else list(results)
        self._function = results if callable(results) else None
        self._play_as(real)

    @classmethod
    def of(
        cls,
        real: ToolDefinition,
        results: Iterable[ToolStep] | Callable[[dict[str, Any], ToolContext], Any] = (),
        **changes: Any,
    ) -> FakeTool:
        """A double of a tool: its name, schema, effect and settings, without its handler and its `reconcile`.

        Arguments must also be what the annotations of a function made by `@tool` say. `changes` are fields of the
        `ToolDefinition` that are to be different.
        """
        double = cls(real.name, results)
        double._play_as(msgspec.structs.replace(real, **{"reconcile": None, **changes}), real.handler)
        return double

    def _play_as(self, real: ToolDefinition, handler: object = None) -> None:
        self.tool = msgspec.structs.replace(real, handler=self._handle, is_async=True)
        """The definition, for `tools=[...]` and registries."""
        self.calls: list[FakeCall] = []
        """Every call that arrived with arguments that fit, oldest first."""
        self._converts = handler if isinstance(handler, FunctionHandler) else None
        self._schema = ToolRegistry.of(self.tool)
        self._lock = threading.Lock()
        self._next = 0
        self._answered: dict[str, Any] = {}
        self._faults: list[str] = []

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def remaining(self) -> int:
        """How many steps nobody took yet; 0 for a function."""
        return 0 if self._steps is None else len(self._steps) - self._next

    @property
    def running(self) -> int:
        """How many calls have not ended."""
        return sum(call.ended == "running" for call in self.calls)

    @property
    def keys(self) -> tuple[str, ...]:
        """The different keys that were used, in order: how many calls there were, however often each was repeated."""
        return tuple(dict.fromkeys([call.key for call in self.calls]))

    def add(self, *steps: ToolStep) -> None:
        """Appends steps."""
        with self._lock:
            if self._steps is None:
                raise ScriptError(f"{self.name!r} answers by a function; it takes no steps")
            self._steps.extend(steps)

    def assert_done(self) -> None:
        """Raises `ScriptError` when steps are left, calls still run, or a call came that must not."""
        told = list(self._faults)
        if self.remaining:
            assert self._steps is not None
            told.append(f"{self.remaining} step(s) were not used; the next is {self._steps[self._next]!r}")
        if self.running:
            told.append(f"{self.running} call(s) still run")
        if told:
            raise ScriptError(f"tool {self.name!r}: {'; '.join(told)}")

    def __enter__(self) -> FakeTool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_done()

    async def __aenter__(self) -> FakeTool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    async def _handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Raises: `ToolValidationError` for arguments that the tool does not take; `ScriptError`; what the step says."""
        if (problem := self._schema.problems(self.name, arguments)) is not None:
            raise ToolValidationError(self.name, problem)
        if self._converts is not None:
            self._converts.converted(arguments)
        call = FakeCall(
            arguments=dict(arguments),
            key=context.idempotency_key,
            session_id=context.session_id,
            call_id=context.call_id,
            round_index=context.round_index,
        )
        try:
            step, is_repeated = self._take(call)
            value = step if is_repeated else await _played(step, arguments, context)
        except asyncio.CancelledError:
            call.ended = "stopped"
            raise
        except BaseException as error:
            call.ended, call.error = "raised", error
            raise
        call.ended, call.value = "repeated" if is_repeated else "returned", value
        with self._lock:
            self._answered[call.key] = value
        return value

    def _take(self, call: FakeCall) -> tuple[Any, bool]:
        """The call's step, or the answer that its key has already."""
        with self._lock:
            self.calls.append(call)
            if call.key in self._answered:
                if self.tool.effect == "once":
                    raise self._fault(f"it is declared once, and call {call.call_id!r} was made again")
                return self._answered[call.key], True
            if self._function is not None:
                return self._function, False
            assert self._steps is not None
            if self._next >= len(self._steps):
                raise self._fault(f"call {len(self.calls)} is beyond the {len(self._steps)} steps of the script")
            self._next += 1
            return self._steps[self._next - 1], False

    def _fault(self, what: str) -> ScriptError:
        self._faults.append(what)
        return ScriptError(f"tool {self.name!r}: {what}")


async def _played(step: Any, arguments: dict[str, Any], context: ToolContext) -> Any:
    while isinstance(step, Gated) or callable(step):
        if isinstance(step, Gated):
            if step.reached is not None:
                step.reached.set()
            await step.gate.wait()
            step = step.step
        else:
            made_of = step(arguments, context)
            step = await made_of if inspect.isawaitable(made_of) else made_of
    if isinstance(step, BaseException):
        raise step
    return step
