"""Forking a session: a new one that begins with another's records.

Owns: finding the place, the one commit that makes the fork. Must not know: how a store keeps the two together.
Read next: `core/boundaries.py`, `ports/store.py` (`ForkPoint`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..config import AgentLoopConfig
from ..core.boundaries import beginning, is_boundary, nearest
from ..core.chain import vouched_from
from ..core.state import State, apply
from ..model.archive_errors import ForkPositionError
from ..model.codec import decode_record
from ..model.context_records import FoldMade
from ..model.errors import StoreCorruptError
from ..model.family_errors import WorkflowRunError
from ..model.records import Record
from ..ports.ambient import breathe
from ..ports.store import EncodedRecord, ForkPoint, NewSession, StoredRecord
from .arguments import usable_id
from .journal import FOLDED_AT_ONCE, check_known, checked_record, format_needed, link_of, load_state
from .kernel import Kernel


async def fork(kernel: Kernel, session_id: str, at: int | None, new_id: str | None, title: str | None) -> str:
    """See `StatefulAgentLoop.fork`. Reads the base without its turn or lease: what is stored never changes any more."""
    head = (await kernel.store.lookup(session_id)).head
    check_known(head, kernel.config.agent_name)
    if head.kind == "workflow":
        raise WorkflowRunError(session_id, "a workflow run cannot be forked; run its spec again")
    fork_id = kernel.ambient.new_id("sess") if new_id is None else usable_id(new_id)
    rows = await kernel.store.read(session_id, limit=head.position)
    position = place(session_id, await boundaries(session_id, rows), at)
    state = await load_state(session_id, rows[:position])
    now = kernel.ambient.now()
    records = own_records(kernel.config, fork_id, beginning(state, fork_id, session_id), now, state, rows)
    window_start, checkpoint = window_in(rows[:position])
    kernel.ambient.reach("fork.before")
    await kernel.store.create(
        NewSession(
            session_id=fork_id,
            agent_name=head.agent_name,
            records=records,
            at=now,
            kind=head.kind,
            title=head.title if title is None else title,
            min_format=max(head.min_format, format_needed(records)),
            base=ForkPoint(session_id, position),
            window_start=window_start,
            checkpoint=checkpoint,
        )
    )
    kernel.ambient.reach("fork.after")
    return fork_id


def window_in(rows: Sequence[StoredRecord]) -> tuple[int, int | None]:
    """(where the window begins, where the newest checkpoint is) of a journal of these records, from the first one on.

    A fold counts once a checkpoint behind it knows what came before its window.
    """
    window_start, checkpoint, folded = 0, None, 0
    for row in rows:
        if row.kind == "fold_made":
            record = decode_record(row.kind, row.version, row.body)
            folded = record.through if isinstance(record, FoldMade) else folded
        elif row.kind == "state_checkpointed":
            window_start, checkpoint = folded, row.position
    return window_start, checkpoint


def own_records(
    config: AgentLoopConfig, fork_id: str, own: Sequence[Record], at: float, state: State, rows: Sequence[StoredRecord]
) -> tuple[EncodedRecord, ...]:
    """A fork's first records as they are stored, the link that goes on with the base's chain among them.

    `state`: the base's where it is left. `rows`: all records of the base.
    """
    facts, leaves = state.facts, state.position
    stored = [checked_record(record, at) for record in own]
    if not config.hash_chain:
        return tuple(stored)
    since = vouched_from(facts.session_id, facts.chain, rows, leaves, config.hash_chain_key)
    link = link_of(config, fork_id, facts.chain, since, [*rows[since:leaves], *stored])
    return tuple(stored) if link is None else (*stored, checked_record(link, at))


def place(session_id: str, found: Sequence[int], at: int | None) -> int:
    """The boundary that was asked for, or the newest. Raises `ForkPositionError` naming the nearest ones."""
    if at is None and found:
        return found[-1]
    if at is None or at not in found:
        raise ForkPositionError(session_id, at or 0, nearest(found, at or 0))
    return at


async def boundaries(session_id: str, rows: Sequence[StoredRecord]) -> list[int]:
    """All round boundaries of a journal, in order. Raises `StoreCorruptError` naming the position of a bad record."""
    state, found = State(), list[int]()
    for count, row in enumerate(rows, 1):
        if count % FOLDED_AT_ONCE == 0:
            await breathe()
        try:
            record = decode_record(row.kind, row.version, row.body)
        except StoreCorruptError as error:
            raise StoreCorruptError(f"session {session_id!r}, position {row.position}: {error}") from error
        apply(state, record, row.at)
        if is_boundary(state, record):
            found.append(state.position)
    return found
