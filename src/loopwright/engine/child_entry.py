"""How a child is entered: by its parent, which waits for it, and how the parent goes on otherwise.

Owns: the turn of an awaited child, and who is woken when nobody waits. Must not know: how children are made (`children.py`).
Read next: `admission.py`, `wakes.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..core.result import StatefulResult
from ..core.state import State
from ..model.errors import LoopwrightError
from ..model.records import Record, UserMessageAdded
from .actor import ACTORS
from .beside import run_beside
from .journal import Journal
from .kernel import Kernel
from .running import RunContext
from .turn import Begun, Turn, ended

if TYPE_CHECKING:
    pass


def first_input(state: State) -> list[Record]:
    """What a child is told first; nothing when it waits in its inbox."""
    family = state.facts.family
    spawned = None if family is None else family.spawned
    return [] if spawned is None or spawned.input is None else [UserMessageAdded(spawned.input)]


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
