"""How a child is entered: by its parent, which waits for it, and how the parent goes on otherwise.

Owns: the turn of an awaited child, and who is woken when nobody waits. Must not know: how children are made (`children.py`).
Read next: `admission.py`, `wakes.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..core.result import StatefulResult, result_of
from ..core.state import State
from ..model.errors import CancellationRequested, LoopwrightError
from ..model.event_types import AgentEventType
from ..model.family_errors import WorkflowRunError
from ..model.records import Record, SendFinished, SendStarted, UserMessageAdded
from ..model.usage import NO_USAGE
from ..ports.store import InboxItem, TakeItems
from . import wakes
from .actor import ACTORS
from .beside import run_beside
from .journal import Journal
from .kernel import Kernel
from .running import RunContext, said
from .turn import Begun, Turn, ended


def first_input(state: State) -> list[Record]:
    """What a child is told first; nothing when it waits in its inbox."""
    family = state.facts.family
    spawned = None if family is None else family.spawned
    return [] if spawned is None or spawned.input is None else [UserMessageAdded(spawned.input)]


def stopped_before_it_began(state: State, items: Sequence[InboxItem]) -> bool:
    """True when a child or run was stopped after what it was told last, and nothing of that began."""
    stops = [item.seq for item in items if item.kind == "stop"]
    if not stops:
        return False
    if state.facts.send is None and (state.workflow is not None or first_input(state)):
        return True  # it was made with what it is told
    assert state.facts.family is not None
    said = [item.seq for item in items if item.kind == "message"]
    return state.facts.family.spawned is not None and bool(said) and max(stops) > max(said)


async def never_begun(turn: Turn, items: Sequence[InboxItem], start: SendStarted) -> StatefulResult:
    """Ends such a child or run: what it was told is taken by a send of its own, cancelled at once."""
    journal = turn.journal
    state = journal.state
    heard = first_input(state) if state.facts.send is None else []
    if state.workflow is None:  # nobody talks to a run
        heard += await said(journal.kernel, state, items)
    finished = SendFinished(
        outcome="cancelled", error_code=CancellationRequested.code, error_message="stopped before it began"
    )
    ops = (TakeItems(tuple([item.item_id for item in items])), *wakes.told(journal, "cancelled", "", NO_USAGE))
    await journal.commit([start, *heard, finished], sync=True, release=True, ops=ops)
    return result_of(journal.state)


def hear_stops_after(turn: Turn, items: Sequence[InboxItem]) -> None:
    """The first send of a child or run has begun: a stop that came after `items` were seen is meant for it."""
    turn.journal.stop_floor = max([item.seq for item in items], default=0)


def announce(kernel: Kernel, state: State) -> None:
    """Says that a child in the background ended, once: with its first send."""
    family, send = state.facts.family, state.facts.send
    spawned = None if family is None else family.spawned
    if spawned is None or spawned.awaited or send is None or send.finished is None or state.facts.sends != 1:
        return
    result = result_of(state)
    kernel.emit(
        spawned.parent_id,
        AgentEventType.SUBAGENT_COMPLETED,
        state.facts.session_id,
        result.status,
        result.rounds,
        result.final_text,
        agents=spawned.agents[:-1],
    )


def beside_parent(turn: Turn, parent: RunContext, begun: Begun) -> Begun:
    """`begun`, stopped or left when its parent is."""
    return functools.partial(_with_parent, turn, parent, begun)


async def _with_parent(turn: Turn, parent: RunContext, begun: Begun) -> StatefulResult:
    unsubscribe = parent.token.on_cancel(functools.partial(_stop, turn, parent.journal))
    try:
        return await ended(begun)
    finally:
        unsubscribe()


def _stop(turn: Turn, parent: Journal, reason: str) -> None:
    if parent.left or parent.lease is None:
        turn.leave(reason)
    else:
        turn.token.cancel(reason)


async def after_run(kernel: Kernel, state: State) -> None:
    """After a run of a session with a family that nobody waited for right here."""
    announce(kernel, state)
    await parent_goes_on(kernel, state)


async def parent_goes_on(kernel: Kernel, state: State) -> None:
    """After a child ended or waits without its parent waiting for it right here: the parent hears of it, or is run beside."""
    family = state.facts.family
    if family is None or family.spawned is None or not (state.active is None or state.active.paused):
        return
    parent_id = family.spawned.parent_id
    actor = ACTORS.find(kernel.store.identity, parent_id)
    if actor is None or actor.token is None:
        run_beside(kernel, parent_id)
        return
    try:
        head = (await kernel.store.lookup(parent_id)).head
    except LoopwrightError:
        return  # it is gone, or the store is away; what was put into its inbox is there
    actor.inbox_seq = max(actor.inbox_seq, head.inbox_seq)


def no_conversation(run_id: str) -> WorkflowRunError:
    """The error of a message for a workflow run, which nobody would hear."""
    return WorkflowRunError(
        run_id, "a workflow run takes no messages; signal() reaches its waits, submit_input() its questions"
    )
