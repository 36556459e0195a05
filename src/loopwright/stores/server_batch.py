"""A batch of writes as one transaction on a server: heads are locked and read, judged in memory, and written back.

Owns: what must be read for a write, and what of the outcome must be stored. The judging is that of the store in memory.
Must not know: any server, connections' lives, event loops.
Read next: `memory_rules.py` for the rules, `server.py` for where batches come from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct, field, structs

from ..model.errors import LoopwrightError
from ..ports.store import (
    CreateSession,
    DropSession,
    DropTimer,
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
    TakeItems,
    Transition,
)
from . import ownership, server_forks
from .budget_guard import keys_of
from .derived import KEY_AT, head_of
from .forks import JournalPlace, parts
from .memory_data import WAITING, SessionData, SharedData
from .memory_rules import MemoryRules
from .server_dialect import ServerConnection, Statements
from .server_money import BatchMoney

Outcome: TypeAlias = Any
"""The result of a write, or the error to raise where it is awaited."""


class Needs(Struct):
    """What a write must see."""

    sessions: set[str] = field(default_factory=set[str])
    items: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(session id, item id) whose fate matters."""
    inboxes: set[str] = field(default_factory=set[str])
    """Sessions all of whose waiting items matter."""
    families: set[str] = field(default_factory=set[str])
    """Sessions that may be dropped with their descendants."""
    timers: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(session id, timer id) whose time matters."""
    bases: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """(session id, position) that a fork is to begin at."""
    holds: set[str] = field(default_factory=set[str])
    """Holds of money that are made or settled."""
    accounts: set[str] = field(default_factory=set[str])
    """Accounts that money is to be held in."""
    alone: bool = False
    """In a batch of its own: what fails in it fails alone, and the rows that it copies are all in the tables."""


class ServerRules(MemoryRules):
    """The rules over what one batch has read; liveness is what the server's clock said."""

    has_transactions = True

    def __init__(self, data: SharedData, owner: str, left: dict[str, float], alive_s: float) -> None:
        super().__init__(data, owner)
        self._left = left
        self._alive_s = alive_s
        self.beat_s = 0.0
        """The longest time that this owner must be alive from now on."""
        self.moves_timers = False
        """Whether timers changed without a change of their session's head."""

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...]) -> Enqueued:
        """See `Store.enqueue`."""
        done = super().enqueue(session_id, item, ops)
        if item is None and ops and not done.duplicate:
            self.moves_timers = True
        return done

    def _expires_in_s(self, owner: str | None) -> float:
        if owner is None or ownership.is_abandoned(owner):
            return 0.0
        if owner == self._owner:
            return max(self._alive_s, self.beat_s)
        return self._left.get(owner, 0.0)

    def _live_for(self, ttl_s: float) -> None:
        self.beat_s = max(self.beat_s, ttl_s)


class ServerOffer:
    """One write that somebody waits for."""

    __slots__ = ("future", "losses", "needs", "ops", "session_id", "transition", "write")

    def __init__(
        self,
        session_id: str,
        write: Callable[[MemoryRules], Any],
        needs: Needs,
        future: asyncio.Future[Any],
        ops: tuple[Op, ...] = (),
        *,
        transition: Transition | None = None,
    ) -> None:
        self.transition = transition
        self.session_id = session_id
        self.write = write
        self.needs = needs
        self.future = future
        self.ops = ops
        self.losses: list[BaseException] = []
        """The lost connections of the tries in which a tool's work had begun."""

    @property
    def work(self) -> RunInside | None:
        """What a tool does in the transaction."""
        for op in self.ops:
            if isinstance(op, RunInside):
                return op
        return None


def needs_of_session(session: NewSession) -> Needs:
    """Of `create`."""
    needs = Needs(sessions={session.session_id})
    _add_base(needs, session)
    return needs


def needs_of_deletion(session_id: str) -> Needs:
    """Of `delete`."""
    return Needs(sessions={session_id}, families={session_id}, alone=True)


def needs_of_transition(transition: Transition) -> Needs:
    """Of `commit`."""
    return _needs_of_ops(transition.session_id, transition.ops)


def needs_of_item(session_id: str, item: InboxItem | None, ops: tuple[Op, ...]) -> Needs:
    """Of `enqueue`, which also counts what waits."""
    needs = _needs_of_ops(session_id, ops)
    if item is not None:
        needs.items.add((session_id, item.item_id))
    needs.inboxes.add(session_id)
    return needs


def _needs_of_ops(session_id: str, ops: tuple[Op, ...]) -> Needs:
    needs = Needs(sessions={session_id})
    for op in ops:
        match op:
            case TakeItems(item_ids):
                needs.items.update((session_id, item_id) for item_id in item_ids)
            case MarkItem(item_id):
                needs.items.add((session_id, item_id))
            case PutItem(target, item):
                needs.sessions.add(target)
                needs.items.add((target, item.item_id))
            case CreateSession(session):
                needs.sessions.add(session.session_id)
                _add_base(needs, session)
            case DropSession(child):
                needs.sessions.add(child)
                needs.families.add(child)
            case PutTimer(timer_id) | DropTimer(timer_id):
                if isinstance(op, DropTimer) and op.due_at is not None:
                    needs.timers.add((session_id, timer_id))
            case HoldMoney(hold_id):
                needs.holds.add(hold_id)
                needs.accounts.update(keys_of(op))
            case SettleMoney(hold_id):
                needs.holds.add(hold_id)
            case RunInside():
                needs.alone = True
    return needs


def _add_base(needs: Needs, session: NewSession) -> None:
    if session.base is not None:
        needs.sessions.add(session.base.session_id)
        needs.bases.add((session.base.session_id, session.base.position))
        needs.alone = True


class Fate(Enum):
    """What is known about a commit whose answer was lost."""

    WRITTEN = "written"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


class Batch:
    """One transaction under way on one connection."""

    def __init__(self, connection: ServerConnection, sql: Statements, owner: str, alive_s: float) -> None:
        self._connection = connection
        self._sql = sql
        self._owner = owner
        self._data = SharedData()
        self._left: dict[str, float] = {}
        self._before: dict[str, tuple[Head, bytes]] = {}
        self._keys: dict[str, int] = {}
        self._known_items: dict[str, dict[str, int]] = {}
        self._money = BatchMoney(connection, sql, self._data.money)
        self.rules = ServerRules(self._data, owner, self._left, alive_s)

    async def judge(self, offers: Sequence[ServerOffer]) -> list[Outcome]:
        """Begins the transaction, reads under locks, and applies every write in memory; one outcome each, in order."""
        await self._connection.run(self._sql.BEGIN)
        needs = Needs()
        for offer in offers:
            needs.sessions |= offer.needs.sessions
            needs.items |= offer.needs.items
            needs.inboxes |= offer.needs.inboxes
            needs.families |= offer.needs.families
            needs.timers |= offer.needs.timers
            needs.bases |= offer.needs.bases
            needs.holds |= offer.needs.holds
            needs.accounts |= offer.needs.accounts
        await self._read(needs)
        return [self._applied(offer) for offer in offers]

    async def write(self, offers: Sequence[ServerOffer], outcomes: Sequence[Outcome]) -> None:
        """Stores what the writes that were not refused have changed."""
        data, connection, sql = self._data, self._connection, self._sql
        gone = [id_ for id_ in self._before if id_ in data.gone]
        if gone:
            await self._let_forks_have()
            await connection.run(sql.BURY, gone)
            await connection.run(sql.DELETE_SESSION, gone)
            await server_forks.pass_on(connection, sql, [self._keys[id_] for id_ in gone])
        made = [one for id_, one in data.sessions.items() if id_ not in self._before]
        if made:
            await connection.run_many(sql.INSERT_SESSION, [new_row(one.head) for one in made])
            for session_id, key in await connection.rows(sql.KEYS, [one.head.session_id for one in made]):
                self._keys[session_id] = key
        moved = [one for id_, one in data.sessions.items() if id_ in self._before and self._moved(id_, one)]
        if moved:
            await connection.run_many(sql.MOVE_HEAD, [moved_row(self._keys[one.head.session_id], one) for one in moved])
        orphans = [one for one in moved if one.head.parent_id != self._before[one.head.session_id][0].parent_id]
        for one in orphans:
            await connection.run(sql.ORPHAN, self._keys[one.head.session_id])
        records = [
            (self._keys[one.head.session_id], r.position, r.kind, r.version, r.at, r.body)
            for one in data.sessions.values()
            for r in one.records
        ]
        if records:
            await connection.run_many(sql.INSERT_RECORD, records)
        await self._write_items()
        await self._write_timers(offers, outcomes)
        await self._money.write()
        if sql.NOTIFY and any(_is_claimable(data.sessions[id_]) for id_ in self.touched() if id_ in data.sessions):
            await connection.run(sql.NOTIFY)
        if self.rules.beat_s:
            await connection.run(sql.BEAT, self._owner, self.rules.beat_s * ownership.HEARTBEAT_SPARE)

    def fate(self, found: Batch) -> Fate:
        """What became of this batch when the answer to its commit was lost; `found` has read the same heads afterwards.

        A transaction is written whole or not at all, so one difference decides.
        """
        if all(_mark(found.seen(id_)) == _mark(self._before.get(id_)) for id_ in self.touched()):
            return Fate.NOT_WRITTEN
        for session_id in self.touched():
            one, seen = self._data.sessions.get(session_id), found.seen(session_id)
            if (one is None) != (seen is None):
                return Fate.UNKNOWN
            if one is None or seen is None:
                continue
            if (one.head.position, one.head.epoch) != (seen[0].position, seen[0].epoch):
                return Fate.UNKNOWN
            if not one.positions.keys() <= found.known_items(session_id).keys():
                return Fate.UNKNOWN
        return Fate.WRITTEN

    def seen(self, session_id: str) -> tuple[Head, bytes] | None:
        """Head and token as they were read; None when there was no such session."""
        return self._before.get(session_id)

    def known_items(self, session_id: str) -> dict[str, int]:
        """The inbox items that were read."""
        return self._known_items.get(session_id, {})

    def touched(self) -> list[str]:
        """Sessions that this batch changes."""
        changed = [i for i, one in self._data.sessions.items() if i not in self._before or self._moved(i, one)]
        return changed + [i for i in self._before if i in self._data.gone]

    def changes(self) -> bool:
        """False when every write was refused or changed nothing."""
        return bool(self.touched()) or self.rules.beat_s > 0 or self._money.changes() or self.rules.moves_timers

    def _applied(self, offer: ServerOffer) -> Outcome:
        try:
            return offer.write(self.rules)
        except LoopwrightError as error:
            return error

    def _moved(self, session_id: str, one: SessionData) -> bool:
        head, token = self._before[session_id]
        return one.head != head or one.token != token

    async def _read(self, needs: Needs) -> None:
        wanted = set(needs.sessions)
        going, families = set(needs.families), set(needs.families)
        while families:
            rows = await self._connection.rows(self._sql.CHILDREN, sorted(families))
            families = {row[0] for row in rows} - going
            going |= families
        wanted |= going | await self._readers(going)
        for base_id, position in needs.bases:
            # Every link that `forks.rooted` may come to. Somebody else can only make the chain shorter meanwhile.
            wanted |= (await server_forks.chain(self._connection, self._sql, base_id, position - 1)).keys()
        await self._read_heads(sorted(wanted))
        # Who came to read them before they were locked. Not in the order of ids, which only then can make batches wait
        # for each other; a server ends that, and this one is tried again.
        if late := await self._readers(going) - wanted:
            await self._read_heads(sorted(late))
        missing = [id_ for id_ in needs.sessions if id_ not in self._data.sessions]
        if missing:
            self._data.gone.update(row[0] for row in await self._connection.rows(self._sql.GONE, missing))
        strangers = {head.owner for head, _ in self._before.values() if head.owner not in (None, self._owner)}
        if strangers:
            for owner, left_s in await self._connection.rows(self._sql.LEFT, sorted(map(str, strangers))):
                self._left[owner] = left_s
        await self._read_items(needs)
        await self._read_timers(needs)
        await self._money.read(needs.holds, needs.accounts, going)

    async def _readers(self, going: set[str]) -> set[str]:
        if not going:
            return set()
        return {row[0] for row in await self._connection.rows(self._sql.READERS, sorted(going))}

    async def _let_forks_have(self) -> None:
        """What lies between a fork's base before and its base now was read of sessions that go: those rows are copied.

        The rules, which see heads without records, have moved the base; see `Needs.alone`.
        """

        def find(session_id: str) -> JournalPlace[int]:
            head, _ = self._before[session_id]
            return JournalPlace(self._keys[session_id], head.position, head.base)

        for session_id, one in self._data.sessions.items():
            place = find(session_id) if session_id in self._before else None
            if place is None or place.base is None or place.base == one.head.base:
                continue
            first = 0 if one.head.base is None else one.head.base.position
            copied = parts(place, first, place.base.position, find)
            await server_forks.let_have(self._connection, self._sql, place.key, copied, one.head.base)

    async def _read_heads(self, session_ids: Sequence[str]) -> None:
        # In the order of their ids, as everybody locks them: two batches cannot wait for each other.
        for *row, token in await self._connection.rows(self._sql.HEADS_LOCKED, session_ids):
            head = head_of(row, _nobody_knows)
            held = bytes(token) if token is not None else b""
            self._data.sessions[head.session_id] = SessionData(head, held)
            self._before[head.session_id] = (head, held)
            self._keys[head.session_id] = row[KEY_AT]
            self._known_items[head.session_id] = {}

    async def _read_items(self, needs: Needs) -> None:
        asked = [(self._keys[s], item_id) for s, item_id in needs.items if s in self._keys]
        names = {key: session_id for session_id, key in self._keys.items()}
        rows: list[Sequence[Any]] = []
        if asked:
            keys, item_ids = [key for key, _ in asked], [item_id for _, item_id in asked]
            rows += await self._connection.rows(self._sql.ITEMS, keys, item_ids)
        for session_id in needs.inboxes & self._keys.keys():
            rows += await self._connection.rows(self._sql.WAITING_IDS, self._keys[session_id])
        for key, item_id, seq, kind, at, position in rows:
            session_id = names[key]
            one, place = self._data.sessions[session_id], WAITING if position is None else position
            one.positions[item_id] = self._known_items[session_id][item_id] = place
            if place == WAITING:
                one.items[item_id] = InboxItem(item_id, kind, b"", at, seq)

    async def _read_timers(self, needs: Needs) -> None:
        asked = [(self._keys[s], timer_id) for s, timer_id in needs.timers if s in self._keys]
        if not asked:
            return
        names = {key: session_id for session_id, key in self._keys.items()}
        for key, *timer in await self._connection.rows(self._sql.ARMED, [k for k, _ in asked], [t for _, t in asked]):
            self._data.sessions[names[key]].timers[timer[0]] = PutTimer(timer[0], timer[1], b"")

    async def _write_items(self) -> None:
        new: list[tuple[Any, ...]] = []
        taken: list[tuple[Any, ...]] = []
        for session_id, one in self._data.sessions.items():
            key, known = self._keys[session_id], self._known_items.get(session_id, {})
            for item_id, position in one.positions.items():
                if item_id not in known:
                    item = one.items.get(item_id) or InboxItem(item_id, "marked", b"", 0.0)
                    waits = position == WAITING
                    body = item.body if waits else None
                    new.append((key, item_id, item.seq, item.kind, item.at, body, None if waits else position))
                elif position != known[item_id]:
                    taken.append((position, key, item_id))
        if new:
            await self._connection.run_many(self._sql.INSERT_ITEM, new)
        if taken:
            await self._connection.run_many(self._sql.TAKE_ITEM, taken)

    async def _write_timers(self, offers: Sequence[ServerOffer], outcomes: Sequence[Outcome]) -> None:
        for offer, outcome in zip(offers, outcomes, strict=True):
            # An inbox item that was not stored carries no operations with it.
            refused = isinstance(outcome, BaseException) or (isinstance(outcome, Enqueued) and outcome.duplicate)
            if refused or offer.session_id not in self._data.sessions:
                continue
            key, agent = self._keys[offer.session_id], self._data.sessions[offer.session_id].head.agent_name
            for op in offer.ops:
                if isinstance(op, PutTimer):
                    await self._connection.run(self._sql.PUT_TIMER, key, op.timer_id, op.due_at, op.body, agent)
                elif isinstance(op, DropTimer):
                    await self._connection.run(self._sql.DROP_TIMER, key, op.timer_id, op.due_at)


def _mark(seen: tuple[Head, bytes] | None) -> tuple[Any, ...] | None:
    """What no write leaves as it was."""
    return None if seen is None else (seen[0].position, seen[0].epoch, seen[0].inbox_seq, seen[0].owner)


def _is_claimable(one: SessionData) -> bool:
    """Whether this is work for anybody, as far as the batch has read it."""
    return one.head.owner is None and one.is_open()


def _nobody_knows(_: str) -> float:
    return 0.0


def _counts(head: Head) -> tuple[Any, ...]:
    return tuple([int(count) for count in structs.astuple(head.usage)])


def moved_row(key: int, one: SessionData) -> tuple[Any, ...]:
    """The values of `MOVE_HEAD`."""
    head = one.head
    return (
        head.position,
        head.window_start,
        head.checkpoint,
        head.epoch,
        head.owner,
        one.token or None,
        head.inbox_seq,
        head.takeovers,
        head.title,
        head.min_format,
        head.status,
        head.updated_at,
        head.sends,
        *_counts(head),
        key,
    )


def new_row(head: Head) -> tuple[Any, ...]:
    """The values of `INSERT_SESSION`."""
    return (
        head.session_id,
        head.position,
        head.inbox_seq,
        head.agent_name,
        head.kind,
        head.parent_id,
        head.lifecycle,
        head.title,
        head.min_format,
        head.status,
        head.created_at,
        head.updated_at,
        *((None, None) if head.base is None else (head.base.session_id, head.base.position)),
        head.window_start,
        head.checkpoint,
    )
