"""Which questions from below are still open: a session's copy of them may be older than the answer.

Owns: looking into the children that asked. Must not know: who answers (`answers.py`), who goes on (`wakes.py`).
Loaded with the first look at a session that waits. Read next: `answers.py`.
"""

from __future__ import annotations

import msgspec

from ..core.result import StatefulResult, result_of
from ..core.state import State
from ..model.errors import SessionGoneError, SessionNotFoundError
from ..ports.store import Store
from .journal import opened_state
from .turn import waiting_outside


async def result_now(store: Store, state: State) -> StatefulResult:
    """The result of the newest send, without questions that were answered below meanwhile. Cost: the children that asked."""
    result = result_of(state)
    if not result.pending_interactions or not (closed := await closed_below(store, state)):
        return result
    left = tuple([one for one in result.pending_interactions if one.id not in closed])
    return msgspec.structs.replace(result, pending_interactions=left)


async def closed_below(store: Store, state: State) -> frozenset[str]:
    """Ids of questions that open calls and steps wait for, and that the children which asked do not wait for any more."""
    closed: set[str] = set()
    for waits in waiting_outside(state):
        asked = {question.id for question in waits.interactions}
        if asked and waits.child_id is not None:
            closed |= asked - await _open_in(store, waits.child_id)
    return frozenset(closed)


async def _open_in(store: Store, session_id: str) -> set[str]:
    try:
        head = (await store.lookup(session_id)).head
        state = await opened_state(store, head)
    except (SessionGoneError, SessionNotFoundError):
        return set()
    if state.active is None:
        return set()
    return {question.id for question in (await result_now(store, state)).pending_interactions}
