"""One turn of the model: request from the window, hooks around the call, reply as a record.

Owns: what a request consists of and what of a reply is kept. Must not know: attempts (`model_call.py`), commits.
Read next: `model_call.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..config import has_cost_budget
from ..core.decide import CallModel
from ..late import Late
from ..model.errors import HookFailedError
from ..model.event_types import AgentEventType
from ..model.messages import AssistantMessage, Message, TextPart
from ..model.records import AssistantMessageAdded, AttemptFailed, Outcome, Record
from ..ports.llm import LLMRequest, LLMResponse
from .model_call import CallStopped, ModelCall, NoReply, code_of
from .running import RunContext, base_prompt

if TYPE_CHECKING:
    from ..core import calls, pairing
    from ..model import call_errors
    from ..ports import hook
    from . import counting, money, prefix_report, tail
else:
    calls = Late("loopwright.core.calls")
    pairing = Late("loopwright.core.pairing")
    call_errors = Late("loopwright.model.call_errors")
    hook = Late("loopwright.ports.hook")
    counting = Late("loopwright.engine.counting")
    money = Late("loopwright.engine.money")
    prefix_report = Late("loopwright.engine.prefix_report")
    tail = Late("loopwright.engine.tail")

NO_SUMMARY = "(no summary was given)"


class Reply(Struct, frozen=True):
    """The model answered; `records` are the failed attempts before it, what it teaches about token counts, and what became
    of money that was reserved."""

    added: AssistantMessageAdded | None
    records: tuple[Record, ...] = ()
    cut_while_thinking: bool = False
    """Nothing but reasoning came before the output limit: there is nothing to store but what it cost."""


class TurnSkipped(Struct, frozen=True):
    """A hook ended the send instead of a call."""


class TurnFailed(Struct, frozen=True):
    """No reply: the send ends with `outcome`."""

    error: BaseException
    code: str
    outcome: Outcome
    attempts: int
    records: tuple[Record, ...]


class TurnStopped(Struct, frozen=True):
    """The run was stopped during the call."""

    reason: str
    records: tuple[Record, ...]


class ModelTurn:
    """One turn; an object because hooks may change the request and the reply between its steps."""

    def __init__(self, run: RunContext, step: CallModel) -> None:
        self.run = run
        self.step = step

    async def take(self) -> Reply | TurnSkipped | TurnFailed | TurnStopped:
        """Asks the model. Raises `HookFailedError`, also for an edited window that is not valid, `SessionFencedError`."""
        run = self.run
        await run.assure_lease()
        request = self.request()
        window = request.messages
        given: LLMResponse | None = None
        hooks = run.kernel.hooks
        if hooks.in_use and hooks.has(hook.HookPoint.LLM_BEFORE):
            request, given, skipped = await self._hooked(request)
            if skipped:
                return TurnSkipped()
        if given is not None:
            return await self._reply(given, ())
        edited = request.messages is not window
        state, given_context = run.state, run.kernel.context
        facts = state.facts.context
        if (given_context is not None and given_context.memory) or (facts is not None and (facts.notes or facts.todo)):
            request = await tail.with_tail(run, request)  # something may be said behind the window
        asked = request
        if state.has_parts or edited:  # a hook may have put parts in
            request = await run.attachments.filled(request)
        family = run.state.facts.family
        shared = family is not None and bool(family.accounts)
        own = has_cost_budget(run.kernel.config) or run.send.start.run_cost_budget
        if run.kernel.prices is None or not (own or shared):
            return await self._asked(asked, request)
        return await money.within_budgets(run, request, functools.partial(self._asked, asked, request))

    async def _asked(self, asked: LLMRequest, request: LLMRequest) -> Reply | TurnFailed | TurnStopped:
        """The call itself, and what is to be told and learned of `asked`; `request` is that with the bytes of its parts."""
        run, state = self.run, self.run.state
        context = state.facts.context
        call = ModelCall(
            run.kernel,
            run.session_id,
            request,
            round_index=self.step.round,
            window_tokens=state.tokens + (0 if context is None else context.epoch_tokens),
            place=run.model_place,
        )
        outcome = await call.run(run.token)
        run.model_place = call.place
        if isinstance(outcome, CallStopped):
            return TurnStopped(outcome.reason, outcome.failures)
        if isinstance(outcome, NoReply):
            kind: Outcome = "degraded" if outcome.degraded else "failed"
            return TurnFailed(outcome.error, code_of(outcome.error), kind, outcome.attempts, outcome.failures)
        if AgentEventType.PROMPT_PREFIX in run.kernel.bus.wanted:
            prefix_report.told(run, asked, outcome.response)
        else:
            run.journal.actor.sent = None  # who asks later must not compare with an older one
        budget = run.send.start.context_budget_tokens
        reply = await self._reply(outcome.response, outcome.failures)
        if budget is None or not isinstance(reply, Reply):
            return reply
        news = counting.learned(run, budget, asked, outcome.response)
        return reply if news is None else msgspec.structs.replace(reply, records=(*reply.records, news))

    def request(self) -> LLMRequest:
        """The request as it is before hooks see it."""
        run, state = self.run, self.run.state
        send, config, context = run.send.start, run.kernel.config, state.facts.context
        if context is not None and context.epoch is not None:
            prompt = context.epoch.instructions
        else:
            prompt = base_prompt(config, state, send.system_prompt)
        return LLMRequest(
            messages=run.window(),
            system_prompt=prompt,
            tools=run.specs(),
            tool_choice="none" if self.step.wrap_up else "auto",
            model=send.model,
            max_output_tokens=send.max_output_tokens,
            temperature=config.temperature if state.facts.family is None else run.temperature,
            response_format=send.output,
            cache_key=run.session_id,
        )

    async def _hooked(self, request: LLMRequest) -> tuple[LLMRequest, LLMResponse | None, bool]:
        run = self.run
        window = run.window()
        context = hook.LLMBeforeContext(
            session_id=run.session_id,
            round_index=self.step.round,
            messages=list(window),
            system_prompt=request.system_prompt,
            tools=list(run.specs()),
            model=request.model,
            max_output_tokens=request.max_output_tokens,
            temperature=request.temperature,
        )
        await run.kernel.hooks.run(hook.HookPoint.LLM_BEFORE, context)
        if context.directive is hook.HookDirective.BREAK:
            return request, None, True
        if context.directive is hook.HookDirective.SHORT_CIRCUIT:
            if context.response is None:
                raise _hooks_fault("SHORT_CIRCUIT without a response")
            return request, context.response, False
        why = pairing.problem(context.messages)
        if why is not None:
            raise _hooks_fault(f"a window that providers refuse: {why}")
        messages = tuple(context.messages)
        edited = msgspec.structs.replace(
            request,
            messages=messages,
            stable=_stable(window, messages),
            system_prompt=context.system_prompt,
            tools=tuple(context.tools),
            model=context.model,
            max_output_tokens=context.max_output_tokens,
            temperature=context.temperature,
            extra=context.extra,
        )
        return edited, None, False

    async def _reply(self, response: LLMResponse, failures: tuple[AttemptFailed, ...]) -> Reply | TurnFailed:
        run, paid, number = self.run, response.usage, len(failures) + 1
        drop_calls = self.step.wrap_up
        hooks = run.kernel.hooks
        if hooks.in_use and hooks.has(hook.HookPoint.LLM_AFTER):
            context = hook.LLMAfterContext(session_id=run.session_id, round_index=self.step.round, response=response)
            try:
                await run.kernel.hooked(hook.HookPoint.LLM_AFTER, context)
            except (HookFailedError, call_errors.GuardrailBlockedError) as error:
                cost = AttemptFailed(self.step.round, number, error.code, str(error), paid, response.model)
                return TurnFailed(error, error.code, "failed", number, (*failures, cost))
            response = context.response
            drop_calls = drop_calls or context.directive is hook.HookDirective.BREAK
        if AgentEventType.USAGE_UPDATED in run.kernel.bus.wanted:
            run.emit(AgentEventType.USAGE_UPDATED, paid, run.send.usage + paid)
        if not response.tool_calls and not response.text.strip() and response.finish_reason == "length":
            cost = AttemptFailed(self.step.round, number, "llm.cut_while_thinking", "", paid, response.model)
            return Reply(None, (*failures, cost), cut_while_thinking=True)
        added = AssistantMessageAdded(
            message=_kept(response, drop_calls=drop_calls),
            round=self.step.round,
            finish_reason="stop" if drop_calls and response.tool_calls else response.finish_reason,
            usage=paid,
            model=response.model,
            wrap_up=self.step.wrap_up,
        )
        return Reply(added, failures)


def _stable(window: tuple[Message, ...], messages: tuple[Message, ...]) -> int | None:
    """What of an edited request the next one brings back: all up to the window's last message; None: whatever there is.

    A hook that changes something between is taken to do so each time.
    """
    if len(messages) <= len(window) or not window:
        return None
    if messages[: len(window)] == window:
        return len(window)
    last = next((i for i in range(len(messages) - 1, -1, -1) if messages[i] is window[-1]), len(messages) - 1)
    return last + 1 if last + 1 < len(messages) else None


def _hooks_fault(what: str) -> HookFailedError:
    point = hook.HookPoint.LLM_BEFORE
    return HookFailedError("among those registered", point.value, ValueError(what))


def _kept(response: LLMResponse, *, drop_calls: bool) -> AssistantMessage:
    """The reply as it is stored; without its calls it is no longer what the provider said, so its state goes too."""
    if not response.tool_calls:
        return response.message()
    if drop_calls:
        return AssistantMessage((TextPart(response.text.strip() or NO_SUMMARY),))
    kept = calls.bounded(response.tool_calls)
    if kept is not response.tool_calls:
        response = msgspec.structs.replace(response, provider_state=None)  # it holds the arguments as well
    return msgspec.structs.replace(response, tool_calls=calls.with_unique_ids(kept)).message()
