"""Where a session can be forked, and how a fork begins.

Owns: what a round boundary is, the records that a fork starts with. Must not know: stores.
Read next: `engine/forking.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.errors import CancellationRequested
from ..model.records import AssistantMessageAdded, Record, SendFinished, SendStarted, SessionForked
from .calls import aborted
from .state import State

REASON = "the session was forked here"


def is_boundary(state: State, newest: Record) -> bool:
    """True when a fork may begin right after `newest`, the last record of `state`.

    No call is open, or the reply that asked for calls was just stored and nothing was done about any of them yet; and an
    accepted input is there as a whole.
    """
    if isinstance(newest, SendStarted):
        return False
    return not state.batch or isinstance(newest, AssistantMessageAdded)


def nearest(boundaries: Sequence[int], position: int) -> list[int]:
    """The boundaries next to a position, which is none of them: the one before and the one after, where there is one."""
    before = [one for one in boundaries if one < position]
    after = [one for one in boundaries if one > position]
    return [*before[-1:], *after[:1]]


def beginning(state: State, session_id: str, base_id: str) -> list[Record]:
    """The own records of a fork of `state`: it says what it is, and nothing of the base is open in it."""
    # The keys of open calls are those of the session that made them, so they are answered by the state before.
    records: list[Record] = [SessionForked(session_id, base_id, state.position), *aborted(state, REASON)]
    if (send := state.active) is not None:
        code = CancellationRequested.code
        records.append(SendFinished(outcome="cancelled", rounds=send.rounds, error_code=code, error_message=REASON))
    return records
