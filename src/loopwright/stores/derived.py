"""Values that every store derives the same way: a head from its row, the head of a new session, the id of an artifact,
which timers a claim answers.

Owns: these rules. Must not know: where anything is kept.
Read next: `memory_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..late import Late
from ..model.usage import NO_USAGE, Usage
from ..ports.store import WAKING_KINDS, ClaimQuery, DueTimer, ForkPoint, Head, NewSession

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")


HEAD_COLUMNS: Final = (
    "session_id, position, window_start, checkpoint, epoch, owner, inbox_seq, takeovers, agent_name, kind, parent_id,"
    " lifecycle, title, min_format, status, created_at, updated_at, sends, input_tokens, output_tokens, cached_tokens,"
    " cache_write_tokens, reasoning_tokens, calls, estimated, nanodollars, unpriced_calls, key, base_id, base_position"
)
"""What every SQL store selects of a head, in the order of `head_of`; `key` is the number that its other rows refer to."""

KEY_AT: Final = 27
"""Where `key` stands among them."""

WAKING: Final = ", ".join(f"'{kind}'" for kind in WAKING_KINDS)
"""`WAKING_KINDS` as SQL has a list."""


def head_of(row: Sequence[Any], left_s: Callable[[str], float]) -> Head:
    """A head from `HEAD_COLUMNS`; `left_s` says how long an owner's leases are still alive."""
    owner, base_id = row[5], row[28]
    return Head(
        session_id=row[0],
        position=row[1],
        window_start=row[2],
        checkpoint=row[3],
        epoch=row[4],
        owner=owner,
        expires_in_s=0.0 if owner is None else left_s(owner),
        inbox_seq=row[6],
        takeovers=row[7],
        agent_name=row[8],
        kind=row[9],
        parent_id=row[10],
        lifecycle=row[11],
        title=row[12],
        min_format=row[13],
        status=row[14],
        created_at=row[15],
        updated_at=row[16],
        sends=row[17],
        usage=_usage(*row[18:27]),
        base=None if base_id is None else ForkPoint(base_id, row[29]),
    )


def _usage(*counts: int) -> Usage:
    if not any(counts):
        return NO_USAGE
    given, produced, cached, cache_write, reasoning, calls, estimated, nanodollars, unpriced = counts
    return Usage(given, produced, cached, cache_write, reasoning, calls, bool(estimated), nanodollars, unpriced)


def fresh_head(session: NewSession) -> Head:
    """The head that a session begins with."""
    return Head(
        session_id=session.session_id,
        position=len(session.records) + (0 if session.base is None else session.base.position),
        window_start=session.window_start,
        checkpoint=session.checkpoint,
        epoch=0,
        owner=None,
        expires_in_s=0.0,
        inbox_seq=0,
        takeovers=0,
        agent_name=session.agent_name,
        kind=session.kind,
        parent_id=session.parent_id,
        lifecycle=session.lifecycle,
        title=session.title,
        min_format=session.min_format,
        status=session.status,
        created_at=session.at,
        updated_at=session.at,
        base=session.base,
    )


def artifact_name(session_id: str, digest: str) -> str:
    """The id of an artifact: equal for equal content of one session, different between sessions."""
    return f"art_{hashlib.sha256(f'{session_id} {digest}'.encode(errors='surrogatepass')).hexdigest()[:32]}"


def timer_names(query: ClaimQuery) -> Sequence[str]:
    """The names under which tables have the timers that are asked for: the agents', and that of timers which a version
    before 5 armed in tables of today, "", whose agent only the head says.

    Each is asked for alone: an index by name and time then gives the first ones in order, and the others are not read.
    """
    return list(dict.fromkeys((*query.agent_names, "")))


def soonest(
    query: ClaimQuery, due: Sequence[DueTimer], later: Sequence[float | None]
) -> tuple[tuple[DueTimer, ...], float | None]:
    """What a claim answers of the timers that are due, and of the next times, of each such name."""
    first = sorted(due, key=lambda timer: timer.due_at)[: query.limit]
    return tuple(first), min([at for at in later if at is not None], default=None)
