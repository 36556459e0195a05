"""How a child is entered: by its parent, which waits for it, and how the parent goes on otherwise.

Owns: the turn of an awaited child, and who is woken when nobody waits. Must not know: how children are made (`children.py`).
Read next: `admission.py`, `wakes.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..core import result as results
from ..core.result import StatefulResult
from ..core.state import State
from ..model.errors import LoopwrightError, SessionBusyError
from ..model.records import UserMessageAdded
from .actor import ACTORS
from .beside import run_beside
from .journal import Journal
from .kernel import Kernel
from .running import RunContext
from .turn import AS_SET, Begun, Turn, ended

if TYPE_CHECKING:
    from .admission import Admission


async def run_child(admission: Admission, session_id: str, parent: RunContext) -> StatefulResult | None:
    """Begins or continues a child whose parent waits for it right here; None while another process runs it.

    The child stops with its parent; when the parent leaves its own run to others, so does the child.
    """

    async def begin(turn: Turn) -> Begun:
        await admission.load(turn)
        state = turn.journal.state
        turn.journal.awaited = True
        if state.active is not None:
            begun = await admission.left_behind(turn, "its parent goes on")
            assert begun is not None
        elif state.facts.send is not None:
            return results.result_of(state)
        else:
            family = state.facts.family
            assert family is not None
            assert family.spawned is not None
            first = family.spawned.input
            begun = await admission.open(turn, [] if first is None else [UserMessageAdded(first)])
        return functools.partial(_with_parent, turn, parent, begun)

    async with admission.turn(session_id) as actor:
        try:
            return await ended(await admission.admitted(actor, AS_SET, begin, wait_s=0.0))
        except SessionBusyError:
            return None


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
