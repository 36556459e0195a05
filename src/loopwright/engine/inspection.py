"""Reading sessions without running them.

Owns: messages, open work and figures of a session, straight from the store. Must not know: turns and leases.
Read next: `journal.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..core.result import StatefulResult
from ..core.state import State
from ..core.window import window
from ..model.messages import Message, ToolCall
from ..model.records import Interaction
from ..model.usage import Usage
from ..ports.store import ForkPoint, Status, Store, StoredRecord
from . import open_questions
from .journal import load_state, opened_state


class SessionStats(Struct, frozen=True, kw_only=True):
    """Figures of a session."""

    session_id: str
    status: Status
    agent_name: str
    records: int
    sends: int
    usage: Usage
    created_at: float
    """UTC epoch seconds."""
    updated_at: float
    """UTC epoch seconds."""
    takeovers: int
    waiting: int
    """Messages in the inbox that no send took yet: the next one says them first."""
    base: ForkPoint | None = None
    """Of a fork: where it left its base; sends and usage are its own."""


async def read_state(store: Store, session_id: str) -> State:
    """The session's state as of now, read from its whole journal. Raises `SessionNotFoundError`."""
    await store.lookup(session_id)
    return await load_state(session_id, await store.read(session_id))


async def read_messages(store: Store, session_id: str, *, whole: bool) -> tuple[Message, ...]:
    """The window or, if `whole`, everything that was said, verbatim; oldest first. Raises `SessionNotFoundError`."""
    head = (await store.lookup(session_id)).head
    if not whole:
        return window(await opened_state(store, head))
    return tuple((await load_state(session_id, unfolded(await store.read(session_id)))).messages)


def unfolded(rows: Sequence[StoredRecord]) -> list[StoredRecord]:
    """The records without those that took something out of the window.

    For messages alone: what stands behind such a record gets another position.
    """
    return [row for row in rows if row.kind != "fold_made"]


async def pending_of(store: Store, session_id: str) -> tuple[tuple[ToolCall, ...], tuple[Interaction, ...]]:
    """(open calls, open questions)."""
    state = await read_state(store, session_id)
    if state.active is None:
        return (), ()
    result = await open_questions.result_now(store, state)
    return result.pending_tool_calls, result.pending_interactions


async def newest_result(store: Store, session_id: str) -> StatefulResult | None:
    """The result of the newest send; None without one, and while one runs or is interrupted. Raises `SessionNotFoundError`."""
    state = await opened_state(store, (await store.lookup(session_id)).head)
    send = state.facts.send
    if send is None or (send.finished is None and not send.paused):
        return None
    return await open_questions.result_now(store, state)


async def stats_of(store: Store, session_id: str) -> SessionStats:
    """Figures from the head and the inbox alone."""
    found = await store.lookup(session_id)
    head = found.head
    return SessionStats(
        session_id=session_id,
        status=head.status,
        agent_name=head.agent_name,
        records=head.position,
        sends=head.sends,
        usage=head.usage,
        created_at=head.created_at,
        updated_at=head.updated_at,
        takeovers=head.takeovers,
        waiting=sum(item.kind != "stop" for item in found.waiting),
        base=head.base,
    )
