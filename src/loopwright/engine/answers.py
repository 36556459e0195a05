"""What people and hosts hand in from outside: answers, tool results, aborts, stops.

Owns: accepting each of them once, from any process, days later. Must not know: the steps of a run.
Read next: `admission.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core import control_state, questions
from ..core import family_state as state_of_family
from ..core.calls import as_content, idempotency_key
from ..core.result import StatefulResult, result_of
from ..core.state import OpenCall, State
from ..core.unseen import part_problem
from ..late import Late
from ..model.call_errors import InteractionError, ToolResultError
from ..model.codec import decode_record
from ..model.errors import InvalidMessageError, SessionBusyError
from ..model.messages import Content, content_text
from ..model.records import Interaction, QuestionAnswered, Record, ResultStatus, ToolFinished
from ..ports.store import InboxItem, Op
from ..ports.tool import ToolHandlerResult
from . import children, inspection, wakes
from .actor import ACTORS
from .admission import Admission
from .kernel import Kernel
from .outputs import kept_data, within_limit
from .turn import Begun, Turn, check_tools

if TYPE_CHECKING:
    from ..ports import hook
    from . import approving, result_hooks
else:
    approving = Late("loopwright.engine.approving")
    hook = Late("loopwright.ports.hook")
    result_hooks = Late("loopwright.engine.result_hooks")


class Answers:
    """The ways in for what a paused session waits for."""

    def __init__(self, kernel: Kernel, admission: Admission) -> None:
        self.kernel = kernel
        self.admission = admission

    async def submit_input(self, session_id: str, interaction_id: str, value: Any, by: str) -> StatefulResult:
        """Answers a question and goes on; see `StatefulAgentLoop.submit_input`."""
        if (child := await self._asked_below(session_id, interaction_id)) is not None:
            await self.submit_input(child, interaction_id, value, by)
            return await self._gone_on(session_id)

        async def accept(turn: Turn) -> None:
            await self._accept(turn, interaction_id, value, by)

        return await self._accept_and_run(session_id, accept)

    async def answer_input(self, session_id: str, interaction_id: str, value: Any, by: str) -> str:
        """Answers a question and runs nothing; see `StatefulAgentLoop.answer_input`."""
        state = await inspection.read_state(self.kernel.store, session_id)
        if (child := state_of_family.asked_below(state, interaction_id)) is not None:
            return await self.answer_input(child, interaction_id, value, by)

        async def accept(turn: Turn) -> str:
            await self._accept(turn, interaction_id, value, by, runs=False)
            return session_id

        return await self.admission.in_turn(session_id, accept)

    async def _accept(self, turn: Turn, interaction_id: str, value: Any, by: str, *, runs: bool = True) -> None:
        """Stores an answer, checked; `runs`: the session goes on here, so that its tools must be here, too."""
        await turn.journal.load(fresh=True)
        state = turn.journal.state
        call = self._asked(state, interaction_id)
        if call is None or call.question is None or not call.waits_for_person:
            raise await self._not_open(state.facts.session_id, interaction_id, state)
        granted: Sequence[Record] = ()
        if call.question.kind == "approval" and not control_state.runs_again(call):
            value, granted = await approving.read(turn, call, value, by)
        else:
            self._check(call.question, value)
        if (again := control_state.runs_again(call)) and (why := questions.size_problem(value)) is not None:
            raise InvalidMessageError(f"the answer to {interaction_id!r} is too large: {why}; the question stays open")
        again = again or call.question.kind == "approval"
        if runs:
            turn.check_tools(answered=frozenset() if again else frozenset([call.call.id]))
        data = await kept_data(self.kernel, state.facts.session_id, value)
        records: list[Record] = [QuestionAnswered(interaction_id, data, by), *granted]
        if not again:
            records.append(await self._finished(state, call, "answered", as_content(value), value))
        await turn.journal.commit(records, sync=True, release=not runs)

    async def submit_tool_results(self, session_id: str, results: Mapping[str, Any]) -> StatefulResult:
        """Answers calls that the host executed; see `StatefulAgentLoop.submit_tool_results`."""
        if not results:
            raise InvalidMessageError("submit_tool_results needs at least one result, by call id")

        async def accept(turn: Turn) -> None:
            await turn.journal.load(fresh=True)
            state = turn.journal.state
            turn.check_tools(answered=frozenset(results))
            calls = [self._open_call(session_id, state, call_id) for call_id in results]
            records: list[Record] = []
            for call, value in zip(calls, results.values(), strict=True):
                given = value if isinstance(value, ToolHandlerResult) else ToolHandlerResult(value)
                status: ResultStatus = "finished" if given.ok else "failed"
                content = _seen(call.call.id, as_content(given.content))
                records.append(await self._finished(turn.journal.state, call, status, content, given.data))
            await turn.journal.commit(records, sync=True)

        return await self._accept_and_run(session_id, accept)

    async def abort_pending(self, session_id: str, reason: str) -> int:
        """Answers open calls as aborted and ends the send; see `StatefulAgentLoop.abort_pending`."""

        below: tuple[Op, ...] = ()

        async def abort(turn: Turn) -> int:
            nonlocal below
            head = await turn.journal.load(fresh=True)
            state = turn.journal.state
            if state.active is None:
                return 0
            assert head is not None
            if head.owner not in (None, self.kernel.store.owner) and head.expires_in_s > 0:
                raise SessionBusyError(session_id, head.owner or "", head.expires_in_s)
            count = len(state.open_calls())
            records, ops = wakes.stopped(turn.journal, reason)
            await turn.journal.commit(records, sync=True, release=True, ops=ops)
            below = ops
            return count

        count = await self.admission.in_turn(session_id, abort)
        if below:
            await children.end_below(self.kernel, below)
        return count

    async def stop(self, session_id: str, reason: str, *, unbegun: bool = False) -> bool:
        """Stops the run of a session, wherever it runs; see `StatefulAgentLoop.stop`.

        `unbegun`: of a child or run that has not begun; whoever begins it ends it as cancelled.
        """
        kernel = self.kernel
        head = (await kernel.store.lookup(session_id)).head
        if head.status != "running" and not unbegun:
            actor = ACTORS.find(kernel.store.identity, session_id)
            if actor is None or (fold := actor.asked_fold) is None:
                return False
            fold.cancel(reason)
            return True
        # Durable first: a process that dies between the wish and the end of the run must not go on after all.
        item = InboxItem(kernel.ambient.new_id("stop"), "stop", reason.encode(), kernel.ambient.now())
        queued = await kernel.store.enqueue(session_id, item)
        actor = ACTORS.find(kernel.store.identity, session_id)
        if actor is not None and (token := actor.token) is not None:
            actor.inbox_seq = max(actor.inbox_seq, queued.inbox_seq)
            token.cancel(reason)
        return True

    async def _accept_and_run(self, session_id: str, accept: Callable[[Turn], Awaitable[None]]) -> StatefulResult:
        async def begin(turn: Turn) -> Begun:
            await accept(turn)
            return turn.run

        return await self.admission.run_after(session_id, begin)

    async def _asked_below(self, session_id: str, interaction_id: str) -> str | None:
        """The child that a call of this session waits for because of this question; None when it is the session's own.

        Raises `AgentUnavailableError` when the waiting call could not go on here: nothing is stored then.
        """
        state = await inspection.read_state(self.kernel.store, session_id)
        child = state_of_family.asked_below(state, interaction_id)
        if child is not None:
            check_tools(self.kernel, state, self.kernel.tools)
        return child

    async def _gone_on(self, session_id: str) -> StatefulResult:
        """The session's result after a child of it went on: it is run here, or somebody else who does is waited for."""
        while True:
            try:
                result = await self.admission.recover(session_id, wait_s=self.kernel.config.lease_ttl_s)
            except SessionBusyError:
                continue
            if result is not None:
                return result
            state = await inspection.read_state(self.kernel.store, session_id)
            return result_of(state)

    def _asked(self, state: State, interaction_id: str) -> OpenCall | None:
        for call in state.all_calls():
            if call.question is not None and call.question.id == interaction_id:
                return call
        return None

    async def _not_open(self, session_id: str, interaction_id: str, state: State) -> InteractionError:
        answered = False
        for row in await self.kernel.store.read(session_id):
            if row.kind == "question_answered":
                record = decode_record(row.kind, row.version, row.body)
                answered = answered or (
                    isinstance(record, QuestionAnswered) and record.interaction_id == interaction_id
                )
        open_ids = [c.question.id for c in state.all_calls() if c.waits_for_person and c.question is not None]
        return InteractionError(session_id, interaction_id, open_ids=open_ids, answered=answered)

    def _check(self, question: Interaction, value: Any) -> None:
        if (why := questions.answer_problem(question, value, self.kernel.limits.validate)) is not None:
            raise InvalidMessageError(f"the answer to {question.id!r} does not fit: {why}; the question stays open")

    def _open_call(self, session_id: str, state: State, call_id: str) -> OpenCall:
        """The call that the host may answer. Raises `ToolResultError`."""
        call = state.call(call_id)
        if call is None:
            known = ", ".join(c.call.id for c in state.open_calls()) or "none"
            raise ToolResultError(session_id, call_id, f"no such open call; open: {known}")
        if call.result is not None:
            raise ToolResultError(session_id, call_id, "it has its result already")
        if call.waits_for_person:
            raise ToolResultError(session_id, call_id, "it waits for a person; use submit_input()")
        return call

    async def _finished(
        self, state: State, call: OpenCall, status: ResultStatus, content: Content, data: Any
    ) -> ToolFinished:
        """The record of an answer from outside, cut like one of a handler."""
        tool = self.kernel.tools.get(call.call.name)
        session_id = state.facts.session_id
        if self.kernel.hooks.in_use and self.kernel.hooks.has(hook.HookPoint.TOOL_AFTER):
            context = hook.ToolAfterContext(
                session_id=session_id,
                round_index=0 if state.active is None else state.active.rounds,
                tool_call=call.call,
                tool_name=call.call.name,
                arguments=_arguments(call),
                output=content_text(content),
                failed=result_hooks.is_failed(status),
                content=content,
                data=data,
                source=None if tool is None else tool.source,
            )
            hooked = await result_hooks.after_hooks(self.kernel, context, status)
            status, content, data = hooked.status, hooked.content, hooked.data
        shown, artifact_id = await within_limit(self.kernel, state, content, tool)
        data = await kept_data(self.kernel, session_id, data)
        key = idempotency_key(session_id, call.position, call.index, call.path)
        return ToolFinished(call.call.id, call.call.name, status, shown, data=data, key=key, artifact_id=artifact_id)


def _arguments(call: OpenCall) -> dict[str, Any]:
    """The arguments as the model wrote them; none where they are not JSON."""
    try:
        return call.call.parsed()
    except (ValueError, RecursionError):
        return {}


def _seen(call_id: str, content: Content) -> Content:
    """The content. Raises `InvalidMessageError` when a part of it names nothing that could be seen."""
    for part in () if isinstance(content, str) else content:
        if (why := part_problem(part)) is not None:
            raise InvalidMessageError(f"the result of call {call_id!r} cannot be taken: {why}")
    return content
