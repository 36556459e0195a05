"""What each call does to sessions held in memory: the rules of a store without any technique.

Owns: transitions, inbox, timers, tombstones as plain Python. Must not know: event loops, files.
Read next: `sqlite_writes.py`, which does the same with statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from msgspec import structs

from ..model.errors import (
    ConfigError,
    InvariantError,
    SessionExistsError,
    SessionMovedError,
)
from ..ports.store import (
    Acquire,
    Claimable,
    ClaimQuery,
    Committed,
    CreateSession,
    DropSession,
    DropTimer,
    DueTimer,
    EncodedRecord,
    Enqueued,
    Head,
    HoldMoney,
    InboxItem,
    Lookup,
    MarkItem,
    NewSession,
    Op,
    PutItem,
    PutTimer,
    RunInside,
    SessionQuery,
    SettleMoney,
    StoredRecord,
    TakeItems,
    Transition,
)
from . import memory_forks, ownership
from .derived import fresh_head
from .guard import check
from .memory_data import WAITING, SessionData, SharedData
from .memory_money import MoneyDraft

NO_TRANSACTIONS: Final = "on_commit needs a database: a store in memory has no transaction to take part in"

UNLEASED_OPS: Final = (PutItem, PutTimer, DropTimer)
"""What may ride with an enqueue."""


def stored(records: Sequence[EncodedRecord], start: int) -> list[StoredRecord]:
    """Records with the positions that they get."""
    return [StoredRecord(start + n, r.kind, r.version, r.at, bytes(r.body)) for n, r in enumerate(records)]


def _stands(op: Op, data: SessionData) -> bool:
    """False for a drop of a time for which the timer is not armed."""
    if not isinstance(op, DropTimer) or op.due_at is None:
        return True
    timer = data.timers.get(op.timer_id)
    return timer is not None and timer.due_at == op.due_at


def _updated_at(transition: Transition, head: Head) -> float:
    return max([head.updated_at, *(record.at for record in transition.records)])


class MemoryRules:
    """One owner's calls on shared data. Every method is atomic: it checks first and changes after."""

    has_transactions: ClassVar[bool] = False
    """Whether somebody carries out `RunInside` in the transaction that these changes are written in."""

    def __init__(self, data: SharedData, owner: str) -> None:
        self._data = data
        self._owner = owner

    def create(self, session: NewSession) -> Head:
        """See `Store.create`."""
        if session.session_id in self._data.sessions or session.session_id in self._data.gone:
            raise SessionExistsError(session.session_id)
        self._insert(memory_forks.with_root(self._data, session))
        return self._seen(self._data.sessions[session.session_id])

    def commit(self, transition: Transition) -> Committed:
        """See `Store.commit`."""
        data = self._data.session(transition.session_id)
        money = MoneyDraft(self._data.money)
        takeover = self._check(transition, data, money)
        head, change, lease = data.head, transition.head, transition.lease
        position = head.position + len(transition.records)
        updated_at = _updated_at(transition, head)
        takeovers = 0 if change.progress and transition.records else head.takeovers
        if isinstance(lease, Acquire):
            takeovers = head.takeovers + takeover
            self._live_for(lease.ttl_s)
            data.token = lease.token
        data.records += stored(transition.records, head.position)
        data.head = structs.replace(
            head,
            position=position,
            epoch=head.epoch + isinstance(lease, Acquire),
            owner=None if transition.release else self._owner,
            takeovers=takeovers,
            status=change.status or head.status,
            window_start=head.window_start if change.window_start is None else change.window_start,
            checkpoint=head.checkpoint if change.checkpoint is None else change.checkpoint,
            min_format=head.min_format if change.min_format is None else change.min_format,
            title=head.title if change.title is None else change.title,
            sends=head.sends + change.sends,
            usage=head.usage + change.usage,
            updated_at=updated_at,
        )
        if transition.release:
            data.token = b""
        money.post()
        for op in transition.ops:
            self._apply(op, data)
        return Committed(position, data.head.epoch, data.head.inbox_seq, takeovers)

    def _check(self, transition: Transition, data: SessionData, money: MoneyDraft) -> bool:
        """Raises without having written anything; answers whether the acquire takes the lease from a dead owner."""
        head = data.head
        takeover = check(
            transition,
            self._expires_in_s,
            position=head.position,
            epoch=head.epoch,
            token=data.token,
            stranger=None if head.owner == self._owner else head.owner,
            inbox_seq=head.inbox_seq,
        )
        if transition.ops:
            self._check_ops(transition, data, money)
        return takeover

    def _check_ops(self, transition: Transition, data: SessionData, money: MoneyDraft) -> None:
        at = _updated_at(transition, data.head)
        seen: set[str] = set()
        for op in transition.ops:
            fits = True
            if isinstance(op, TakeItems):
                fits = all(data.positions.get(id_) == WAITING and id_ not in seen for id_ in op.item_ids)
                fits = fits and len(set(op.item_ids)) == len(op.item_ids)
                seen.update(op.item_ids)
            elif isinstance(op, MarkItem):
                fits = op.item_id not in data.positions and op.item_id not in seen
                seen.add(op.item_id)
            elif isinstance(op, DropSession) and op.session_id in self._data.sessions:
                self._check_drop(op.session_id, data.head.session_id)
                money.spend_of(memory_forks.family_of(self._data, op.session_id, cascade=True)[0])
            elif isinstance(op, CreateSession):
                memory_forks.with_root(self._data, op.session)
            elif isinstance(op, RunInside) and not self.has_transactions:
                raise ConfigError(NO_TRANSACTIONS)
            elif isinstance(op, HoldMoney):
                money.hold(op, data.head.session_id, at)
            elif isinstance(op, SettleMoney):
                money.settle(op.hold_id, op.nanodollars)
            if not fits:
                raise SessionMovedError(data.head.session_id, expected=transition.expect, actual=data.head.position)

    def _check_drop(self, session_id: str, parent_id: str) -> None:
        child = self._data.sessions[session_id].head
        if child.parent_id != parent_id or child.lifecycle != "ephemeral":
            raise InvariantError(f"session {session_id!r} is no ephemeral child of {parent_id!r}")
        memory_forks.check_unread(self._data, session_id, cascade=True)

    def _apply(self, op: Op, data: SessionData) -> None:
        match op:
            case TakeItems(item_ids):
                for item_id in item_ids:
                    data.positions[item_id] = data.head.position
                    del data.items[item_id]
            case MarkItem(item_id):
                data.positions[item_id] = data.head.position
            case PutItem(session_id, item):
                target = self._data.sessions.get(session_id)
                if target is not None and item.item_id not in target.positions:
                    self._add(target, item)
            case CreateSession(session):
                if session.session_id not in self._data.sessions and session.session_id not in self._data.gone:
                    self._insert(memory_forks.with_root(self._data, session))
            case DropSession(session_id):
                if session_id in self._data.sessions:
                    self.delete(session_id, cascade=True, copy_to_forks=False)
            case PutTimer(timer_id):
                data.timers[timer_id] = op
                data.paused.discard(timer_id)
            case DropTimer(timer_id):
                if _stands(op, data):
                    data.paused.discard(timer_id)
                    data.timers.pop(timer_id, None)
            case RunInside():
                pass  # where there are transactions, whoever writes this one carries it out
            case HoldMoney() | SettleMoney():
                pass  # drafted while it was checked, and posted

    def read(self, session_id: str, after: int, limit: int | None) -> Sequence[StoredRecord]:
        """See `Store.read`."""
        position, start = self._data.session(session_id).head.position, max(after, 0)
        stop = position if limit is None else min(start + limit, position)
        return tuple(memory_forks.records_between(self._data, session_id, start, stop)) if start < stop else ()

    def lookup(self, session_id: str, item_id: str | None) -> Lookup:
        """See `Store.lookup`."""
        data = self._data.session(session_id)
        return Lookup(self._seen(data), data.waiting(), None if item_id is None else data.positions.get(item_id))

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...]) -> Enqueued:
        """See `Store.enqueue`."""
        data = self._data.session(session_id)
        for op in ops:
            if not isinstance(op, UNLEASED_OPS):
                raise InvariantError(f"{type(op).__name__} needs a lease and cannot ride with an enqueue")
        known = item is not None and item.item_id in data.positions
        duplicate = known or not all(_stands(op, data) for op in ops)
        if not duplicate:
            if item is not None:
                self._add(data, item)
            for op in ops:
                self._apply(op, data)
        return Enqueued(data.head.inbox_seq, duplicate, data.head.status, len(data.waiting()))

    def claim(self, query: ClaimQuery) -> Claimable:
        """See `Store.claim`."""
        known = [
            data
            for data in self._data.sessions.values()
            if data.head.agent_name in query.agent_names and data.head.min_format <= query.max_format
        ]
        open_work = [] if query.timers_only else [data for data in known if data.is_open()]
        free = [head for head in map(self._seen, open_work) if head.expires_in_s <= 0]
        armed = [timer for data in known for timer in data.armed()]
        timers = [timer for timer in armed if timer.due_at <= query.now]
        later = [timer.due_at for timer in armed if timer.due_at > query.now]
        free.sort(key=lambda head: head.updated_at)
        timers.sort(key=lambda timer: timer.due_at)
        return Claimable(tuple(free[: query.limit]), tuple(timers[: query.limit]), min(later, default=None))

    def timers(self, session_id: str) -> Sequence[DueTimer]:
        """See `StoreAdmin.timers`."""
        return sorted(self._data.session(session_id).armed(), key=lambda timer: (timer.due_at, timer.timer_id))

    def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """See `Store.renew`."""
        self._live_for(ttl_s)
        heads = {id_: self._data.sessions[id_].head for id_ in session_ids if id_ in self._data.sessions}
        return {id_: (head.epoch, head.inbox_seq) for id_, head in heads.items()}

    def list(self, query: SessionQuery) -> Sequence[Head]:
        """See `Store.list`."""
        heads = [
            self._seen(data)
            for data in reversed(self._data.sessions.values())
            if (query.status is None or data.head.status == query.status)
            and (query.agent_names is None or data.head.agent_name in query.agent_names)
            and (query.parent_id is None or data.head.parent_id == query.parent_id)
            and (query.kind is None or data.head.kind == query.kind)
            and (query.before is None or data.head.updated_at < query.before)
        ]
        return tuple(sorted(heads, key=lambda head: -head.updated_at)[: query.limit])

    def delete(self, session_id: str, cascade: bool, copy_to_forks: bool) -> int:
        """See `StoreAdmin.delete`."""
        return memory_forks.delete(self._data, session_id, cascade=cascade, copy_to_forks=copy_to_forks)

    def records_of_kinds(self, kinds: Sequence[str]) -> Iterator[tuple[str, StoredRecord]]:
        """Records of some kinds in all sessions, in order within each."""
        for session_id, data in self._data.sessions.items():
            yield from ((session_id, record) for record in data.records if record.kind in kinds)

    def release_all(self) -> None:
        """Gives up every lease of this owner."""
        self._data.owners.pop(self._owner, None)
        for data in self._data.sessions.values():
            if data.head.owner == self._owner:
                data.head = structs.replace(data.head, owner=None)
                data.token = b""

    def _insert(self, session: NewSession) -> None:
        self._data.sessions[session.session_id] = SessionData(fresh_head(session))
        start = 0 if session.base is None else session.base.position
        self._data.sessions[session.session_id].records += stored(session.records, start)

    def _add(self, data: SessionData, item: InboxItem) -> None:
        seq = data.head.inbox_seq + 1
        data.items[item.item_id] = structs.replace(item, seq=seq)
        data.positions[item.item_id] = WAITING
        data.head = structs.replace(data.head, inbox_seq=seq, updated_at=max(data.head.updated_at, item.at))

    def _seen(self, data: SessionData) -> Head:
        return structs.replace(data.head, expires_in_s=self._expires_in_s(data.head.owner))

    def _expires_in_s(self, owner: str | None) -> float:
        return 0.0 if owner is None else ownership.remaining_s(self._data.owners.get(owner), ownership.monotonic())

    def _live_for(self, ttl_s: float) -> None:
        known = self._data.owners.get(self._owner)
        expires = max(ownership.monotonic() + ttl_s, known.expires if known else 0.0)
        self._data.owners[self._owner] = ownership.describe(
            self._owner, expires, max(ttl_s, known.ttl_s if known else 0.0)
        )
