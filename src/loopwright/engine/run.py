"""The loop. Read this first.

Owns: carrying out what `core/decide.py` decides, until a send ends or pauses. Must not know: how sends are admitted
(`admission.py`) or how anything is stored (`journal.py`).
What a run remembers beside the journal can be lost: kill it anywhere, build a new one over the same journal, it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from ..core.decide import (
    CallModel,
    Finish,
    FoldWindow,
    Idle,
    Limits,
    Pause,
    RunTools,
    Say,
    TakeInbox,
    TakeWakes,
    after_reply,
    decide,
)
from ..core.state import SendFacts, with_reply
from ..late import Late
from ..model.errors import (
    CancellationRequested,
    HookFailedError,
    InboxMovedError,
    LLMContextOverflowError,
    LLMError,
    LoopwrightError,
    RetryLaterError,
    SessionGoneError,
    StoreError,
)
from ..model.event_types import AgentEventType
from ..model.messages import UserMessage
from ..model.records import InputSource, Record, SendFinished, SendPaused, UserMessageAdded
from ..model.usage import NO_USAGE
from ..ports.settling import settled
from ..ports.store import Op, TakeItems
from .journal import check_kept
from .model_turn import ModelTurn, Reply, TurnFailed, TurnSkipped, TurnStopped
from .running import RunContext, said

if TYPE_CHECKING:
    from .. import prompts
    from ..core import calls
    from ..core import result as results
    from ..core.result import StatefulResult
    from ..ports import hook
    from . import children, counting, epochs, folding, found_tools, tool_batch, wakes
else:
    calls = Late("loopwright.core.calls")
    results = Late("loopwright.core.result")
    hook = Late("loopwright.ports.hook")
    prompts = Late("loopwright.prompts")
    children = Late("loopwright.engine.children")
    counting = Late("loopwright.engine.counting")
    epochs = Late("loopwright.engine.epochs")
    folding = Late("loopwright.engine.folding")
    found_tools = Late("loopwright.engine.found_tools")
    tool_batch = Late("loopwright.engine.tool_batch")
    wakes = Late("loopwright.engine.wakes")


LONGEST_REASON = 10_000
"""Characters kept of the text of an error that ends a send."""


class Run:
    """One run of the open send of a session, by whoever has the session's turn."""

    def __init__(self, context: RunContext, *, resumed: bool = False) -> None:
        self.context = context
        self.journal = context.journal
        self.kernel = context.kernel
        self.resumed = resumed
        self.held: frozenset[str] = frozenset()
        self.error: BaseException | None = None

    async def run(self) -> StatefulResult:
        """Steps until the send ends or pauses.

        Raises: `SessionFencedError`, `StoreUnavailableError` and other store errors, because then nothing can be
        written any more; everything else that goes wrong is an outcome. Cancel: open calls are answered, the send
        ends as cancelled, then the cancellation goes on.
        """
        context = self.context
        context.emit(AgentEventType.RUN_STARTED, context.send.start.index, self.resumed)
        try:
            cancellation = await self._to_an_end()
        except LoopwrightError as error:
            self.journal.actor.forget()
            context.emit(AgentEventType.AGENT_ERROR, error.code, str(error))
            context.emit(AgentEventType.RUN_ENDED, "failed", "", context.round, NO_USAGE, error.code)
            raise
        result = results.result_of(context.state, self.error)
        await self._ended(result)
        if cancellation is not None:
            raise cancellation
        return result

    async def _to_an_end(self) -> asyncio.CancelledError | None:
        """Steps until the send ends or pauses, turning whatever goes wrong into its outcome."""
        context = self.context
        try:
            await self._steps()
        except CancellationRequested as stop:
            ending = Finish("cancelled", context.send.answer, None, stop.code, None, stop.reason)
        except asyncio.CancelledError as cancelled:
            reason = "the caller's task was cancelled"
            await settled(self._end_early(Finish("cancelled", "", None, CancellationRequested.code, None, reason)))
            return cancelled
        except (StoreError, RetryLaterError, SessionGoneError):
            raise
        except Exception as error:  # noqa: BLE001 - the top of a run: whatever it is becomes the outcome
            self.error = error
            code = error.code if isinstance(error, LoopwrightError) else type(error).__name__
            why = calls.text_of(error)[:LONGEST_REASON]
            context.emit(AgentEventType.AGENT_ERROR, code, why)
            ending = Finish("failed", "", None, code, None, why)
        else:
            return None
        _, cancellation = await settled(self._end_early(ending))
        return cancellation

    async def _steps(self) -> None:
        context, limits = self.context, self.kernel.limits
        if await self._started():
            return
        while True:
            if context.token.cancelled:
                raise CancellationRequested(context.token.reason)
            if self.journal.actor.folded is not None and not context.state.batch:
                await folding.take_offered(self.journal)
            step = decide(context.state, limits, inbox_waiting=self.journal.inbox_waiting, held=self.held)
            match step:
                case CallModel():
                    await self._call_model(step, limits)
                case FoldWindow():
                    await folding.fold_now(context, step.plan)
                case RunTools():
                    context.round = context.send.rounds
                    batch = await tool_batch.run_batch(context, step.calls)
                    self.held |= batch.held
                    if batch.ended:
                        left = calls.aborted(context.state, "a hook ended the send")
                        await self._finish(Finish("completed", context.send.answer), also=left)
                    elif not context.state.batch:
                        if self.journal.unheard is not None:
                            self.journal.actor.inbox_seen, self.journal.unheard = self.journal.unheard, None
                        await self._round_ended(had_tools=True)
                case TakeWakes():
                    await wakes.take(context)
                case TakeInbox():
                    await self._take_inbox()
                case Say():
                    await self._say(step)
                case Pause():
                    await self._pause(step)
                case Finish():
                    await self._finish(step)
                case Idle():
                    return
                case _:
                    assert_never(step)
            if context.state.active is None or context.send.paused:
                return

    async def _started(self) -> bool:
        """Start hooks; True when one of them ended the send."""
        context, hooks = self.context, self.kernel.hooks
        if not hooks.in_use or not hooks.has(hook.HookPoint.SESSION_START):
            return False
        start = hook.SessionStartContext(
            session_id=context.session_id,
            send_index=context.send.start.index,
            resumed=self.resumed,
            messages=context.window(),
        )
        await hooks.run(hook.HookPoint.SESSION_START, start)
        if start.directive is not hook.HookDirective.BREAK:
            return False
        await self._finish(Finish("completed", context.send.answer))
        return context.state.active is None

    async def _call_model(self, step: CallModel, limits: Limits) -> None:
        context, hooks = self.context, self.kernel.hooks
        context.round = step.round
        if (family := context.state.facts.family) is not None and family.handed:
            if records := await epochs.started(self.kernel, context.state, context.send.start, context.tools):
                await self.journal.commit(records)
            context.narrow()
        if (control := context.state.facts.control) is not None and control.revealed:
            await found_tools.list_found(context)
        turn, start = ModelTurn(context, step), context.send.start
        budget = start.context_budget_tokens
        if budget is not None and await counting.too_long(context, budget, turn.request):
            return
        if hooks.in_use and hooks.has(hook.HookPoint.ROUND_START):
            starting = hook.RoundContext(
                session_id=context.session_id, round_index=step.round, messages=context.window()
            )
            await hooks.run(hook.HookPoint.ROUND_START, starting)
            if starting.directive is hook.HookDirective.BREAK:
                await self._finish(Finish("completed", context.send.answer))
                return
        context.emit(AgentEventType.ROUND_STARTED, start.max_rounds)
        reply = await turn.take()
        if isinstance(reply, TurnSkipped):
            await self._finish(Finish("completed", context.send.answer))
        elif isinstance(reply, TurnStopped):
            await self._end_early(
                Finish("cancelled", context.send.answer, None, "cancelled", None, reply.reason), also=reply.records
            )
        elif isinstance(reply, TurnFailed):
            await self._turn_failed(reply)
        else:
            await self._store_reply(reply, limits)

    async def _turn_failed(self, failed: TurnFailed) -> None:
        context = self.context
        if isinstance(failed.error, LLMContextOverflowError) and folding.can_help(context):
            await self.journal.commit(failed.records)  # from which `decide` knows that a fold has to be made
            return
        self.error = failed.error
        # Notes tell of the models that were asked before.
        code, text = failed.code, " ".join([*getattr(failed.error, "__notes__", ()), str(failed.error)])
        if failed.outcome == "degraded":
            context.emit(AgentEventType.LLM_DEGRADED, failed.attempts, code, text)
            final = f"[degraded: {text}]"
        else:
            context.emit(AgentEventType.AGENT_ERROR, code, text)
            final = context.send.answer
        await self._finish(Finish(failed.outcome, final, None, code, None, text), also=failed.records)

    async def _store_reply(self, reply: Reply, limits: Limits) -> None:
        """Commits a reply; when it is the answer, in one commit with the end of the send."""
        context = self.context
        added = reply.added
        if added is None:
            await self._cut_while_thinking(reply)
            return
        if added.message.tool_calls:
            await self.journal.commit([*reply.records, added])
            return
        ahead = with_reply(context.send, added)
        step = after_reply(ahead, limits, inbox_waiting=self.journal.inbox_waiting)
        if isinstance(step, Finish) and not (step.outcome == "completed" and self._vetoable()):
            await self._finish(step, also=[*reply.records, added], ahead=ahead)
        else:
            # A completion hook may take long: what was paid for is stored before it is asked.
            await self.journal.commit([*reply.records, added])
        await self._round_ended(had_tools=False)

    async def _cut_while_thinking(self, reply: Reply) -> None:
        """The model spent its whole output on reasoning: asked again with other words, as often as a cut text is."""
        send = self.context.send
        if send.continuations < self.kernel.config.max_continuations:
            await self.journal.commit([*reply.records, self._message("continue", "")])
            return
        text = "the model reached the output limit while thinking; raise max_output_tokens"
        self.error = LLMError(text)
        await self._finish(
            Finish("degraded", f"[degraded: {text}]", None, LLMError.code, None, text), also=reply.records
        )

    def _vetoable(self) -> bool:
        """True when a completion hook may send the model back to work."""
        hooks = self.kernel.hooks
        if not hooks.in_use or not hooks.has(hook.HookPoint.COMPLETION):
            return False
        return self.context.send.vetoes < self.kernel.config.max_completion_vetoes

    async def _veto(self, final_text: str) -> UserMessageAdded | None:
        """What a completion hook says to the model instead of letting the send end; None lets it end."""
        completion = hook.CompletionContext(
            session_id=self.context.session_id, round_index=self.context.round, final_text=final_text
        )
        await self.kernel.hooks.run(hook.HookPoint.COMPLETION, completion)
        if completion.directive is not hook.HookDirective.SKIP:
            return None
        return UserMessageAdded(
            UserMessage(calls.text_of(completion.message) if completion.message else prompts.prompt("veto")), "veto"
        )

    async def _take_inbox(self) -> None:
        """Turns waiting items into one user message each, in the commit that takes them."""
        items = await self.journal.waiting()
        if (stop := self.journal.stop_among(items)) is not None:
            raise CancellationRequested(stop)
        if not items:
            return
        records = await said(self.kernel, self.context.state, items)
        ids = tuple([i.item_id for i in items])
        # Not progress: a session that kills its process is found out even when somebody keeps talking to it.
        await self.journal.commit(records, ops=(TakeItems(ids),), progress=False)
        self.journal.actor.inbox_seen = max(self.journal.actor.inbox_seen, items[-1].seq)
        self.context.emit(AgentEventType.INBOX_DELIVERED, ids)

    def _message(self, source: InputSource, detail: str) -> UserMessageAdded:
        return UserMessageAdded(UserMessage(prompts.prompt(source).replace("{detail}", detail)), source)

    async def _say(self, step: Say) -> None:
        await self.journal.commit([self._message(step.source, step.detail)])

    async def _pause(self, step: Pause) -> None:
        """Gives the lease back until somebody answers, or what a call waits for has happened."""
        state = self.context.state
        outside = any(call.waits is not None for call in state.batch)
        ops = wakes.told(self.journal, step.outcome, "", NO_USAGE) if state.facts.family is not None else ()
        try:
            await self.journal.commit([SendPaused(step.outcome)], sync=True, release=True, quiet_inbox=outside, ops=ops)
        except InboxMovedError:
            await self.journal.load(fresh=True)

    async def _finish(
        self,
        step: Finish,
        *,
        also: Sequence[Record] = (),
        ahead: SendFacts | None = None,
        ops: tuple[Op, ...] = (),
    ) -> None:
        """Ends the send and gives the lease back, unless something arrived for it in the meantime.

        `also` and `ops` go into the same commit; `ahead` are the facts after it, when it holds the reply that was judged.
        """
        context = self.context
        completing = ahead is None and step.outcome == "completed" and not also and context.send.replied
        if completing and self._vetoable() and (veto := await self._veto(step.final_text)) is not None:
            await self.journal.commit([veto])
            return
        ahead = ahead or context.send
        finished = SendFinished(
            outcome=step.outcome,
            final_text=None if step.final_text == ahead.answer else step.final_text,
            rounds=ahead.rounds,
            output=step.output,
            error_code=step.error_code,
            error_reason=step.error_reason,
            error_message=step.error_message,
        )
        completed = step.outcome == "completed"
        ops = (*ops, *self.journal.stops_taken())
        left: list[Record] = []
        if context.state.facts.family is not None:
            left, stops = children.left_behind(context.state, step.outcome, self.kernel.ambient.now())
            also, ops = [*also, *left], (*ops, *stops)
            ops = (*ops, *wakes.told(self.journal, step.outcome, step.final_text, ahead.usage))
        try:
            await self.journal.commit([*also, finished], sync=True, release=True, quiet_inbox=completed, ops=ops)
        except InboxMovedError:
            await self.journal.load(fresh=True)
            if also:
                await self.journal.commit(also)
            return
        if left:
            children.left(context, left, ops)

    async def _end_early(self, step: Finish, also: Sequence[Record] = ()) -> None:
        """Ends a send wherever it is: open calls are answered first, so that the session stays sendable."""
        context = self.context
        check_kept(self.journal)
        if self.journal.actor.state is None:
            await self.journal.load()
        if context.state.active is None:
            return
        self.journal.kernel.ambient.reach("end_early")
        if step.outcome == "cancelled":
            context.emit(AgentEventType.LOOP_CANCELLED, step.error_message or "")
            if self.journal.inbox_waiting:
                self.journal.stop_among(await self.journal.waiting())  # taken with the end of the send
        timers = wakes.timers_of(context.state) if any(call.waits for call in context.state.batch) else ()
        aborted = calls.aborted(context.state, step.error_message or step.outcome)
        await self._finish(step, also=[*also, *context.abandoned, *aborted], ops=timers)

    async def _round_ended(self, *, had_tools: bool) -> None:
        context = self.context
        context.emit(AgentEventType.ROUND_COMPLETED, had_tools)
        hooks = self.kernel.hooks
        if hooks.in_use and hooks.has(hook.HookPoint.ROUND_END):
            ended = hook.RoundContext(
                session_id=context.session_id,
                round_index=context.round,
                messages=context.window(),
                had_tools=had_tools,
                text=context.send.answer,
            )
            await self._told(hook.HookPoint.ROUND_END, ended)

    async def _told(self, point: hook.HookPoint, hook_context: hook.RoundContext | hook.SessionEndContext) -> None:
        """Runs hooks that only look on; when the outcome is durable it is too late to fail it."""
        try:
            await self.kernel.hooks.run(point, hook_context)
        except HookFailedError as error:
            send = self.context.state.active
            if send is not None and not send.paused:
                raise
            self.context.note(str(error))

    async def _ended(self, result: StatefulResult) -> None:
        context = self.context
        try:
            hooks = self.kernel.hooks
            if hooks.in_use and hooks.has(hook.HookPoint.SESSION_END):
                ended = hook.SessionEndContext(
                    session_id=context.session_id, outcome=result.status, final_text=result.final_text
                )
                await self._told(hook.HookPoint.SESSION_END, ended)
        finally:  # a cancellation in a hook included: who saw the run start sees it end
            context.emit(
                AgentEventType.RUN_ENDED,
                result.status,
                result.final_text,
                result.rounds,
                result.usage,
                result.error_code,
            )
