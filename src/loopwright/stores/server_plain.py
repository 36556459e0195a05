"""Transitions that a server can check and write by one statement, in one round trip.

Owns: which these are, their parameters, and whether one was written when the answer was lost. Must not know: any server.
A transition that the statement leaves out was refused; `server_batch.py` says why.
Read next: `server.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ..ports.store import Acquire, Committed, Head, Lease, Transition


def are_plain(transitions: Sequence[Transition | None]) -> bool:
    """No operations, nothing rare about the heads, each session once, nothing left for others to go on with."""
    seen: set[str] = set()
    for one in transitions:
        if one is None or one.ops or one.session_id in seen:
            return False
        change = one.head
        if one.release and change.status is None:
            return False  # what is released without an end is work for others, who are told
        if change.window_start is not None or change.checkpoint is not None:
            return False
        if change.min_format is not None or change.title is not None:
            return False
        seen.add(one.session_id)
    return True


def parameters(owner: str, transitions: Sequence[Transition]) -> list[Any]:
    """The values of `Statements.COMMIT_PLAIN`: the owner, a list for each column of the transitions, then of their records."""
    heads = [_head_row(one) for one in transitions]
    records = [
        (one.session_id, n, r.kind, r.version, r.at, r.body) for one in transitions for n, r in enumerate(one.records)
    ]
    return [owner, *_columns(heads, 21), *_columns(records, 6)]


def longest_lease(transitions: Sequence[Transition]) -> float:
    """For how many seconds the owner must be alive after these."""
    return max((t.lease.ttl_s for t in transitions if isinstance(t.lease, Acquire) and not t.release), default=0.0)


def was_written(transition: Transition, head: Head, token: bytes) -> bool:
    """Whether the head, read after the answer was lost, is as this transition left it.

    Only its sender can have left it so: positions never repeat under one epoch, and a token is drawn once.
    """
    lease, end = transition.lease, transition.expect + len(transition.records)
    if head.position != end:
        return False
    if not transition.release:
        return token == lease.token and (not isinstance(lease, Lease) or head.epoch == lease.epoch)
    return isinstance(lease, Lease) and head.epoch == lease.epoch and head.owner is None


def committed(head: Head) -> Committed:
    """The answer that was lost."""
    return Committed(head.position, head.epoch, head.inbox_seq, head.takeovers)


def _head_row(one: Transition) -> tuple[Any, ...]:
    lease, change = one.lease, one.head
    held = isinstance(lease, Lease)
    return (
        one.session_id,
        one.expect,
        lease.epoch if isinstance(lease, Lease) else None,
        lease.token,
        int(one.release),
        one.if_inbox,
        len(one.records),
        change.status,
        max([record.at for record in one.records], default=0.0),
        int(held and change.progress and bool(one.records)),
        change.sends,
        *[int(count) for count in structs.astuple(change.usage)],
        int(held),
    )


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    return [[row[n] for row in rows] for n in range(count)]
