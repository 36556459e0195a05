"""The seam to durable state: what a store keeps, and the promises that the engine builds on.

Owns: heads, transitions and their operations, and the `Store` Protocol with its eight methods.
Must not know: SQL, files, records' meaning (a record is bytes with a kind here).
Read next: `stores/memory.py` (the model of correctness), then `testing/store_suite.py` (the promises as tests).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from ..model.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from .transaction_work import OnCommit

Status = Literal["idle", "running", "waiting"]
"""idle: no open send; running: a send is open, whoever holds the lease continues it; waiting: it waits for a person or a host."""

Durability = Literal["relaxed", "barrier", "full"]
"""Which commits are synced to disk before they are acknowledged: none, those marked `sync`, all."""


class EncodedRecord(Struct, frozen=True, gc=False):
    """One record on its way to the journal, encoded once."""

    kind: str
    version: int
    at: float
    """UTC epoch seconds."""
    body: bytes


class StoredRecord(Struct, frozen=True, gc=False):
    """One record read from the journal."""

    position: int
    """From 0, without gaps."""
    kind: str
    version: int
    at: float
    body: bytes


class Lease(Struct, frozen=True, gc=False):
    """The right to write one session's journal."""

    epoch: int
    token: bytes
    """Random, at least 8 bytes."""


class Acquire(Struct, frozen=True, gc=False):
    """Take the lease with this transition; the store answers with the new epoch."""

    token: bytes
    ttl_s: float
    """How long the owner's heartbeat keeps it alive without renewal."""


class InboxItem(Struct, frozen=True, gc=False):
    """Something to say to a session."""

    item_id: str
    """Unique in its session for the session's whole life."""
    kind: str
    """"message" | "stop" | "timer" | "wake" | "signal"; of these `WAKING_KINDS` wake a waiting session."""
    body: bytes
    at: float
    seq: int = 0
    """Order of arrival, from 1; set by the store."""


WAKING_KINDS: Final = ("wake", "signal", "stop")
"""Kinds of inbox items that make a waiting session claimable and say nothing to a model; a message alone does not."""


class ForkPoint(Struct, frozen=True, gc=False):
    """Where a fork left the journal of another session, its base."""

    session_id: str
    position: int
    """The fork reads the base's records before it, and has its own from there on; at least 1."""


class NewSession(Struct, frozen=True, gc=False, kw_only=True):
    """A session that does not exist yet."""

    session_id: str
    agent_name: str
    records: tuple[EncodedRecord, ...]
    at: float
    kind: str = "agent"
    parent_id: str | None = None
    lifecycle: str = "linked"
    """"ephemeral" | "linked" | "detached": what happens to it when its parent goes."""
    title: str = ""
    min_format: int = 1
    base: ForkPoint | None = None
    """Makes a fork: `records` come after the base's, which stay where they are."""
    window_start: int = 0
    """Of a fork: where the window begins, which may be a position of the base; see `Head.window_start`."""
    checkpoint: int | None = None
    """Of a fork: position of the base's newest `state_checkpointed` record that it reads."""
    status: Status = "idle"
    """A session that begins as running is claimable at once; one that begins as waiting needs a waking item."""


class Head(Struct, frozen=True, gc=False, kw_only=True):
    """The small mutable row of a session; everything else is in its journal."""

    session_id: str
    position: int
    """Where the next record goes; the number of records, those before a fork's own included."""
    window_start: int
    """First position the window needs; a fold moves it."""
    checkpoint: int | None
    """Position of the newest `state_checkpointed` record; None when there is none."""
    epoch: int
    owner: str | None
    """Who holds the lease; None when released."""
    expires_in_s: float
    """Until the lease can be taken; 0 when it is free, expired, or its process is known to be dead."""
    inbox_seq: int
    """Counts every accepted inbox item."""
    takeovers: int
    """Leases taken from a dead owner since the last record that was progress."""
    agent_name: str
    kind: str
    parent_id: str | None
    lifecycle: str
    title: str
    min_format: int
    status: Status
    created_at: float
    updated_at: float
    sends: int = 0
    usage: Usage = NO_USAGE
    base: ForkPoint | None = None
    """Of a fork: whose records come before its own."""


class HeadChange(Struct, frozen=True, gc=False, kw_only=True):
    """What a transition changes in its head beside the position; None and zero leave it as it is."""

    status: Status | None = None
    window_start: int | None = None
    checkpoint: int | None = None
    min_format: int | None = None
    title: str | None = None
    sends: int = 0
    """Added to the head's count."""
    usage: Usage = NO_USAGE
    """Added to the head's totals."""
    progress: bool = True
    """False keeps counting takeovers: the transition only notes a recovery."""


class TakeItems(Struct, frozen=True, gc=False, tag="take_items"):
    """Inbox items that this transition turned into records; each must be waiting."""

    item_ids: tuple[str, ...]


class MarkItem(Struct, frozen=True, gc=False, tag="mark_item"):
    """An id that is accepted by this very transition (a `send_id`): from now on it is a duplicate."""

    item_id: str


class PutItem(Struct, frozen=True, gc=False, tag="put_item"):
    """An inbox item for another session; ignored when its id is known there or the session is gone."""

    session_id: str
    item: InboxItem


class CreateSession(Struct, frozen=True, gc=False, tag="create_session"):
    """A child session; ignored when it exists already (the same transition tried again)."""

    session: NewSession


class DropSession(Struct, frozen=True, gc=False, tag="drop_session"):
    """Tombstones an ephemeral child of this session; its rows go later."""

    session_id: str


class PutTimer(Struct, frozen=True, gc=False, tag="put_timer"):
    """Arms or re-arms a timer of this session."""

    timer_id: str
    due_at: float
    """UTC epoch seconds."""
    body: bytes


class DropTimer(Struct, frozen=True, gc=False, tag="drop_timer"):
    """Removes a timer of this session; no error when it is gone."""

    timer_id: str
    due_at: float | None = None
    """Only the timer that is armed for exactly this time: one that was armed anew meanwhile stays. See `Store.enqueue`."""


class RunInside(Struct, frozen=True, tag="run_inside"):
    """Work of a tool, done after all checks in the transaction that this transition is written in.

    Only a `TransactionHost` (`transaction_work.py`) does it; another store raises `ConfigError`. Work that raises, breaks a
    rule of its cursor or takes too long is `OnCommitError`: nothing of the transition was written, others are as they
    were offered. A transaction that is tried again calls the work again, on a clean one.
    """

    call_id: str
    """The tool call whose result this transition records."""
    works: tuple[OnCommit, ...]
    """In order, all with one cursor."""


class BudgetCap(Struct, frozen=True, gc=False):
    """An account that money is held in, and how much may be spent and held in it together."""

    key: str
    """Of the account, which any number of sessions may share; made with its first hold. At most 382 characters."""
    limit: int
    """Nanodollars. Not stored: each hold brings the limit that counts for it."""


class HoldMoney(Struct, frozen=True, gc=False, tag="hold_money"):
    """Sets money aside in every account of `caps`, before it is spent; refused when one of them would exceed its limit.

    Whatever holds already, spent and held money of all sessions is counted. A hold that is open already stays as it is,
    whatever is asked, so that a transition can be tried again. It stays open until `SettleMoney`, or until this session
    is deleted, which spends it.
    """

    hold_id: str
    """Unique in the store among open holds; at most 382 characters."""
    nanodollars: int
    """From 0 to `MOST_MONEY`."""
    caps: tuple[BudgetCap, ...]


class SettleMoney(Struct, frozen=True, gc=False, tag="settle_money"):
    """Ends a hold and counts what was really spent in all its accounts; no error when there is no such hold (any more).

    It is never refused: what was spent is spent, also beyond a limit.
    """

    hold_id: str
    nanodollars: int
    """From 0, which gives the money back, to `MOST_MONEY`; may be more than was held."""


MOST_MONEY: Final = 10**18
"""Nanodollars that one hold or settlement may be: a billion dollars, so that sums of them fit into 64 bits."""


Op: TypeAlias = (
    TakeItems
    | MarkItem
    | PutItem
    | CreateSession
    | DropSession
    | PutTimer
    | DropTimer
    | RunInside
    | HoldMoney
    | SettleMoney
)
"""What must be atomic with a transition. A new need is a new variant, never another method."""


class Transition(Struct, frozen=True, gc=False, kw_only=True):
    """The one unit of writing: records and head change of one fenced session plus operations, atomic."""

    session_id: str
    expect: int
    """The head's position must be exactly this."""
    lease: Lease | Acquire
    """A lease that is held, or the wish to take it now."""
    records: tuple[EncodedRecord, ...] = ()
    head: HeadChange = HeadChange()
    ops: tuple[Op, ...] = ()
    release: bool = False
    """Give the lease back with this transition."""
    if_inbox: int | None = None
    """Only if the head's `inbox_seq` is this."""
    sync: bool = False
    """Must survive power loss before it is acknowledged (durability "barrier")."""


class Committed(Struct, frozen=True, gc=False):
    """What a commit made of the head."""

    position: int
    epoch: int
    inbox_seq: int
    takeovers: int


class Enqueued(Struct, frozen=True, gc=False):
    """What became of an inbox item."""

    inbox_seq: int
    duplicate: bool
    """True when the id was known, or the timer that it came from was not armed any more: nothing was stored or done."""
    status: Status
    """The session's status at that moment."""
    depth: int
    """Items that wait, this one included."""


class Lookup(Struct, frozen=True, gc=False):
    """A session as one consistent reading."""

    head: Head
    waiting: tuple[InboxItem, ...]
    """Inbox items not taken yet, in order of arrival."""
    item_position: int | None = None
    """For the asked item id: position right after the transition that took or marked it; -1 while it waits; None when unknown."""


class SessionQuery(Struct, frozen=True, gc=False, kw_only=True):
    """Which heads to list, newest first."""

    status: Status | None = None
    agent_names: tuple[str, ...] | None = None
    parent_id: str | None = None
    kind: str | None = None
    before: float | None = None
    """Only heads updated before this; for paging."""
    limit: int = 100


class ClaimQuery(Struct, frozen=True, gc=False, kw_only=True):
    """Work that nobody alive is doing."""

    agent_names: tuple[str, ...]
    max_format: int
    now: float
    """UTC epoch seconds, for due timers."""
    limit: int = 50
    timers_only: bool = False
    """Only timers are asked for: `Claimable.interrupted` stays empty, and heads are not looked through."""


class DueTimer(Struct, frozen=True, gc=False):
    """A timer as it is armed; in `Claimable` one whose time has come."""

    session_id: str
    timer_id: str
    due_at: float
    body: bytes


class Claimable(Struct, frozen=True, gc=False):
    """Sessions to continue and timers to fire; nothing is locked: the first commit decides who does it."""

    interrupted: tuple[Head, ...]
    """Lease free, expired or its process dead, and: running; or idle with waiting inbox items; or waiting with a waiting
    item of `WAKING_KINDS`."""
    timers: tuple[DueTimer, ...]
    next_timer_at: float | None = None
    """When the earliest timer that was asked for and is not due yet will be; None without one."""


class Store(Protocol):
    """Durable sessions: append-only journals with fenced single writers.

    Guarantees: a transition is atomic and, once acknowledged, visible to every later read; at most one lease
    is valid per session; positions have no gaps; ids (sessions, items) are never reused.
    Raises everywhere: `SessionNotFoundError`, `SessionGoneError` (tombstoned), `StoreUnavailableError` (away or
    locked too long; nothing is known to be written until the next read), `StoreFullError`,
    `StoreReadOnlyError`, `StoreCorruptError`, `StoreForkedError`; after each of them the store stays usable.
    Concurrency: any number of calls from the event loop that first used the store; `renew` also from a
    thread of its own. Cancel: a cancelled call may or may not have happened, completely; the store stays usable.
    """

    @property
    def identity(self) -> str:
        """Equal for two store objects exactly when they reach the same data."""
        ...

    @property
    def owner(self) -> str:
        """Who this object is in leases: process id and a random part."""
        ...

    def create(self, session: NewSession) -> Awaitable[Head]:
        """A new session with its first records. Raises `SessionExistsError` when the id was ever used.

        With a `base` the base's records are neither copied nor locked, and whoever runs the base goes on. From now on the
        base cannot be deleted alone. A base that is itself a fork and read its own base up to there is passed over, so
        that each link of a chain has records of its own: a read follows no more links than it answers records. Raises for
        the base `SessionNotFoundError`, `SessionGoneError`, and `SessionMovedError` when it ends before that position. A
        store without forks raises `ConfigError`.
        """
        ...

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        """Applies one transition, all or nothing.

        Checks in this order, each without having written anything: `SessionNotFoundError`/`SessionGoneError`;
        for `Acquire`: a live foreign owner is `SessionBusyError`; for `Lease`: another epoch or token is
        `SessionFencedError`; another position is `SessionMovedError`; `if_inbox` differs: `InboxMovedError`;
        an item of `TakeItems` not waiting: `SessionMovedError`; a cap of `HoldMoney` that would be exceeded:
        `BudgetRefusedError` (operations in their order). Then the work of `RunInside`: `OnCommitError`.
        An acquire from an expired or dead owner counts one takeover; `head.progress` resets the count first
        unless it is the acquire itself.
        Order: transitions offered earlier by one task are applied earlier. Cost: one short write transaction,
        shared by all transitions of one event-loop tick.
        """
        ...

    def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Awaitable[Sequence[StoredRecord]]:
        """Records with position >= `after`, in order, those of a fork's base included; a prefix-consistent snapshot."""
        ...

    def lookup(self, session_id: str, *, item_id: str | None = None) -> Awaitable[Lookup]:
        """Head, waiting inbox items and what became of one item id, as of one moment."""
        ...

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        """Stores an inbox item (synced) with `ops` (PutItem, PutTimer, DropTimer only); needs no lease.

        Counts `inbox_seq` in the same transaction; a known id stores nothing and answers `duplicate`. So does an item
        with a `DropTimer` of a time for which that timer is not armed: a timer that was dropped or armed anew does not fire.
        Without an item only `ops` are done, on the same condition, and this session's `inbox_seq` stays. Where a server's
        answer to such a call was lost, a `DropTimer` that was done already may be answered `duplicate`.
        """
        ...

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        """Sessions that can be continued and timers that are due, oldest first.

        Costs what is open and due, not what is there: sessions at rest and timers that are not due are not read.
        """
        ...

    def renew(self, session_ids: Sequence[str], ttl_s: float) -> Awaitable[dict[str, tuple[int, int]]]:
        """Keeps this owner alive for `ttl_s` more seconds; answers (epoch, inbox_seq) of the named sessions.

        One statement however many leases are held. May be called from a loop in a thread of its own.
        """
        ...

    def list(self, query: SessionQuery) -> Awaitable[Sequence[Head]]:
        """Heads, most recently updated first; tombstones never."""
        ...
