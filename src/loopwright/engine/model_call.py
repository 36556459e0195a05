"""One logical model call: attempts, streaming, retries, stop.

Owns: the only retry layer. Must not know: what the reply leads to.
Read next: `core/retry.py` for the rule, `transports/` for services.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..core.estimate import estimated
from ..core.retry import GiveUp, after_failure
from ..late import Late
from ..model.errors import (
    ConfigError,
    LLMContextOverflowError,
    LLMEmptyReplyError,
    LLMRetryExhausted,
    LLMTimeout,
    LLMTransientError,
    LoopwrightError,
)
from ..model.event_types import AgentEventType
from ..model.records import AttemptFailed
from ..model.usage import Usage, odd_figure
from ..ports.cancellation import CancellationToken
from ..ports.llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk
from .kernel import Kernel
from .stopping import Stopped, TimedOut, Won, race

if TYPE_CHECKING:
    from . import cost
else:
    cost = Late("loopwright.engine.cost")


class Replied(Struct, frozen=True):
    """The model's reply, with usage filled in."""

    response: LLMResponse
    failures: tuple[AttemptFailed, ...]


class NoReply(Struct, frozen=True):
    """No attempt worked. `degraded`: it may work later; otherwise the request itself is refused."""

    error: BaseException
    degraded: bool
    attempts: int
    failures: tuple[AttemptFailed, ...]


class CallStopped(Struct, frozen=True):
    """The run was stopped during the call; partial text is dropped, its cost is among `failures`."""

    reason: str
    failures: tuple[AttemptFailed, ...]


class ModelCall:
    """One logical call; an object because events, usage and text of the attempt in flight belong together."""

    def __init__(
        self,
        kernel: Kernel,
        session_id: str,
        request: LLMRequest,
        *,
        round_index: int,
        window_tokens: int,
        place: int = 0,
    ) -> None:
        self._kernel = kernel
        self._session_id = session_id
        self._request = request
        self._round = round_index
        self._window_tokens = window_tokens
        self._failures: list[AttemptFailed] = []
        self._attempt = 0
        self._before = 0
        """Attempts of the models that gave up."""
        self._gave_up: list[str] = []
        """Models that were asked before, with their errors."""
        self._shown = 0
        self._paid: Usage | None = None
        """What the attempt cost, where its reply came and was no answer."""
        self.place = 0
        """Which model of the chain is asked; 0 is the loop's own."""
        self._service: LLMService = kernel.llm
        if place:
            self._ask(place)

    @property
    def _call_id(self) -> str:
        return f"r{self._round}.a{self._attempt}"

    @property
    def _model(self) -> str:
        """The model that is asked, as far as anybody says."""
        return self._request.model or str(getattr(self._service, "model", "") or "")

    async def run(self, token: CancellationToken) -> Replied | NoReply | CallStopped:
        """Attempts until a reply, a permanent fault, a stop, or the policy's end, with each model of the chain."""
        while True:
            outcome = await self._ask_one(token)
            if not isinstance(outcome, NoReply):
                return outcome
            if not self._moved(outcome.error):
                return outcome if not self._gave_up else self._all_failed(outcome)

    def _moved(self, error: BaseException) -> bool:
        """Goes on to the next model, if there is one for which `error` says nothing."""
        chain = self._kernel.chain
        step = chain.after(error, self.place, self._window_tokens) if chain is not None else None
        if chain is None or step is None:
            return False
        left = self._model or chain.name(self.place)
        self._gave_up.append(f"{left}: {error} ({code_of(error)})")
        self._emit(AgentEventType.MODEL_FALLBACK, left, chain.name(step.place), step.reason, str(error))
        self._ask(step.place)
        return True

    def _all_failed(self, outcome: NoReply) -> NoReply:
        """The failure of the last model, which tells of those before it, the first one's first."""
        chain, error = self._kernel.chain, outcome.error
        last = self._model or (chain.name(self.place) if chain is not None else "")
        told = f"{'; '.join(self._gave_up)}; {last}:"
        if isinstance(error, LLMRetryExhausted):
            named = LLMRetryExhausted(error.attempts, error.last_error, before=f"{told} ")
            named.__cause__ = error.last_error
            return replace(outcome, error=named)
        if told not in getattr(error, "__notes__", ()):  # a service may raise one object again and again
            error.add_note(told)
        return outcome

    def _ask(self, place: int) -> None:
        """From here on the model at `place` is asked, by its own name."""
        chain = self._kernel.chain
        if chain is None:
            return
        self.place, self._before = place, self._attempt
        self._service = chain.service(place)
        self._request = replace(self._request, model=None)

    async def _ask_one(self, token: CancellationToken) -> Replied | NoReply | CallStopped:
        policy, ambient = self._kernel.config.retry, self._kernel.ambient
        began, left = ambient.monotonic(), policy.total_timeout_s
        while True:
            self._attempt += 1
            outcome = await self._try(token, left)
            if isinstance(outcome, LLMResponse):
                return Replied(outcome, tuple(self._failures))
            if isinstance(outcome, Stopped):
                return CallStopped(outcome.reason, tuple(self._failures))
            elapsed = ambient.monotonic() - began
            if isinstance(outcome, TimedOut):
                late = LLMTimeout(elapsed, self._attempt, policy.total_timeout_s or 0.0)
                return NoReply(late, True, self._attempt, tuple(self._failures))
            tries = self._attempt - self._before
            advice = after_failure(policy, outcome, attempt=tries, elapsed_s=elapsed, jitter=ambient.random())
            if isinstance(advice, GiveUp):
                return self._given_up(outcome, advice)
            self._emit(
                AgentEventType.LLM_RETRY_ATTEMPTED,
                tries + 1,
                policy.max_attempts,
                code_of(outcome),
                str(outcome),
                advice.wait_s,
            )
            slept = await race(ambient.sleep(advice.wait_s), token, self._kernel.deadlines, timeout_s=None, grace_s=0.0)
            if isinstance(slept, Stopped):
                return CallStopped(slept.reason, tuple(self._failures))
            if policy.total_timeout_s is not None:
                left = max(policy.total_timeout_s - (ambient.monotonic() - began), 0.0)

    def _given_up(self, error: BaseException, advice: GiveUp) -> NoReply:
        failures = tuple(self._failures)
        if advice.exhausted:
            exhausted = LLMRetryExhausted(self._attempt, error)
            exhausted.__cause__ = error
            return NoReply(exhausted, True, self._attempt, failures)
        return NoReply(error, isinstance(error, LLMContextOverflowError), self._attempt, failures)

    async def _try(
        self, token: CancellationToken, left_s: float | None
    ) -> LLMResponse | Stopped | TimedOut | Exception:
        """One attempt with its pair of events; what it cost without a reply is noted as a failure."""
        kernel = self._kernel
        self._shown, self._paid = 0, None
        if kernel.bus.wanted:
            self._emit(AgentEventType.LLM_CALL_STARTED, self._call_id, self._attempt, self._model)
        began = kernel.ambient.monotonic()
        outcome: LLMResponse | Stopped | TimedOut | Exception
        try:
            kernel.ambient.reach("model.before")
            raced = await race(
                self._work(), token, kernel.deadlines, timeout_s=left_s, grace_s=kernel.config.stop_grace_s
            )
            kernel.ambient.reach("model.after")
            outcome = self._checked(raced.value) if isinstance(raced, Won) else raced
        except Exception as error:  # noqa: BLE001 - a host's service may raise anything; the retry rule judges it
            outcome = error
        duration = kernel.ambient.monotonic() - began
        if isinstance(outcome, LLMResponse):
            self._done(duration, outcome.usage, None)
            return outcome
        self._fail(outcome, duration)
        return outcome

    async def _work(self) -> LLMResponse:
        service = self._service
        stream = getattr(service, "stream", None)
        if stream is None or (not self._kernel.config.stream and hasattr(service, "complete")):
            reply: Awaitable[LLMResponse] | LLMResponse = service.complete(self._request)  # hosts may write a plain one
            return _a_response(await reply if inspect.isawaitable(reply) else reply, service, "complete() must return")
        show = bool(self._kernel.bus.wanted & _DELTAS)
        response: LLMResponse | None = None
        async for chunk in stream(self._request):
            if chunk.response is not None:
                response = chunk.response
            self._shown += len(chunk.text) + len(chunk.reasoning)
            if show:
                self._show(chunk)
        if response is None:
            raise LLMTransientError(
                f"the stream of {type(service).__name__} ended without a response: it was cut, or its last chunk lacks one"
            )
        return _a_response(response, service, "the last chunk of stream() must carry")

    def _show(self, chunk: LLMStreamChunk) -> None:
        if chunk.text:
            self._emit(AgentEventType.STREAM_DELTA, self._call_id, chunk.text)
        if chunk.reasoning:
            self._emit(AgentEventType.STREAM_THINK_DELTA, self._call_id, chunk.reasoning)
        if (delta := chunk.tool_call) is not None:
            self._emit(
                AgentEventType.TOOL_ARGUMENTS_DELTA,
                self._call_id,
                delta.index,
                delta.id,
                delta.name,
                delta.arguments,
            )

    def _checked(self, response: LLMResponse) -> LLMResponse | Exception:
        """The reply with its usage; an empty one is a fault, except when it was cut off while thinking."""
        if self._kernel.prices is not None and response.model and not self._model:
            self._kernel.answered[id(self._service)] = response.model
        if not response.model and self._model:
            response = replace(response, model=self._model)
        usage = response.usage
        if odd := odd_figure(usage):
            model = response.model or self._model
            usage = cost.corrected(self._kernel, self._session_id, usage, odd, model, round_index=self._round)
        if usage.input_tokens == 0 and usage.output_tokens == 0:
            calls = sum(len(c.arguments) + len(c.name) for c in response.tool_calls)
            usage = estimated(self._window_tokens, len(response.text) + len(response.reasoning) + calls)
        elif not usage.calls:
            usage += Usage(calls=1)
        usage = self._priced(usage, response.model)
        if not response.tool_calls and not response.text.strip() and response.finish_reason != "length":
            self._paid = usage
            return LLMEmptyReplyError(f"the model returned nothing (finish reason {response.finish_reason})")
        return response if usage is response.usage else _with_usage(response, usage)

    def _priced(self, usage: Usage, answered: str = "") -> Usage:
        if self._kernel.prices is None:
            return usage
        names = (answered, self._model)
        return cost.priced(self._kernel, self._session_id, usage, names, self._service, round_index=self._round)

    def _fail(self, outcome: Stopped | TimedOut | Exception, duration: float) -> None:
        if isinstance(outcome, Stopped):
            code, message = "cancelled", outcome.reason
        elif isinstance(outcome, TimedOut):
            code, message = LLMTimeout.code, "no reply in time"
        else:
            code, message = code_of(outcome), str(outcome)
        usage = self._paid
        if usage is None:
            spent = self._shown > 0 or isinstance(outcome, Stopped | TimedOut | LLMEmptyReplyError)
            usage = self._priced(estimated(self._window_tokens, self._shown)) if spent else Usage(calls=1)
        self._failures.append(AttemptFailed(self._round, self._attempt, code, message[:500], usage, self._model))
        self._done(duration, usage, code)
        if self._shown:
            self._emit(AgentEventType.ATTEMPT_DISCARDED, self._call_id, self._shown)

    def _done(self, duration: float, usage: Usage, code: str | None) -> None:
        if not self._kernel.bus.wanted:
            return
        self._emit(
            AgentEventType.LLM_CALL_COMPLETED,
            self._call_id,
            self._attempt,
            self._model,
            duration,
            code is None,
            usage,
            code,
        )

    def _emit(self, kind: AgentEventType, *args: object) -> None:
        if kind in self._kernel.bus.wanted:
            self._kernel.emit(self._session_id, kind, *args, round_index=self._round)


_DELTAS = frozenset(
    {AgentEventType.STREAM_DELTA, AgentEventType.STREAM_THINK_DELTA, AgentEventType.TOOL_ARGUMENTS_DELTA}
)


def _a_response(value: object, service: object, rule: str) -> LLMResponse:
    """The value if it is a response; another one is a fault of the service that no retry mends."""
    if isinstance(value, LLMResponse):
        return value
    raise ConfigError(f"{type(service).__name__}: {rule} an LLMResponse, not {type(value).__name__}")


def code_of(error: BaseException) -> str:
    """The frozen code of our errors, the class name of others."""
    return error.code if isinstance(error, LoopwrightError) else type(error).__name__


def _with_usage(response: LLMResponse, usage: Usage) -> LLMResponse:
    return LLMResponse(
        text=response.text,
        reasoning=response.reasoning,
        tool_calls=response.tool_calls,
        finish_reason=response.finish_reason,
        usage=usage,
        provider_state=response.provider_state,
        model=response.model,
        response_id=response.response_id,
    )
