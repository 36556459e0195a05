"""One write at a time inside an open transaction: transitions, new sessions, inbox items.

Owns: the guarded statements, their order, and what is said when a guard does not match.
Must not know: threads, event loops, when the transaction is committed.
Read next: `sqlite_commits.py`, which makes batches of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import structs

from ..late import Late
from ..model.errors import (
    InvariantError,
    SessionExistsError,
    SessionGoneError,
    SessionMovedError,
    SessionNotFoundError,
)
from ..model.usage import NO_USAGE, Usage
from ..ports.store import (
    Acquire,
    Committed,
    CreateSession,
    DropSession,
    DropTimer,
    EncodedRecord,
    Enqueued,
    Head,
    HoldMoney,
    InboxItem,
    MarkItem,
    NewSession,
    Op,
    PutItem,
    PutTimer,
    RunInside,
    SettleMoney,
    Status,
    TakeItems,
    Transition,
)
from . import ownership
from . import sqlite_statements as sql
from .derived import fresh_head
from .guard import check
from .sqlite_schema import Execute

if TYPE_CHECKING:
    from . import forks, sqlite_deletion, sqlite_forks, sqlite_money
else:
    forks = Late("loopwright.stores.forks")
    sqlite_deletion = Late("loopwright.stores.sqlite_deletion")
    sqlite_forks = Late("loopwright.stores.sqlite_forks")
    sqlite_money = Late("loopwright.stores.sqlite_money")

SHIFT: Final = 32

Guard: TypeAlias = tuple[int, int, int, bytes | None, str | None, int, Status, int, float]
"""A row of `sql.GUARD`: key, position, epoch, token, owner, inbox_seq, status, takeovers, updated_at."""

_AS_THEY_ARE: Final = (None, None, None, None)

_TOKEN_FIELDS: Final = Usage.__struct_fields__.index("nanodollars")
"""So many fields of a usage come before those of money, in the order of `sql.MOVE_AND_SPEND`."""


class SqliteWrites:
    """The writes of one owner on one connection. A refusal (a `LoopwrightError`) may leave rows to roll back only after
    `touched` became true."""

    def __init__(self, execute: Execute, owner: str, run_inside: Callable[[RunInside], None]) -> None:
        self._execute = execute
        self._run_inside = run_inside
        self._owner = owner
        self._alive_until = 0.0
        self.touched = False
        """Whether the last write had changed rows when it was refused."""

    def commit(self, transition: Transition) -> Committed:
        """See `Store.commit`."""
        self.touched = False
        guard = self._guard(transition.session_id)
        key, position, epoch, token, owner, inbox_seq, status, takeovers, updated_at = guard
        takeover = check(
            transition,
            self._remaining_s,
            position=position,
            epoch=epoch,
            token=token,
            stranger=None if owner == self._owner else owner,
            inbox_seq=inbox_seq,
        )
        records, lease, change = transition.records, transition.lease, transition.head
        if isinstance(lease, Acquire):
            epoch += 1
            takeovers += takeover
            if not transition.release:
                self._stay_alive(lease.ttl_s)
        elif records and change.progress:
            takeovers = 0
        self.touched = True
        if records:
            self._insert_records(key << SHIFT | position, records)
            position += len(records)
            for record in records:
                if record.at > updated_at:
                    updated_at = record.at
        owner, token = (None, None) if transition.release else (self._owner, lease.token)
        moved = (key, position, change.status or status, updated_at, epoch, owner, token, takeovers)
        if (usage := change.usage) is not NO_USAGE:
            if change.sends or usage.nanodollars or usage.unpriced_calls:
                self._execute(sql.MOVE_AND_COUNT, (*moved, *structs.astuple(usage), change.sends))
            else:
                self._execute(sql.MOVE_AND_SPEND, (*moved, *structs.astuple(usage)[:_TOKEN_FIELDS]))
        elif change.sends:
            self._execute(sql.MOVE_AND_BEGIN, (*moved, change.sends))
        else:
            self._execute(sql.MOVE_HEAD, moved)
        adjusted = (change.window_start, change.checkpoint, change.min_format, change.title)
        if adjusted != _AS_THEY_ARE:
            self._execute(sql.ADJUST_HEAD, (key, *adjusted))
        if transition.ops:
            inbox_seq += self._apply(key, position, updated_at, transition)
        return Committed(position, epoch, inbox_seq, takeovers)

    def create(self, session: NewSession) -> Head:
        """See `Store.create`."""
        self.touched = False
        session = self._rooted(session)
        if not self._insert_session(session):
            raise SessionExistsError(session.session_id)
        return fresh_head(session)

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...]) -> Enqueued:
        """See `Store.enqueue`."""
        self.touched = False
        for op in ops:
            if not isinstance(op, PutItem | PutTimer | DropTimer):
                raise InvariantError(f"{type(op).__name__} needs a lease and cannot ride with an enqueue")
        stands = all(self._stands(op, session_id) for op in ops)
        added = self._add_item(session_id, item) if item is not None and stands else None
        if added is None:
            guard = self._guard(session_id)
            added = guard[0], guard[5], guard[6]
            if item is not None or not stands:
                return Enqueued(guard[5], True, guard[6], self._waiting(guard[0]))
        key, inbox_seq, status = added
        for op in ops:
            inbox_seq += self._apply_one(op, key, session_id)
        return Enqueued(inbox_seq, False, status, self._waiting(key))

    def forget_heartbeat(self) -> None:
        """After a rollback: the row that was thought to be written may not be there."""
        self._alive_until = 0.0

    def _guard(self, session_id: str) -> Guard:
        guard: Guard | None = self._execute(sql.GUARD, (session_id,)).fetchone()
        if guard is not None:
            return guard
        if self._execute(sql.IS_GONE, (session_id,)).fetchone():
            raise SessionGoneError(session_id)
        raise SessionNotFoundError(session_id)

    def _remaining_s(self, owner: str) -> float:
        row = self._execute(sql.OWNER, (owner,)).fetchone()
        return ownership.remaining_s(ownership.OwnerRow(*row) if row else None, ownership.monotonic())

    def _stay_alive(self, ttl_s: float) -> None:
        now = ownership.monotonic()
        if now + ttl_s > self._alive_until:
            until = now + ttl_s * ownership.HEARTBEAT_SPARE
            row = ownership.describe(self._owner, until, ttl_s * ownership.HEARTBEAT_SPARE)
            self._execute(
                sql.RENEW_OWNER,
                (row.owner, row.pid, row.started, row.boot_id, row.pid_namespace, row.expires, row.ttl_s),
            )
            self._alive_until = until

    def _insert_records(self, first_id: int, records: tuple[EncodedRecord, ...]) -> None:
        values: list[int | str | float | bytes] = []
        for n, record in enumerate(records, first_id):
            values += (n, record.kind, record.version, record.at, record.body)
        if len(records) <= len(sql.INSERT_RECORDS):
            self._execute(sql.INSERT_RECORDS[len(records) - 1], values)
        else:
            for at in range(0, len(values), 5):
                self._execute(sql.INSERT_RECORD, values[at : at + 5])

    def _rooted(self, session: NewSession) -> NewSession:
        if session.base is None:
            return session
        return structs.replace(session, base=forks.rooted(session.base, sqlite_forks.finder(self._execute)))

    def _insert_session(self, session: NewSession) -> bool:
        base = session.base
        start = 0 if base is None else base.position
        row = self._execute(
            sql.INSERT_SESSION,
            (
                session.session_id,
                start + len(session.records),
                session.min_format,
                session.agent_name,
                session.kind,
                session.parent_id,
                session.lifecycle,
                session.title,
                session.at,
                None if base is None else base.session_id,
                None if base is None else start,
                session.window_start,
                session.checkpoint,
                session.status,
            ),
        ).fetchone()
        if row is None:
            return False
        self.touched = True
        if session.records:
            self._insert_records(row[0] << SHIFT | start, session.records)
        return True

    def _add_item(self, session_id: str, item: InboxItem) -> tuple[int, int, Status] | None:
        row: tuple[int, int, Status] | None
        row = self._execute(sql.COUNT_ITEM, (session_id, item.item_id, item.at)).fetchone()
        if row is not None:
            self.touched = True
            self._execute(sql.INSERT_ITEM, (row[0], item.item_id, row[1], item.kind, item.at, item.body))
        return row

    def _stands(self, op: Op, session_id: str) -> bool:
        """False for a drop of a time for which the timer is not armed."""
        if not isinstance(op, DropTimer) or op.due_at is None:
            return True
        return self._execute(sql.IS_ARMED, (session_id, op.timer_id, op.due_at)).fetchone() is not None

    def _waiting(self, key: int) -> int:
        waiting: int = self._execute(sql.COUNT_WAITING, (key,)).fetchone()[0]
        return waiting

    def _apply(self, key: int, position: int, at: float, transition: Transition) -> int:
        """Applies the operations; answers by how much they raised this session's own inbox count."""
        own = 0
        for op in transition.ops:
            if isinstance(op, TakeItems):
                fits = all(self._changed(sql.TAKE_ITEM, (key, item_id, position)) for item_id in op.item_ids)
            elif isinstance(op, MarkItem):
                fits = self._changed(sql.MARK_ITEM, (key, op.item_id, position))
            elif isinstance(op, HoldMoney):
                fits = True
                sqlite_money.hold(self._execute, op, transition.session_id, at)
            else:
                fits = True
                own += self._apply_one(op, key, transition.session_id)
            if not fits:
                raise SessionMovedError(transition.session_id, expected=transition.expect, actual=transition.expect)
        return own

    def _apply_one(self, op: Op, key: int, session_id: str) -> int:
        match op:
            case PutItem(target, item):
                return int(self._add_item(target, item) is not None and target == session_id)
            case CreateSession(session):
                self._insert_session(self._rooted(session))
            case DropSession(child):
                self._drop(child, session_id)
            case PutTimer(timer_id, due_at, body):
                self._execute(sql.PUT_TIMER, (key, timer_id, due_at, body))
            case DropTimer(timer_id, due_at):
                self._execute(sql.DROP_TIMER, (key, timer_id, due_at))
            case RunInside():
                self._run_inside(op)
            case SettleMoney(hold_id, nanodollars):
                sqlite_money.settle(self._execute, hold_id, nanodollars)
            case TakeItems() | MarkItem() | HoldMoney():
                raise InvariantError(f"{type(op).__name__} outside of a transition")
        return 0

    def _changed(self, statement: str, values: tuple[int | str, ...]) -> bool:
        return self._execute(statement, values).fetchone() is not None

    def _drop(self, session_id: str, parent_id: str) -> None:
        row = self._execute(sql.CHILD, (session_id,)).fetchone()
        if row is None:
            return
        if row != (parent_id, "ephemeral"):
            raise InvariantError(f"session {session_id!r} is no ephemeral child of {parent_id!r}; nothing was written")
        sqlite_deletion.bury(self._execute, session_id, cascade=True)
