"""The leaves of a run: how each kind begins, does its work and ends.

Owns: `Leaves`: the records that begin a leaf, the work that follows, the records of its end. Must not know: which leaf is
due, commits (`workflow_run.py`). Read next: `workflow_values.py`, `../core/workflow_frames.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..core import spawning, waking
from ..core.calls import idempotency_key
from ..core.result import StatefulResult
from ..core.workflow_conditions import holds, references_of_condition
from ..core.workflow_frames import Leaf
from ..core.workflow_state import ASK, WorkflowState, beginning, call_id_of, timed_out
from ..core.workflow_templates import (
    NoOutput,
    references_in,
    references_of,
    render,
    render_value,
    text_of,
    with_outputs,
)
from ..model.agent_spec import AgentSpec, SubagentLifecycle
from ..model.codec import encode
from ..model.errors import LoopwrightError, RetryLaterError, SessionGoneError, StoreError
from ..model.family_errors import SpawnRefusedError, TooManyLeavesError
from ..model.family_records import Persona, SharedAccount, WaitsOn
from ..model.messages import ToolCall, UserMessage
from ..model.records import Interaction, QuestionAsked, Record
from ..model.workflow_records import StepFinished, StepOutcome, StepStarted, StepWaits, WorkflowStarted
from ..model.workflow_spec import MAX_LEAVES, VERDICT_SCHEMA, AgentNode, ApproveNode, Judge, ToolNode, WaitNode
from ..ports.cancellation import CancellationToken
from ..ports.executor import LeafRef
from ..ports.store import CreateSession, DropSession, DropTimer, Op, PutTimer
from . import children, placing, wakes, workflow_stops
from .arguments import user_message
from .children import ENDED, NewChild, new_child
from .running import RunContext
from .tool_call import ToolRun
from .workflow_outputs import kept_output
from .workflow_values import RunValues

LOST: Final = (StoreError, RetryLaterError, SessionGoneError)
"""What ends a run where it is, instead of a step."""

LONGEST_PATH: Final = 300
"""Characters at the end of a step's path that an executor is told, to find its place in a log."""

HALTED: Final = "a step beside it failed"


class LeafNews(Struct):
    """Records of one leaf for the next commit."""

    path: str
    records: list[Record]
    ops: tuple[Op, ...] = ()
    work: Callable[[], Awaitable[LeafNews | None]] | None = None
    """What is done when they are stored."""
    new: NewChild | None = None
    ends: bool = False
    """They end the leaf, which had not begun, as failed."""
    took: str | None = None
    """Item id of a kept signal that these records take."""
    gone: str | None = None
    """A child whose result this is: it needs no memory here any more."""


class Leaves:
    """Leaves of one run in this process."""

    def __init__(self, context: RunContext, values: RunValues) -> None:
        self.context = context
        self.kernel = context.kernel
        self.values = values
        self.tokens: dict[str, CancellationToken] = {}
        """What stops the leaves that do their work here, by path."""
        self._specs: dict[int, AgentSpec] = {}

    @property
    def run(self) -> WorkflowState:
        """The run as of the last commit."""
        run = self.context.state.workflow
        assert run is not None
        return run

    async def begin(self, leaf: Leaf) -> LeafNews:
        """What begins a leaf: its start, or its end where it is skipped or cannot start."""
        try:
            if not await self._wanted(leaf):
                skipped = StepFinished(path=leaf.path, attempt=leaf.attempt, outcome="skipped")
                return LeafNews(leaf.path, [skipped])
            most = self.run.spec.max_leaves or MAX_LEAVES
            if leaf.attempt == 1 and self.run.machine.begun >= most:
                raise TooManyLeavesError(self.context.session_id, most)
            return await self._begun(leaf)
        except LOST:
            raise
        except (LoopwrightError, TypeError, ValueError) as error:
            return LeafNews(leaf.path, [self.failure(leaf, error)], ends=True)

    def again(self, leaf: Leaf) -> LeafNews | None:
        """What goes on with a leaf that began earlier; None for one that waits for somebody outside."""
        call_id = call_id_of(leaf.path, leaf.attempt)
        call = self.run.calls.get(call_id)
        if leaf.waits is not None or (call is not None and (call.waits_for_person or call.waits is not None)):
            return None
        match leaf.plan.spec:
            case ToolNode():
                return LeafNews(leaf.path, [], work=lambda: self._tool(leaf, None))
            case ApproveNode() | WaitNode():
                return None
            case _:
                assert leaf.child_id is not None
                return LeafNews(leaf.path, [], work=lambda: self._child(leaf))

    def stopped(self, leaf: Leaf, reason: str) -> LeafNews:
        """The end of a leaf that waits outside and must stop; one with an open call is answered instead."""
        end, ops = workflow_stops.stopped(self.context.state, leaf, reason, self.kernel.ambient.now())
        return LeafNews(leaf.path, [end], ops, gone=leaf.child_id)

    def failure(self, leaf: Leaf, error: Exception) -> StepFinished:
        """The end of an attempt by an error of ours."""
        return StepFinished(
            path=leaf.path,
            attempt=leaf.attempt,
            outcome="failed",
            error_code=getattr(error, "code", type(error).__name__),
            error_message=str(error)[:10_000],
        )

    # --- conditions and values --------------------------------------------------------------------------------------

    async def _wanted(self, leaf: Leaf) -> bool:
        when = getattr(leaf.plan.spec, "when", None)
        if when is None:
            return True
        lookup = await self.values.lookup(references_of_condition(when), leaf.scope)
        return holds(when, lookup)

    async def _text(self, template: str, leaf: Leaf) -> str:
        if "{{" not in template:
            return template
        return render(template, await self.values.lookup(references_of(template), leaf.scope))

    async def _value(self, value: object, leaf: Leaf) -> Any:
        return render_value(value, await self.values.lookup(references_in(value), leaf.scope))

    # --- beginnings -------------------------------------------------------------------------------------------------

    async def _begun(self, leaf: Leaf) -> LeafNews:
        spec = leaf.plan.spec
        match spec:
            case AgentNode():
                text = await self._text(spec.input, leaf)
                if spec.inputs_from:
                    lookup = await self.values.lookup(spec.inputs_from, leaf.scope)
                    text = with_outputs(text, [(name, lookup(tuple(name.split(".")))) for name in spec.inputs_from])
                return self._agent(leaf, spec.spec, spec.output_schema, text)
            case Judge():
                text = await self._judged(leaf, spec)
                return self._agent(leaf, spec.spec, VERDICT_SCHEMA, text)
            case ToolNode():
                arguments = encode(await self._value(spec.arguments, leaf)).decode()
                started = StepStarted(path=leaf.path, attempt=leaf.attempt)
                return LeafNews(leaf.path, [started], work=lambda: self._tool(leaf, arguments))
            case ApproveNode():
                return await self._ask(leaf, spec)
            case WaitNode():
                return await self._wait(leaf, spec)
            case _:
                return await self._workflow(leaf)

    async def _judged(self, leaf: Leaf, judge: Judge) -> str:
        """What a judge is told: its template, or what the iteration gave."""
        if judge.input is not None:
            return await self._text(judge.input, leaf)
        loop: Any = leaf.parent
        value = await self.values.output(loop.plan.name, loop.newest)
        return text_of(str(value) if isinstance(value, NoOutput) else value)

    def _agent(self, leaf: Leaf, spec: AgentSpec, schema: dict[str, Any] | None, text: str) -> LeafNews:
        spec = self._asked(leaf, spec, schema)
        state, send = self.context.state, self.context.send
        persona = spawning.persona_of(spec, send.start.tools, spawning.tokens_left(state))
        first = user_message(text if text.strip() else "(no input)", self.kernel.config.max_message_bytes)
        return self._made(leaf, persona, spec.lives(SubagentLifecycle.LINKED), first, None)

    def _asked(self, leaf: Leaf, spec: AgentSpec, schema: dict[str, Any] | None) -> AgentSpec:
        """The spec with the node's own answer shape, checked once for all iterations."""
        if schema is None:
            return spec
        key = id(leaf.plan)
        if key not in self._specs:
            self._specs[key] = msgspec.structs.replace(spec, output_schema=schema)
        return self._specs[key]

    async def _workflow(self, leaf: Leaf) -> LeafNews:
        spec = leaf.plan.spec.workflow
        given = await self._value(leaf.plan.spec.input, leaf)
        left = spawning.tokens_left(self.context.state)
        persona = spawning.run_persona(spec, self.context.send.start.tools, left)
        begun = WorkflowStarted(spec=msgspec.to_builtins(spec), input=given)
        return self._made(leaf, persona, SubagentLifecycle.LINKED, None, begun)

    def _made(
        self,
        leaf: Leaf,
        persona: Persona,
        lifecycle: SubagentLifecycle,
        first: UserMessage | None,
        begun: WorkflowStarted | None,
    ) -> LeafNews:
        """The start of a leaf that is a session of its own, made in the same commit."""
        run, state = self.context, self.context.state
        if (why := spawning.too_deep(state, self.kernel.config.max_spawn_depth)) is not None:
            raise SpawnRefusedError(run.session_id, why)
        key = idempotency_key(run.session_id, self.run.position, 0, leaf.path)
        child_id = spawning.child_id_of(key, leaf.attempt)
        spawned = spawning.spawned_in(
            state,
            persona,
            by=leaf.path,
            first=first,
            lifecycle=lifecycle.value,
            accounts=spawning.accounts_for(state.facts.family, self._account()),
        )
        new = new_child(run, child_id, spawned, begun)
        place = placing.place_of(self.kernel) if placing.is_placed(leaf) else ""
        started = StepStarted(path=leaf.path, attempt=leaf.attempt, child_id=child_id, place=place)
        return LeafNews(leaf.path, [started], (CreateSession(new.session),), work=lambda: self._child(leaf), new=new)

    def _account(self) -> SharedAccount | None:
        """What the run shares with its children: all that it may spend, since nothing of it is spent but by them."""
        start = self.context.send.start
        if start.run_cost_budget is None:
            return None
        return SharedAccount(f"send:{self.context.session_id}:{start.index}", start.run_cost_budget)

    async def _ask(self, leaf: Leaf, spec: ApproveNode) -> LeafNews:
        call_id = call_id_of(leaf.path, leaf.attempt)
        key = idempotency_key(self.context.session_id, self.run.position, 0, call_id)
        question = Interaction(
            id=f"ask_{key[:24]}",
            call_id=call_id,
            tool_name=ASK,
            prompt=await self._text(spec.prompt, leaf),
            kind="text" if spec.options is None else "choice",
            options=spec.options or (),
            metadata={"path": leaf.path},
        )
        started = StepStarted(path=leaf.path, attempt=leaf.attempt)
        until = None if spec.timeout_s is None else self.kernel.ambient.now() + spec.timeout_s
        return LeafNews(leaf.path, [started, QuestionAsked(question)], self._timer(leaf, until))

    async def _wait(self, leaf: Leaf, spec: WaitNode) -> LeafNews:
        now = self.kernel.ambient.now()
        until = now + spec.timeout_s if spec.timeout_s is not None else None
        if spec.seconds is not None:
            until = now + spec.seconds
        elif spec.until is not None:
            until = _time_of(await self._text(spec.until, leaf))
        on: WaitsOn = "signal" if spec.signal is not None else "time"
        waits = StepWaits(path=leaf.path, on=on, until=until, signal=spec.signal)
        kept = waking.oldest(self.context.state, waits.signal, self.context.promised)
        records = [StepStarted(path=leaf.path, attempt=leaf.attempt), *beginning(leaf, waits, kept)]
        if kept is None:
            return LeafNews(leaf.path, records, self._timer(leaf, until))
        self.context.promised.add(kept.item_id)
        return LeafNews(leaf.path, records, took=kept.item_id)

    def _timer(self, leaf: Leaf, until: float | None) -> tuple[Op, ...]:
        if until is None:
            return ()
        call_id = call_id_of(leaf.path, leaf.attempt)
        return (PutTimer(wakes.timer_id(call_id), until, wakes.time_has_come(call_id)),)

    # --- work and ends ----------------------------------------------------------------------------------------------

    async def _tool(self, leaf: Leaf, arguments: str | None) -> LeafNews | None:
        """Runs a tool; its own records come through the line of the run, so there is nothing to tell at its end."""
        call = self.run.calls[call_id_of(leaf.path, leaf.attempt)]
        if arguments is None:
            try:
                arguments = encode(await self._value(leaf.plan.spec.arguments, leaf)).decode()
            except (LoopwrightError, TypeError, ValueError) as error:
                if isinstance(error, LOST):
                    raise
                await ToolRun(self.context, call).answer("invalid", str(error))
                return None
        call.call = ToolCall(call.call.id, call.call.name, arguments)
        with _Stoppable(self, leaf) as own:
            one = ToolRun(own, call)
            one.limit_s = leaf.plan.spec.timeout_s
            await one.run()
            if one.held:
                await one.answer("failed", f"{call.call.name} has no handler here; a step needs one")
        return None

    async def _run_child(self, leaf: Leaf, own: RunContext) -> StatefulResult | None:
        """An agent where the loop's executor runs it, everything else here."""
        kernel, child_id = self.kernel, leaf.child_id
        assert child_id is not None
        if kernel.executor is not None and placing.is_placed(leaf):
            left_s = None if leaf.deadline is None else max(leaf.deadline - kernel.ambient.now(), 0.001)
            ref = LeafRef(
                session_id=child_id,
                agent_name=kernel.config.agent_name,
                run_id=self.context.session_id,
                path=leaf.path[-LONGEST_PATH:],
                attempt=leaf.attempt,
                timeout_s=left_s,
            )
            return await placing.run_placed(kernel.executor, ref, own)
        return await children.run_child(own, child_id)

    async def _child(self, leaf: Leaf) -> LeafNews:
        """Runs a child and tells how it ended, or that it waits."""
        assert leaf.child_id is not None
        child_id, kernel = leaf.child_id, self.kernel
        assert kernel.admission is not None
        with _Stoppable(self, leaf) as own:
            deadline = _Deadline(own.token, leaf, kernel.ambient.now())
            deadline.begin(kernel.deadlines)
            try:
                result = await self._run_child(leaf, own)
            finally:
                kernel.deadlines.discard(deadline)
        if result is None or result.status not in ENDED:
            questions = () if result is None else tuple(result.pending_interactions)
            waits = StepWaits(
                path=leaf.path, on="child", child_id=child_id, interactions=questions, until=leaf.deadline
            )
            return LeafNews(leaf.path, [waits], self._timer(leaf, leaf.deadline))
        if deadline.over:
            end = msgspec.structs.replace(timed_out(leaf, child_id), child_usage=result.usage)
        else:
            text, data, artifact_id = await kept_output(
                kernel, self.context.session_id, result.final_text, result.output
            )
            outcome = _OUTCOMES.get(result.status, "failed")
            if outcome == "cancelled" and not own.token.cancelled:
                outcome = "failed"  # nobody stopped the step: somebody stopped its agent, and there is no output
            end = StepFinished(
                path=leaf.path,
                attempt=leaf.attempt,
                outcome=outcome,
                text=text,
                data=data,
                artifact_id=artifact_id,
                child_id=child_id,
                child_usage=result.usage,
                error_code=None if result.ok else result.error_code or result.status,
                error_message=None if result.ok else result.error_message or _why(result.status),
            )
        ops: tuple[Op, ...] = () if leaf.deadline is None else (DropTimer(workflow_stops.timer_of(leaf)),)
        if workflow_stops.lifecycle_of(leaf) is SubagentLifecycle.EPHEMERAL:
            ops = (*ops, DropSession(child_id))
        return LeafNews(leaf.path, [end], ops, gone=child_id)

    def expired(self, leaf: Leaf) -> LeafNews:
        """The end of a leaf whose time is over while it waits for its child."""
        ops = workflow_stops.stopped_child(self.context.state, leaf, self.kernel.ambient.now())
        return LeafNews(leaf.path, [timed_out(leaf, leaf.child_id)], ops, gone=leaf.child_id)


_OUTCOMES: Final[dict[str, StepOutcome]] = {"completed": "completed", "cancelled": "cancelled"}


class _Stoppable:
    """A context of its own for one leaf, so that it can be stopped alone."""

    def __init__(self, leaves: Leaves, leaf: Leaf) -> None:
        context = leaves.context
        self._above, self._tokens, self._path = context.token, leaves.tokens, leaf.path
        self._own = RunContext(context.kernel, context.journal, CancellationToken(), context.tools)
        self._own.drafted = context.drafted
        self._own.promised = context.promised
        self._unfollow: Callable[[], None] = _nothing
        if leaf.stopping:
            self._own.token.cancel(HALTED)

    def __enter__(self) -> RunContext:
        # Not a child of the run's token: that would remember each of ten thousand leaves.
        self._tokens[self._path] = self._own.token
        self._unfollow = self._above.on_cancel(self._own.token.cancel)
        return self._own

    def __exit__(self, *_: object) -> None:
        self._unfollow()
        self._tokens.pop(self._path, None)


class _Deadline:
    """The time limit of a child."""

    def __init__(self, token: CancellationToken, leaf: Leaf, now: float) -> None:
        self._token = token
        self._left = None if leaf.deadline is None else max(leaf.deadline - now, 0.0)
        self.due = 0.0
        self.over = False

    def begin(self, deadlines: Any) -> None:
        """From now on."""
        if self._left is not None:
            loop = asyncio.get_running_loop()
            self.due = loop.time() + self._left
            deadlines.add(loop, self)

    def expire(self) -> None:
        """The time is over."""
        self.over = True
        self._token.cancel("the step took longer than it may")


def _time_of(text: str) -> float:
    """UTC epoch seconds. Raises `ValueError` for what is no time with an offset."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"until is no time: {text[:100]!r}; write 2027-01-31T09:00:00+01:00") from None
    if found.tzinfo is None:
        raise ValueError(f"until has no offset: {text[:100]!r}; write 2027-01-31T09:00:00+01:00")
    return found.timestamp()


def _why(status: str) -> str:
    return "it reached its limit of rounds" if status == "hit_round_limit" else f"it ended as {status}"


def _nothing() -> None:
    return
