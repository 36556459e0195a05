"""Taking what wakes a session: the end of a child, a time, a signal, a stop from its parent.

Owns: turning such inbox items into records, in the commit that takes them. Must not know: what they mean for calls
(`core/waking.py`) and steps (`core/workflow_state.py`). Loaded by sessions that get one.
Read next: `run.py`, `admission.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core import waking
from ..core.fencing import framed, inside
from ..core.state import State
from ..late import Late
from ..model.codec import decode, encode
from ..model.errors import CancellationRequested, SessionGoneError, SessionNotFoundError
from ..model.family_records import CallWoken, SessionSpawned, SignalReceived
from ..model.messages import UserMessage
from ..model.records import Outcome, Record, RunResumed
from ..model.timer_spec import TimerBody
from ..model.usage import NO_USAGE, Usage
from ..model.wake_bodies import Signal, Wake
from ..ports.store import WAKING_KINDS, DropTimer, InboxItem, Op, PutItem, TakeItems
from . import children, inspection, open_questions
from .journal import Journal
from .kernel import Kernel
from .running import RunContext
from .turn import Begun, Turn, healing, waiting_outside

if TYPE_CHECKING:
    from ..core import workflow_state
    from ..core.workflow_state import WorkflowState
    from ..model import workflow_records
    from . import placing, workflow_stops
else:
    placing = Late("loopwright.engine.placing")
    workflow_state = Late("loopwright.core.workflow_state")
    workflow_records = Late("loopwright.model.workflow_records")
    workflow_stops = Late("loopwright.engine.workflow_stops")

WAKING = frozenset(WAKING_KINDS)
"""Kinds of items that a session which waits is woken by; stores answer it as claimable then."""


async def take(run: RunContext) -> None:
    """Takes what waiting calls wait for; other items stay for the next round. Raises `CancellationRequested` for a stop."""
    journal = run.journal
    found = await journal.kernel.store.lookup(journal.session_id)
    if (stop := journal.stop_among(found.waiting)) is not None:
        raise CancellationRequested(stop)
    records, ops = taken(journal, found.waiting)
    left = [item.seq for item in found.waiting if item.kind not in WAKING]
    if ops:
        await journal.commit(records, ops=ops)
    journal.actor.inbox_seen = max(journal.actor.inbox_seen, found.head.inbox_seq)
    journal.unheard = min(left) - 1 if left else None


async def wake(turn: Turn) -> Begun | None:
    """Goes on with a send that waits, when something woke it; None when it still waits. Ends one that its parent stopped."""
    journal = turn.journal
    items = [item for item in await journal.waiting() if item.kind in WAKING]
    if not items:
        return await _woken_by_nobody(turn)
    stops = [item for item in items if item.kind == "stop"]
    if stops:
        reason = stops[-1].body.decode("utf-8", "replace") or "stopped"
        ids = tuple([item.item_id for item in items])
        records, ops = stopped(journal, reason)
        await journal.commit(records, sync=True, release=True, ops=(TakeItems(ids), *ops))
        await children.end_below(journal.kernel, ops)
        return None
    records, ops = taken(journal, items)
    goes_on = any(not isinstance(record, SignalReceived) for record in records)
    turn.check_tools()
    await journal.commit(records, ops=ops, release=not goes_on)
    return functools.partial(turn.run, resumed=True) if goes_on else None


async def woken_or_waiting(turn: Turn) -> Begun:
    """As `wake`; of a send that still waits, what it waits for."""
    return await wake(turn) or await open_questions.result_now(turn.kernel.store, turn.journal.state)


async def waits_for_nobody(kernel: Kernel, state: State) -> bool:
    """True when a child that a waiting send waits for, or one below, goes on only if somebody goes on with it."""
    for child_id in _waited_for(state):
        if await _left_alone(kernel, child_id):
            return True
    return False


async def _woken_by_nobody(turn: Turn) -> Begun | None:
    """Goes on with a send that waits for what nobody works on: a child whose process is gone, an open call of a run."""
    journal, state = turn.journal, turn.journal.state
    records: list[Record] = []
    for child_id in _waited_for(state):
        if await _left_alone(journal.kernel, child_id):
            said = Wake(child_id=child_id)
            records += waking.woken(state, said) if state.workflow is None else workflow_state.woken(state, said)
    if not records and state.workflow is not None and workflow_state.left_alone(state):
        records = [RunResumed("nobody works on what is open", journal.takeovers)]
    if not records:
        return None
    records = placed(journal, records)
    turn.check_tools()
    calls = [record.call_id for record in records if isinstance(record, CallWoken)]
    await journal.commit(records, ops=tuple([DropTimer(timer_id(call_id)) for call_id in calls]))
    return functools.partial(turn.run, resumed=True)


def _waited_for(state: State) -> list[str]:
    """Children that open calls and steps wait for."""
    return [waits.child_id for waits in waiting_outside(state) if waits.child_id is not None]


async def _left_alone(kernel: Kernel, session_id: str) -> bool:
    """True when this session, or one below that it waits for, ended unheard or was interrupted, and nobody runs it."""
    try:
        head = (await kernel.store.lookup(session_id)).head
    except (SessionNotFoundError, SessionGoneError):
        return True  # the call that waits for it finds that out
    if head.status != "waiting":
        return head.owner is None or head.expires_in_s <= 0
    return await waits_for_nobody(kernel, await inspection.read_state(kernel.store, session_id))


def stopped(journal: Journal, reason: str) -> tuple[Sequence[Record], tuple[Op, ...]]:
    """Records and operations that end an open send at once, with all its children, and say so to its parent."""
    before, ops = ended(journal, "cancelled", reason)
    return [*before, *healing(journal.state, reason)], ops


def ended(journal: Journal, outcome: Outcome, reason: str) -> tuple[list[Record], tuple[Op, ...]]:
    """What goes before the end of a send that ends without being run: its children stopped, its parent told."""
    state = journal.state
    timers = timers_of(state)
    if state.facts.family is None:
        return [], timers
    assert state.facts.send is not None
    at = journal.kernel.ambient.now()
    left, ops = children.left_behind(state, outcome, at)
    if state.workflow is not None:
        steps, more = workflow_stops.all_stopped(state, reason, at)
        left, ops = [*left, *steps], (*ops, *more)
    return left, (*timers, *ops, *told(journal, outcome, reason, state.facts.send.usage))


def timers_of(state: State) -> tuple[Op, ...]:
    """Drops the timers of calls that wait for a time and end without it; those of steps go with the steps."""
    waits = [call.waits for call in state.batch if call.result is None and call.waits is not None]
    return tuple([DropTimer(timer_id(one.call_id)) for one in waits if one.until is not None])


def taken(journal: Journal, items: Sequence[InboxItem]) -> tuple[list[Record], tuple[Op, ...]]:
    """Records and operations that take all wakes and signals among `items`."""
    records, ops = _taken(journal.state, items)
    return placed(journal, records), ops


def placed(journal: Journal, records: list[Record]) -> list[Record]:
    """The same with steps that go on placed: their journals are where the executor here has them from now on."""
    if journal.state.workflow is None or not (place := placing.place_of(journal.kernel)):
        return records
    return [replace(one, place=place) if isinstance(one, workflow_records.StepWoken) else one for one in records]


def _taken(state: State, items: Sequence[InboxItem]) -> tuple[list[Record], tuple[Op, ...]]:
    records: list[Record] = []
    ids: list[str] = []
    for item in items:
        if item.kind == "wake":
            said = decode(item.body, Wake)
            records += waking.woken(state, said) if state.workflow is None else workflow_state.woken(state, said)
        elif item.kind == "signal":
            records += kept(state, item, records)
        else:
            continue
        ids.append(item.item_id)
    if not ids:
        return [], ()
    calls = [record.call_id for record in records if isinstance(record, CallWoken)]
    return records, (TakeItems(tuple(ids)), *[DropTimer(timer_id(call_id)) for call_id in calls])


def kept(state: State, item: InboxItem, so_far: Sequence[Record] = ()) -> list[Record]:
    """Records of a signal."""
    signal = decode(item.body, Signal)
    if state.workflow is not None:
        return workflow_state.signalled(state, signal, item.item_id, so_far)
    return waking.signalled(state, signal, item.item_id, so_far)


def heard(state: State, item: InboxItem) -> list[Record]:
    """Records of a wake or signal that comes while no call waits."""
    return _taken(state, [item])[0]


def timer_id(call_id: str) -> str:
    """The timer of a call that waits for a time."""
    return f"wait:{call_id}"


def time_has_come(call_id: str) -> bytes:
    """The body of that timer."""
    return encode(TimerBody(kind="wake", call_id=call_id))


def told(journal: Journal, outcome: Outcome, text: str, usage: Usage) -> tuple[Op, ...]:
    """What the parent is told, in the commit that ends or pauses a child's send; nothing when it waits right here.

    A parent whose call waits gets a wake; one whose child runs in the background hears of its end like of a follow-up,
    except of one that was stopped.
    """
    state = journal.state
    family = state.facts.family
    if family is None or family.spawned is None or journal.awaited:
        return ()
    spawned, here, at = family.spawned, journal.session_id, journal.kernel.ambient.now()
    ended = None if outcome in ("waiting_for_input", "pending_tools") else outcome
    wake = Wake(child_id=here, outcome=ended, usage=NO_USAGE if ended is None else usage)
    said = PutItem(spawned.parent_id, InboxItem(f"child:{here}:{state.position}", "wake", encode(wake), at))
    if spawned.awaited or outcome == "cancelled":
        return (said,)
    if state.workflow is not None and ended is None:
        return (said,)  # it is told of the end of a run, once
    message = encode(UserMessage(background_report(spawned, here, outcome, text, state.workflow)))
    item_id = f"child:{here}:{state.position}:said" if state.workflow is None else f"run:{here}"
    return said, PutItem(spawned.parent_id, InboxItem(item_id, "message", message, at))


def background_report(
    spawned: SessionSpawned, child_id: str, outcome: str, text: str, run: WorkflowState | None = None
) -> str:
    """What a parent's model reads about a child, or a workflow run, in the background."""
    if run is not None:
        tool = run.spec.metadata.get(workflow_state.BACKGROUND_TOOL)
        what = f"workflow {spawned.persona.name}" if tool is None else f"call {spawned.by} of {tool}"
        head = f"The {what} (run {child_id}), started in the background, ended ({outcome}):"
        return framed("workflow_report", inside(f"{head}\n{text}"))
    head = f"The agent {spawned.persona.name} ({child_id}), started in the background, says ({outcome}):"
    return framed("agent_report", inside(f"{head}\n{text}"))
