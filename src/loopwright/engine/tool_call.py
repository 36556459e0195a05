"""One tool call, from its arguments to its durable result.

Owns: the order validate → permission → intent → handler → result, and the tool boundary, where any failure of a
handler becomes an answer for the model. Must not know: the other calls of the batch.
Read next: `tool_batch.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.calls import CutOff, approval_refusal, arguments_of, as_content, idempotency_key, text_of
from ..core.state import OpenCall
from ..late import Late
from ..model.call_errors import OnCommitError, ToolValidationError
from ..model.errors import LoopwrightError, SessionFencedError, ToolNotFound, UsageError
from ..model.event_types import AgentEventType
from ..model.messages import content_text
from ..model.records import (
    Record,
    ResultStatus,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
)
from ..ports.hook import HookDirective, HookPoint, ToolAfterContext, ToolBeforeContext, ToolErrorContext
from ..ports.store import Op, RunInside
from ..ports.tool import (
    InputNeeded,
    ToolDefinition,
    ToolHandlerResult,
    WaitNeeded,
)
from ..ports.tools_sought import ToolsSought
from ..ports.transaction_work import OnCommit
from ..prompts import prompt
from .handler_context import CallMustAsk, CallMustWait, HandlerContext, Left, leaving_in
from .leaving import LEAVING, refused
from .outputs import kept_data, within_limit
from .result_hooks import after_hooks, is_failed
from .running import RunContext
from .stopping import Stopped, TimedOut, Won, race
from .threads import in_thread

if TYPE_CHECKING:
    from ..core import approvals, unseen
    from . import (
        background_calls,
        call_waits,
        found_tools,
        permits,
        session_lists,
        tool_attempts,
        tool_slots,
        uncertain,
    )
    from .children import CallChildren
else:
    approvals = Late("loopwright.core.approvals")
    permits = Late("loopwright.engine.permits")
    background_calls = Late("loopwright.engine.background_calls")
    call_waits = Late("loopwright.engine.call_waits")
    found_tools = Late("loopwright.engine.found_tools")
    session_lists = Late("loopwright.engine.session_lists")
    tool_attempts = Late("loopwright.engine.tool_attempts")
    tool_slots = Late("loopwright.engine.tool_slots")
    uncertain = Late("loopwright.engine.uncertain")
    unseen = Late("loopwright.core.unseen")


class ToolRun:
    """One call on its way; an object because its steps share the tool, the arguments and the key."""

    def __init__(self, run: RunContext, call: OpenCall) -> None:
        self.run_context = run
        self.call = call
        self.name = call.call.name
        self.arguments: dict[str, Any] = {}
        self.key = idempotency_key(run.session_id, call.position, call.index, call.path)
        self.tool: ToolDefinition | None = None
        self.intent: ToolStarted | None = None
        self.decided: list[Record] = []
        """What permissions said, to be stored with what comes next of the call."""
        self.granted: Record | None = None
        """What a person allowed, for a session that does the work of the call."""
        self.began = 0.0
        self.broke = False
        """A hook asked to skip what has not started yet."""
        self.held = False
        """Only the host can answer this call."""
        self.threaded = False
        """The handler runs in a thread, which nothing can stop."""
        self.inside = False
        """The handler was called and has not returned."""
        self.limit_s: float | None = None
        """What the handler may take, where somebody else than the tool and the loop says."""
        self.attempts = 1
        """Calls of its handler so far, where its tool declares more than one."""
        self.spawned: CallChildren | None = None
        """What its handler did with children."""

    async def run(self) -> None:
        """Answers the call durably, or leaves it open: held for the host, or waiting for a person.

        Raises only what ends the run: `HookFailedError`, `SessionFencedError`, store errors.
        """
        self.began = self.run_context.kernel.ambient.monotonic()
        started = self.call.started
        if started is not None and started.effect == "once":
            return await uncertain.settle(self, started)
        try:
            self.arguments = arguments_of(self.call.call, self.run_context.send.finish_reason)
            self.tool = self.run_context.tool(self.name)
        except CutOff:
            return await self.answer("invalid", prompt("cut_arguments"))
        except (ValueError, ToolNotFound) as error:
            return await self.answer("invalid", str(error))
        permissions = self.run_context.kernel.permissions
        if self.tool.handler is None:
            self.held = permissions is None or await permits.permitted(self, permissions)
            return None
        if self.call.answered and (edited := approvals.edited(self.call)) is not None:
            self.arguments = edited
        if (why := self._problem()) is not None:
            return await self.answer("invalid", why)
        if not await self._allowed():
            return None
        if permissions is not None and not await permits.permitted(self, permissions):
            return None
        tool = self.tool
        if tool.background and background_calls.goes_beside(self):
            return await background_calls.begin(self)
        if tool.max_parallel is not None:
            return await tool_slots.in_slot(self, tool.max_parallel)
        return await self.execute()

    def _problem(self) -> str | None:
        problem = self.run_context.tools.problems(self.name, self.arguments)
        if problem is None:
            return None
        told = str(ToolValidationError(self.name, problem))
        return found_tools.with_definition(told, self.tool) if self.tool is not None and self.tool.deferred else told

    async def _allowed(self) -> bool:
        """Asks the hooks; True when the handler may run. Also on resume: a hook sees every run of a tool."""
        run, call = self.run_context, self.call
        if not run.kernel.hooks.has(HookPoint.TOOL_BEFORE):
            return await self._approved(judged_here=False)
        context = ToolBeforeContext(
            session_id=run.session_id,
            round_index=run.round,
            tool_call=call.call,
            tool_name=self.name,
            arguments=self.arguments,
            idempotency_key=self.key,
            answer=approvals.heard_by_hooks(call) if call.answered else None,
            answered=call.answered,
        )
        await run.kernel.hooked(HookPoint.TOOL_BEFORE, context)
        if context.question is not None and not call.answered:
            await call_waits.ask(
                self, InputNeeded(context.question, "approval", context.options, None, {"arguments": context.arguments})
            )
            return False
        if context.directive in (HookDirective.SKIP, HookDirective.BREAK):
            said = approvals.message(call) if call.answered else ""
            text = context.output or f"the call of {self.name} was not permitted"
            await self.answer("refused", f"{text}: {said}" if said and said not in text else text)
            return False
        if not await self._approved(judged_here=True):
            return False
        changed = context.tool_name != self.name or context.arguments != self.arguments
        self.arguments = context.arguments
        if context.tool_name != self.name:
            self.name = context.tool_name
            try:
                self.tool = run.tool(self.name)
            except ToolNotFound as error:
                await self.answer("invalid", str(error))
                return False
        if changed and (why := self._problem()) is not None:
            await self.answer("invalid", why)
            return False
        return True

    async def _approved(self, *, judged_here: bool) -> bool:
        """The engine's own word on what a person answered, after the hooks had theirs."""
        why = approval_refusal(self.call, judged_here=judged_here)
        if why is not None:
            await self.answer("refused", why)
        return why is None

    async def execute(self) -> None:
        """Runs the handler and answers the call, or leaves it open: it was permitted and need not wait for anything."""
        run, tool = self.run_context, self.tool
        assert tool is not None
        self.intent = ToolStarted(self.call.call.id, self.name, self.arguments, tool.effect, self.key)
        if tool.effect == "once":
            await run.journal.alone(self.riders())
            self.intent = None
            self.decided = []
        await run.assure_lease()
        run.emit(AgentEventType.TOOL_CALL_STARTED, self.call.call.id, self.name, self.arguments)
        limit = self.limit_s or tool.timeout_s or run.kernel.config.tool_timeout_s
        tries, last = None, False
        if tool.retry is not None and tool.effect != "once":
            tries = tool_attempts.Attempts(self, tool.retry, limit)
        while True:
            context = HandlerContext(run, self.call, self.name, self.key, tool.effect)
            try:
                run.kernel.ambient.reach(f"tool.before:{self.name}")
                raced = await race(
                    self._call(tool, context),
                    run.token,
                    run.kernel.deadlines,
                    timeout_s=limit if tries is None else tries.left_s(),
                    grace_s=run.kernel.config.stop_grace_s,
                )
                run.kernel.ambient.reach(f"tool.after:{self.name}")
            except SessionFencedError:
                raise
            except asyncio.CancelledError:
                self._cut_off(context)
                raise
            except Exception as error:  # noqa: BLE001 - the tool boundary: any failure is an answer for the model
                context.drop()
                if tries is not None and await tries.again(error):
                    continue
                if await self.failed(error, last=last):
                    return None
                last = True
                continue
            left = context.left()
            self.spawned = context.spawned
            if isinstance(raced, Won):
                try:
                    return await self.returned(raced.value, left)
                finally:
                    context.drop()
            context.drop()
            context.cancellation.cancel("the call was stopped")
            return await self._left(raced, limit)

    async def _call(self, tool: ToolDefinition, context: HandlerContext) -> Any:
        handler = tool.handler
        assert handler is not None
        task = asyncio.current_task()
        self.inside = True
        try:
            if not tool.is_async:
                self.threaded = True
                return await in_thread(lambda: handler(self.arguments, context))
            value = handler(self.arguments, context)
            return await value if inspect.isawaitable(value) else value
        except (CallMustWait, CallMustAsk) as waiting:
            return waiting
        except BaseExceptionGroup as several:
            return leaving_in(several)
        except LEAVING as leaving:
            raise refused(leaving, "the handler", task) from leaving
        finally:
            self.inside = False

    async def returned(self, value: Any, left: Left = ((), (), None)) -> None:
        """Stores what a handler, or whoever speaks for it, returned."""
        works, written, timed = left
        if isinstance(value, InputNeeded):
            if works or written or timed:
                what = "used on_commit" if works else "wrote to notes, the todo list or timers"
                both = UsageError(f"{self.name} asked a person and {what}; it can have only one of them")
                await self.failed(both, last=True)
                return None
            return await call_waits.ask(self, value)
        if isinstance(value, WaitNeeded):
            return await call_waits.wait_for(self, value, bool(works or written or timed))
        if isinstance(value, CallMustWait):
            return await call_waits.wait(self, value.waits)
        if isinstance(value, CallMustAsk):
            return await call_waits.ask_for_handler(self, value.needed)
        if isinstance(value, ToolsSought):
            return await found_tools.answer(self, value)
        status: ResultStatus = "finished"
        data: Any = None
        if isinstance(value, ToolHandlerResult):
            status, value, data = "finished" if value.ok else "failed", value.content, value.data
        content = as_content(value)
        if not isinstance(content, str):
            # The call was made: what came of it stays, and the model learns that a part of it is missing.
            content, is_whole = unseen.usable(content)
            status = status if is_whole else "failed"
        try:
            ops = () if timed is None else timed.close()
            await self.answer(status, content, data=data, also=written, works=works, ops=ops)
        except OnCommitError as error:
            await self.failed(error, last=True)
        else:
            if written:
                session_lists.announce(self.run_context, written)
            if timed is not None:
                timed.announce()
        return None

    async def failed(self, error: Exception, *, last: bool) -> bool:
        """The handler raised; False when a hook wants it called once more."""
        run = self.run_context
        text = str(error) if isinstance(error, LoopwrightError) else f"{type(error).__name__}: {text_of(error)}"
        if self.attempts > 1:
            text = f"{text} (tried {self.attempts} times)"
        if run.kernel.hooks.has(HookPoint.TOOL_ERROR):
            context = ToolErrorContext(
                session_id=run.session_id,
                round_index=run.round,
                tool_call=self.call.call,
                tool_name=self.name,
                arguments=self.arguments,
                error=error,
            )
            await run.kernel.hooks.run(HookPoint.TOOL_ERROR, context)
            if context.directive is HookDirective.SHORT_CIRCUIT and not last:
                return False
            if context.directive is HookDirective.SKIP:
                await self.answer("finished", context.output)
                return True
        await self.answer("failed", text or type(error).__name__)
        return True

    def _cut_off(self, context: HandlerContext) -> None:
        """The run ends for another reason, such as a call beside this one: a handler that goes on is told, and noted."""
        run = self.run_context
        context.drop()
        context.cancellation.cancel("the run ended")
        if self.threaded or self.inside:
            left = ToolAbandoned(self.call.call.id, self.name, "the handler did not stop in time")
            run.abandoned = (*run.abandoned, left)

    async def _left(self, raced: Stopped | TimedOut, limit_s: float) -> None:
        """The handler lost against a stop or its time limit."""
        assert self.tool is not None
        doubt = "" if self.tool.effect != "once" else "; it was running and may have had its effect"
        status: ResultStatus
        if isinstance(raced, Stopped):
            status = "uncertain" if doubt else "aborted"
            text = f"<aborted: {raced.reason}{doubt}>"
        else:
            status, text = "timed_out", f"<timed out after {limit_s:g} s{doubt}>"
        also: list[Record] = []
        if raced.abandoned or self.threaded:
            also.append(ToolAbandoned(self.call.call.id, self.name, "the handler did not stop in time"))
        await self.answer(status, text, also=also)

    def riders(self) -> list[Record]:
        """What goes into the commit of whatever is said next about the call."""
        return self.decided if self.intent is None else [*self.decided, self.intent]

    async def answer(
        self,
        status: ResultStatus,
        content: Any,
        *,
        data: Any = None,
        also: Sequence[Record] = (),
        works: tuple[OnCommit, ...] = (),
        ops: tuple[Op, ...] = (),
    ) -> None:
        """Makes the result durable, cut to its limit and with `ops` in its commit, after the hooks saw it.

        Raises `OnCommitError` when `works` failed: the call is as open as before.
        """
        content = as_content(content)  # hooks and handlers may hand in anything
        run = self.run_context
        if run.kernel.hooks.has(HookPoint.TOOL_AFTER):
            context = ToolAfterContext(
                session_id=run.session_id,
                round_index=run.round,
                tool_call=self.call.call,
                tool_name=self.name,
                arguments=self.arguments,
                output=content_text(content),
                failed=is_failed(status),
                content=content,
                data=data,
                source=None if self.tool is None else self.tool.source,
            )
            hooked = await after_hooks(run.kernel, context, status)
            status, content, data, self.broke = hooked.status, hooked.content, hooked.data, hooked.broke
        content, artifact_id = await within_limit(run.kernel, run.state, content, self.tool)
        finished = ToolFinished(
            self.call.call.id,
            self.name,
            status,
            content,
            data=await kept_data(run.kernel, run.session_id, data),
            key=self.key,
            artifact_id=artifact_id,
        )
        records: list[Record] = [*self.riders(), *also, finished]
        if self.spawned is not None:
            riders, dropped = self.spawned.riders()
            records, ops = [*riders, *records], (*ops, *dropped)
        if works:
            await run.journal.alone(records, RunInside(self.call.call.id, works), *ops)
        else:
            await run.journal.append(records, ops)
        if self.spawned is not None:
            self.spawned.forget()
        text = content_text(content)
        duration = run.kernel.ambient.monotonic() - self.began
        failed = is_failed(status)
        if failed:
            run.emit(AgentEventType.TOOL_CALL_FAILED, self.call.call.id, self.name, text)
        run.emit(
            AgentEventType.TOOL_CALL_COMPLETED,
            self.call.call.id,
            self.name,
            text,
            status,
            failed,
            duration,
        )
