"""Children of a session: making them, running them here, hearing how they end.

Owns: `CallChildren`, what a tool call may do with them. Must not know: how a session runs (`run.py`), who wakes it later
(`wakes.py`). A child is made in the commit that puts it into its parent's journal, so a resumed parent has the same one.
Loaded by the first call that asks for it. Read next: `../core/spawning.py`, `admission.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..core import spawning
from ..core.result import StatefulResult
from ..core.state import State
from ..late import Late
from ..model.codec import encode
from ..model.errors import RetryLaterError, SessionGoneError, SessionNotFoundError
from ..model.event_types import AgentEventType
from ..model.family_errors import LeafElsewhereError, SpawnRefusedError
from ..model.family_records import (
    CallWaits,
    ChildFinished,
    ChildStarted,
    HandedOff,
    Lifecycle,
    SessionSpawned,
    SharedAccount,
)
from ..model.messages import MessageLike, UserMessage
from ..model.records import Effect, Outcome, Record, SessionCreated
from ..ports.child_agents import ChildInfo, ChildResult
from ..ports.store import CreateSession, DropSession, Head, InboxItem, NewSession, Op, PutItem, SessionQuery, TakeItems
from .actor import ACTORS
from .arguments import user_message
from .beside import run_beside
from .handler_context import CallMustWait
from .journal import first_records, format_needed
from .kernel import Kernel
from .running import RunContext, without_bytes

if TYPE_CHECKING:
    from ..model import workflow_records
    from ..model.agent_spec import AgentSpec
    from ..model.workflow_records import WorkflowStarted
    from ..model.workflow_spec import WorkflowSpec
    from . import call_workflows, child_limits, permits, tool_slots, tree_stops
    from .call_workflows import CallWorkflows
    from .child_limits import ChildLimit
else:
    workflow_records = Late("loopwright.model.workflow_records")
    call_workflows = Late("loopwright.engine.call_workflows")
    child_limits = Late("loopwright.engine.child_limits")
    permits = Late("loopwright.engine.permits")
    tool_slots = Late("loopwright.engine.tool_slots")
    tree_stops = Late("loopwright.engine.tree_stops")

ENDED = frozenset({"completed", "cancelled", "hit_round_limit", "budget_exceeded", "degraded", "failed"})


class CallChildren:
    """What one call does with children; see `ports.child_agents.Agents` for the promises."""

    def __init__(self, run: RunContext, call_id: str, key: str, effect: Effect) -> None:
        self._run = run
        self._call_id = call_id
        self._key = key
        self._effect = effect
        self._count = 0
        self._ended: dict[str, ChildFinished] = {}
        self._dropped: list[str] = []
        self.granted: list[Record] = []
        """What a person allowed the run that does this call's work."""
        self._reports: list[str] = []
        """Inbox items that say what `wait` answers."""
        self._handed: HandedOff | None = None

    async def spawn(self, spec: AgentSpec, task: MessageLike | str) -> ChildResult:
        """Runs a child to the end of its send."""
        self._check_waiting("spawn")
        child_id = await self._made(spec, task, awaited=True)
        limit = None
        if spec.timeout_s is not None:
            head = (await self._run.kernel.store.lookup(child_id)).head
            limit = child_limits.ChildLimit(self._run, child_id, head.created_at, spec.timeout_s)
        result = await self._ended_child(child_id, spec.name, spawning.lifecycle_of(spec), limit)
        self._completed(child_id, result)
        return result

    async def start(self, spec: AgentSpec, task: MessageLike | str) -> str:
        """Starts a child in the background."""
        child_id = await self._made(spec, task, awaited=False)
        run_beside(self._run.kernel, child_id)
        return child_id

    @property
    def workflows(self) -> CallWorkflows:
        """Workflow runs of this session."""
        return call_workflows.CallWorkflows(self._run, self)

    async def run_workflow(self, spec: WorkflowSpec, given: Any) -> ChildResult:
        """Runs a workflow that was checked, as a child, to its end."""
        self._check_waiting("run")
        return await self._ended_child(await self._made_run(spec, given, awaited=True), spec.name, "linked")

    async def start_workflow(self, spec: WorkflowSpec, given: Any) -> str:
        """Starts a workflow that was checked beside everything else; its end is said to this session, once."""
        run_id = await self._made_run(spec, given, awaited=False)
        run_beside(self._run.kernel, run_id)
        return run_id

    async def wait(self, child_id: str) -> ChildResult:
        """Waits for a child in the background."""
        self._check_waiting("wait")
        head = await self._mine(child_id)
        result = await self._ended_child(child_id, head.title, "linked")
        reports = await self._reports_of(child_id)
        if not reports and child_id in self._started():
            self._completed(child_id, result)
        self._reports += reports
        return result

    async def nudge(self, child_id: str, message: MessageLike | str) -> None:
        """Says something to a child."""
        run = self._run
        await self._mine(child_id)
        user = user_message(message, run.kernel.config.max_message_bytes)
        assert run.kernel.admission is not None
        await run.kernel.admission.enqueue(child_id, user, f"nudge:{self._key}:{self._ordinal()}")
        run_beside(run.kernel, child_id)

    async def stop(self, child_id: str, reason: str = "stopped by its parent") -> bool:
        """Stops a child and its children."""
        await self._mine(child_id)
        return await tree_stops.stop_tree(self._run.kernel, child_id, reason)

    async def list(self) -> Sequence[ChildInfo]:
        """Children that are still there."""
        run = self._run
        family = run.state.facts.family
        started = {} if family is None else family.children
        heads = await run.kernel.store.list(SessionQuery(parent_id=run.session_id))
        return [
            ChildInfo(
                head.session_id,
                head.title,
                head.status,
                head.session_id in started and started[head.session_id].awaited,
            )
            for head in heads
        ]

    async def hand_off(self, spec: AgentSpec, reason: str = "") -> None:
        """Answers as another agent from the next round on."""
        allowed = self._run.send.start.tools
        persona = spawning.persona_of(spec, allowed, None)
        self._handed = HandedOff(persona, reason, self._call_id)

    def riders(self) -> tuple[Sequence[Record], tuple[Op, ...]]:
        """What goes into the commit of the call's result."""
        known = self._started()
        # A child in the background may have been heard of before: what it used is counted once.
        ended: list[Record] = [one for child_id, one in self._ended.items() if child_id in known]
        if self._handed is not None:
            ended.append(self._handed)
        ops: list[Op] = [DropSession(child_id) for child_id in self._dropped]
        if self._reports:
            ops.append(TakeItems(tuple(self._reports)))
        return ended, tuple(ops)

    def forget(self) -> None:
        """The result is stored: children that are gone need no memory here."""
        if self._handed is not None:
            self._run.emit(AgentEventType.AGENT_HANDED_OFF, self._handed.persona.name, self._handed.reason)
        for child_id in self._ended:
            ACTORS.drop(self._run.kernel.store.identity, child_id)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _ordinal(self) -> int:
        self._count += 1
        return self._count - 1

    def _check_waiting(self, what: str) -> None:
        if self._effect == "once":
            raise SpawnRefusedError(
                self._run.session_id,
                f"{what}() may have to run the handler again: declare the tool idempotent, or use start()",
            )

    async def _mine(self, child_id: str) -> Head:
        """The child's head. Raises `SpawnRefusedError` for a session that is no child of this one."""
        try:
            head = (await self._run.kernel.store.lookup(child_id)).head
        except (SessionNotFoundError, SessionGoneError):
            head = None
        if head is None or head.parent_id != self._run.session_id:
            raise SpawnRefusedError(
                self._run.session_id, f"{child_id!r} is no child of this session; list() says which are"
            )
        return head

    async def _reports_of(self, child_id: str) -> Sequence[str]:
        """Items of the inbox that tell of the end that `wait` heard of: its result says it, once."""
        found = await self._run.kernel.store.lookup(self._run.session_id)
        mine = [item for item in found.waiting if item.item_id.startswith(f"child:{child_id}:")]
        ids = [item.item_id for item in mine if item.kind == "wake"]
        ids += [item.item_id for item in mine if item.kind == "message"][-1:]
        others = self._run.reported  # of calls beside this one, which wait for the same child
        self._run.reported = others | frozenset(ids)
        return [item_id for item_id in ids if item_id not in others]

    def _started(self) -> Mapping[str, ChildStarted]:
        """Children whose end was not heard of."""
        family = self._run.state.facts.family
        return {} if family is None else family.children

    def _completed(self, child_id: str, result: ChildResult) -> None:
        self._run.emit(AgentEventType.SUBAGENT_COMPLETED, child_id, result.status, result.rounds, result.text)

    async def _made(self, spec: AgentSpec, task: MessageLike | str, *, awaited: bool) -> str:
        """The id of the call's next child, which is made unless it is there from an earlier run of the handler."""
        run = self._run
        child_id = spawning.child_id_of(self._key, self._ordinal())
        if await self._known(child_id):
            return child_id
        config = run.kernel.config
        user = await without_bytes(run.kernel, child_id, user_message(task, config.max_message_bytes))
        spawned = spawned_by(run, spec, by=self._call_id, awaited=awaited, first=user if awaited else None)
        new = new_child(run, child_id, spawned)
        told: tuple[Op, ...] = ()
        if not awaited:
            at = run.kernel.ambient.now()
            told = (PutItem(child_id, InboxItem(f"task:{child_id}", "message", encode(user), at)),)
        await self._store(new, spawned, spawning.account_of(run.state), told)
        return child_id

    async def _made_run(self, spec: WorkflowSpec, given: Any, *, awaited: bool) -> str:
        """The same for a workflow run; one in the background goes on without its parent, and is claimable at once."""
        run = self._run
        run_id = spawning.child_id_of(self._key, self._ordinal())
        if await self._known(run_id):
            return run_id
        state = run.state
        account = spawning.account_of(state) if awaited else None
        left = spawning.tokens_left(state) if awaited else None
        spawned = spawning.spawned_in(
            state,
            spawning.run_persona(spec, run.send.start.tools, left),
            by=self._call_id,
            awaited=awaited,
            lifecycle="linked" if awaited else "detached",
            accounts=spawning.accounts_for(state.facts.family, account) if awaited else (),
        )
        begun = workflow_records.WorkflowStarted(spec=msgspec.to_builtins(spec), input=given, detached=not awaited)
        await self._store(new_child(run, run_id, spawned, begun, self.granted), spawned, account)
        return run_id

    async def _store(
        self, new: NewChild, spawned: SessionSpawned, account: SharedAccount | None, told: tuple[Op, ...] = ()
    ) -> None:
        """Makes a child. Raises `SpawnRefusedError`, and nothing is stored, when another one must not be made."""
        run, config, session = self._run, self._run.kernel.config, new.session
        under_way = len([one for one in run.spawning if one not in self._started()])
        why = spawning.refusal(
            run.state,
            max_depth=config.max_spawn_depth,
            max_children=config.max_children_per_send,
            under_way=under_way,
        )
        if why is not None:
            raise SpawnRefusedError(run.session_id, why)
        child_id, awaited = session.session_id, spawned.awaited
        record = ChildStarted(
            call_id=self._call_id,
            child_id=child_id,
            name=spawned.persona.name,
            lifecycle=spawned.lifecycle,
            awaited=awaited,
            account=account,
        )
        # Calls beside this one look at the same state: nothing may be awaited between the refusal and this mark.
        run.spawning = (*run.spawning, child_id)
        try:
            await run.journal.append([record], (CreateSession(session), *told))
        finally:
            run.spawning = tuple([one for one in run.spawning if one != child_id])
        if awaited:
            new.remember(run.kernel)
        run.emit(AgentEventType.SUBAGENT_STARTED, child_id, spawned.persona.name, spawned.depth, awaited)

    async def _known(self, child_id: str) -> bool:
        """True for a child that is there from an earlier run of the handler."""
        family = self._run.state.facts.family
        return (family is not None and child_id in family.children) or await _exists(self._run.kernel, child_id)

    async def _ended_child(
        self, child_id: str, name: str, lifecycle: str, limit: ChildLimit | None = None
    ) -> ChildResult:
        run = self._run
        work = run_child(run, child_id) if limit is None else limit.run_child()
        result = await (work if run.kernel.slots is None else tool_slots.without(run.kernel.slots, self._key, work))
        if result is None or result.status not in ENDED:
            questions = () if result is None else result.pending_interactions
            raise CallMustWait(
                CallWaits(
                    call_id=self._call_id,
                    on="child",
                    child_id=child_id,
                    interactions=tuple(questions),
                    until=None if limit is None or limit.is_over else limit.until,
                )
            )
        self._ended[child_id] = ChildFinished(child_id=child_id, outcome=result.status, child_usage=result.usage)
        if lifecycle == "ephemeral":
            self._dropped.append(child_id)
        return ChildResult(
            session_id=child_id,
            name=name,
            status=result.status,
            text=result.final_text,
            output=result.output,
            rounds=result.rounds,
            usage=result.usage,
            error_code=result.error_code,
            error_message=result.error_message,
        )


def kept(spec: AgentSpec) -> Lifecycle:
    """Of a child in the background: nobody copies its result, so it stays."""
    asked = spawning.lifecycle_of(spec)
    return "linked" if asked == "ephemeral" else asked


class NewChild:
    """A child that is about to be made."""

    def __init__(self, session: NewSession, records: tuple[Record, ...]) -> None:
        self.session = session
        self._records = records

    def remember(self, kernel: Kernel) -> None:
        """It is made: its first send need not read what was just written."""
        assert kernel.admission is not None
        session = self.session
        kernel.admission.created(session.session_id, self._records, session.at, session.min_format)


def spawned_by(
    run: RunContext, spec: AgentSpec, *, by: str, awaited: bool, first: UserMessage | None
) -> SessionSpawned:
    """The record that a child of this run's session begins with."""
    state = run.state
    return spawning.spawned_in(
        state,
        spawning.persona_of(spec, run.send.start.tools, spawning.tokens_left(state)),
        by=by,
        first=first,
        awaited=awaited,
        lifecycle=spawning.lifecycle_of(spec) if awaited else kept(spec),
        accounts=spawning.accounts_for(state.facts.family, spawning.account_of(state)),
    )


def new_child(
    run: RunContext,
    child_id: str,
    spawned: SessionSpawned,
    workflow: WorkflowStarted | None = None,
    granted: Sequence[Record] = (),
) -> NewChild:
    """The child's head and first records; a workflow run where `workflow` is given. Raises as `checked_record` does."""
    kernel, at = run.kernel, run.kernel.ambient.now()
    kind = "agent" if workflow is None else "workflow"
    created = SessionCreated(
        child_id, kernel.config.agent_name, None, dict(spawned.persona.metadata), run.session_id, kind
    )
    first: list[Record] = [spawned] if workflow is None else [spawned, workflow]
    if run.state.facts.control is not None:
        first += permits.inherited(run.state)
    first += granted
    records, rows = first_records(kernel.config, created, at, *first)
    session = NewSession(
        session_id=child_id,
        agent_name=created.agent_name,
        records=rows,
        at=at,
        kind=kind,
        parent_id=run.session_id,
        lifecycle=spawned.lifecycle,
        title=spawned.persona.name,
        min_format=format_needed(rows),
        status="idle" if workflow is None or spawned.awaited else "running",
    )
    return NewChild(session, records)


async def run_child(run: RunContext, child_id: str) -> StatefulResult | None:
    """Begins or continues a child here, to the end or a pause of its send; None while another process runs it, or has to."""
    admission = run.kernel.admission
    assert admission is not None
    try:
        return await admission.run_child(child_id, run)
    except LeafElsewhereError:  # a run whose step is in another place: whoever has that goes on with it
        return None


async def _exists(kernel: Kernel, session_id: str) -> bool:
    try:
        await kernel.store.lookup(session_id)
    except (SessionNotFoundError, SessionGoneError):
        return False
    return True


def left_behind(state: State, outcome: Outcome, at: float) -> tuple[list[Record], tuple[Op, ...]]:
    """Records and operations for children that are still there when their parent's send ends.

    Awaited ones are stopped, whatever ended the send; those in the background only when it was stopped, and detached ones
    never. Stops are stored with the end of the send, so that they reach a child wherever it runs or waits.
    """
    family = state.facts.family
    assert family is not None
    records: list[Record] = []
    ops: list[Op] = []
    for child_id, child in family.children.items():
        if not (child.awaited or (outcome == "cancelled" and child.lifecycle != "detached")):
            continue
        records.append(ChildFinished(child_id=child_id, outcome="cancelled"))
        if child.lifecycle == "ephemeral" and child.awaited:
            ops.append(DropSession(child_id))
        else:
            item = InboxItem(f"stop:{state.facts.session_id}:{state.position}", "stop", STOPPED.encode(), at)
            ops.append(PutItem(child_id, item))
    return records, tuple(ops)


def left(run: RunContext, records: Sequence[Record], ops: Iterable[Op]) -> None:
    """A send ended with children that were still there: these records and operations are stored."""
    stop_below(run.kernel, ops)
    for record in records:
        if isinstance(record, ChildFinished):
            run.emit(AgentEventType.SUBAGENT_COMPLETED, record.child_id, record.outcome, 0, "")


def stop_below(kernel: Kernel, ops: Iterable[Op]) -> None:
    """Ends children that such operations stop, as far as they are here: what is stored already would do it later."""
    for child_id in _stopped_by(ops):
        if not _told_to_stop(kernel, child_id):
            run_beside(kernel, child_id)


async def end_below(kernel: Kernel, ops: Iterable[Op]) -> None:
    """The same, waited for where a child only has to be ended; one that another process runs is stopped there."""
    admission = kernel.admission
    assert admission is not None
    for child_id in _stopped_by(ops):
        if _told_to_stop(kernel, child_id):
            continue
        try:
            await admission.recover(child_id, wait_s=0.0)
        except (RetryLaterError, SessionGoneError, SessionNotFoundError):
            continue


def _stopped_by(ops: Iterable[Op]) -> list[str]:
    return [op.session_id for op in ops if isinstance(op, PutItem) and op.item.kind == "stop"]


def _told_to_stop(kernel: Kernel, session_id: str) -> bool:
    """Stops the run of a session in this process; False when there is none."""
    actor = ACTORS.find(kernel.store.identity, session_id)
    if actor is None or (token := actor.token) is None:
        return False
    actor.inbox_seq = max(actor.inbox_seq, actor.inbox_seen + 1)  # the stop in its inbox is taken with its end
    token.cancel(STOPPED)
    return True


STOPPED = "its parent was stopped"
