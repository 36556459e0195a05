"""What the sessions of a store used, added up from their journals.

Owns: which records count, by what they are grouped. Must not know: terminals.
Every record with a `usage` counts, whatever it stands for: replies, failed attempts, and what later versions add.
What deleted sessions used is gone with them.
Read next: `usage_view.py`, `usage_command.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ..model.codec import is_sealed, is_sealed_title
from ..model.context_records import FoldFailed, FoldMade
from ..model.errors import SessionGoneError, SessionNotFoundError, StoreCorruptError
from ..model.records import AttemptFailed, SendStarted
from ..model.usage import NO_USAGE, Usage
from ..ports.ledger import BudgetAccount, Ledger
from ..ports.prices import Prices
from ..ports.store import Head, SessionQuery
from ..ports.store_admin import SessionStore
from .journal_lines import record_of

Grouping: TypeAlias = Literal["session", "model", "day", "agent", "send"]

UNNAMED: Final = "(not named)"
"""The model of calls of which no one said it."""

FOLDS: Final = "(folds)"
"""The model of calls of a fold of which no one said it, such as all of one that failed."""

UNDATED: Final = "(no date)"
"""The day of calls whose stored time is no time."""

_PAGE: Final = 500
_HOLDS_USAGE: Final = b'"usage"'
LOOKED_AT: Final = frozenset(
    {"send_started", "cost_settled", "assistant_message_added", "attempt_failed", "fold_made", "fold_failed"}
)
"""Kinds that say something here; they are read whether they hold that word or not, since a damaged one may have lost it."""


class PaidCall(Struct, frozen=True, kw_only=True):
    """One record with a usage."""

    session_id: str
    agent: str
    send: int
    """The send that it belongs to, from 1; 0 before the first."""
    at: float
    model: str
    usage: Usage
    failed: bool
    fold: bool = False
    """It was made for a note, not for a reply."""


class UsageGroup(Struct, kw_only=True):
    """A row of the report: what several calls used together."""

    key: str
    title: str = ""
    """Of the session, in a report by session."""
    usage: Usage = NO_USAGE
    failed: int = 0
    """Calls that gave nothing."""
    computed: int = 0
    """Nanodollars by the price list that was asked for."""
    uncomputed: int = 0
    """Calls that it has no price for."""
    last: float = 0.0
    """When the newest of the calls was stored, in UTC epoch seconds."""

    def add(self, other: UsageGroup) -> None:
        """Adds what another row holds."""
        self.usage += other.usage
        self.failed += other.failed
        self.computed += other.computed
        self.uncomputed += other.uncomputed
        self.last = max(self.last, other.last)


class UsageReport(Struct, kw_only=True):
    """Groups in the order in which they are shown, and their sum."""

    by: Grouping
    groups: list[UsageGroup]
    total: UsageGroup
    with_prices: bool
    budgets: list[BudgetAccount] = []
    """Accounts that sessions share; none in the report of one session."""
    unreadable: int = 0
    """Records that this version cannot read, and sessions of which records are missing: what they hold is not counted."""
    unreadable_budgets: int = 0
    """Accounts with a value of another type; they are left out."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    by: Grouping
    session_id: str | None = None
    since: float = -math.inf
    """UTC epoch seconds."""
    prices: Prices | None = None


async def usage_report(store: SessionStore, wanted: Wanted) -> UsageReport:
    """Reads the journals of all sessions, or of one, in pages. Raises `SessionNotFoundError` for an unknown one."""
    if wanted.session_id is None:
        heads = await store.list(SessionQuery(limit=sys.maxsize))
    else:
        heads = [(await store.lookup(wanted.session_id)).head]
    groups: dict[str, UsageGroup] = {}
    total = UsageGroup(key="total")
    unreadable = 0
    for head in heads:
        if time_of(head.updated_at) < wanted.since:
            continue
        async for call in _calls_of(store, head):
            if call is None:
                unreadable += 1
            elif not call.at < wanted.since:  # nobody knows it of a call without a time, which is not lost for that
                one = _row(call, wanted)
                title = _title(head) if wanted.by == "session" else ""
                groups.setdefault(one.key, UsageGroup(key=one.key, title=title)).add(one)
                total.add(one)
    accounts, left_out = ([], 0) if wanted.session_id is not None else await _accounts(store)
    return UsageReport(
        by=wanted.by,
        groups=_ordered(groups.values(), wanted.by),
        total=total,
        with_prices=wanted.prices is not None,
        budgets=accounts,
        unreadable=unreadable,
        unreadable_budgets=left_out,
    )


async def _accounts(ledger: Ledger) -> tuple[list[BudgetAccount], int]:
    """Those that hold what accounts hold, and how many others there are."""
    found: list[BudgetAccount] = []
    while page := await ledger.budgets(after=found[-1].key if found else "", limit=_PAGE):
        found += page
    sound = [one for one in found if type(one.key) is str and type(one.spent) is type(one.held) is int]
    return sound, len(found) - len(sound)


async def _calls_of(store: SessionStore, head: Head) -> AsyncIterator[PaidCall | None]:
    """Calls of this session, None for a record that cannot be read. Of a fork: its own, and none of its base's."""
    position, send = 0 if head.base is None else head.base.position, 0
    while True:
        try:
            rows = await store.read(head.session_id, after=position, limit=_PAGE)
        except (SessionNotFoundError, SessionGoneError):
            return  # deleted since it was listed
        except StoreCorruptError:
            yield None
            return
        for row in rows:
            if row.kind not in LOOKED_AT and not _may_hold_usage(row.body):
                continue
            record = record_of(row)
            if isinstance(record, SendStarted):
                send = record.index
                continue
            usage = getattr(record, "usage", None)
            if record is None:
                yield None
            elif isinstance(usage, Usage) and usage != NO_USAGE:
                yield PaidCall(
                    session_id=head.session_id,
                    agent=head.agent_name,
                    send=send,
                    at=time_of(row.at),
                    model=str(getattr(record, "model", "") or ""),
                    usage=usage,
                    failed=isinstance(record, AttemptFailed | FoldFailed),
                    fold=isinstance(record, FoldMade | FoldFailed),
                )
        if len(rows) < _PAGE:
            return
        position = rows[-1].position + 1


def _may_hold_usage(body: object) -> bool:
    """False where decoding would be for nothing; SQLite keeps also what is no bytes."""
    return not isinstance(body, bytes) or is_sealed(body) or _HOLDS_USAGE in body


def time_of(at: object) -> float:
    """A stored time; NaN for a value that is none."""
    return float(at) if isinstance(at, int | float) and day_of(at) != UNDATED else math.nan


def _row(call: PaidCall, wanted: Wanted) -> UsageGroup:
    failed = call.usage.calls if call.failed else 0
    row = UsageGroup(key=_key(call, wanted.by), usage=call.usage, failed=failed, last=call.at)
    if wanted.prices is not None and call.usage.total_tokens:
        cost = wanted.prices.cost(call.usage, model=call.model, provider=None, at=call.at)
        row.computed, row.uncomputed = (0, max(call.usage.calls, 1)) if cost is None else (cost, 0)
    return row


def _title(head: Head) -> str:
    return "(encrypted)" if is_sealed_title(head.title) else str(head.title or "")


def _key(call: PaidCall, by: Grouping) -> str:
    match by:
        case "session":
            return str(call.session_id)
        case "model":
            return call.model or (FOLDS if call.fold else UNNAMED)
        case "agent":
            return str(call.agent)
        case "send":
            return str(call.send)
        case "day":
            return day_of(call.at)


def day_of(at: float) -> str:
    """The local date of a time, as `2026-11-22`; `UNDATED` for a number that is none."""
    try:
        return datetime.fromtimestamp(at).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return UNDATED


def _ordered(groups: Iterable[UsageGroup], by: Grouping) -> list[UsageGroup]:
    """Days and sends as they came, others with the dearest first."""
    if by == "send":
        return sorted(groups, key=lambda group: int(group.key))
    if by == "day":
        return sorted(groups, key=lambda group: group.key)
    return sorted(
        groups,
        key=lambda one: (-(one.usage.nanodollars or one.computed), -one.usage.total_tokens, one.key),
    )
