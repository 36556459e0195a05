"""The one commit function: how anything gets into a session's journal.

Owns: `Journal`, a writer's view of one session while it has the turn: loading, checking, committing, leases.
Must not know: what the records are for.
Every record is checked against the state before it is written, so a stored session can always be sent.
Read next: `run.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ..config import AgentLoopConfig
from ..core.state import FACTS_ONLY, State, apply, checkpoint_of, facts_of, hear, pass_over, refusal
from ..late import Late
from ..model.codec import CURRENT_FORMAT, FORMATS, checked, decode_record
from ..model.errors import (
    AgentUnavailableError,
    ConfigError,
    InboxMovedError,
    InvalidMessageError,
    InvariantError,
    SessionFencedError,
    SessionLeftError,
    SessionMovedError,
    SessionTooNewError,
    StoreCorruptError,
    StoreRolledBackError,
)
from ..model.records import (
    ChainLinked,
    HistoryRepaired,
    Record,
    SendFinished,
    SendStarted,
    SessionCreated,
    StateCheckpointed,
)
from ..model.usage import NO_USAGE
from ..ports.ambient import breathe
from ..ports.settling import Settled, settled
from ..ports.store import (
    Acquire,
    Committed,
    EncodedRecord,
    Head,
    HeadChange,
    InboxItem,
    Lease,
    Op,
    Status,
    Store,
    StoredRecord,
    TakeItems,
    Transition,
)
from .actor import Actor
from .keeper import Held
from .kernel import Kernel

if TYPE_CHECKING:
    from ..core import chain
    from ..model import call_errors
    from ..ports.memory import MemorySnapshot
    from . import child_entry, commit_line, inbox_order, memory_recall, money
    from .commit_line import CommitLine
else:
    chain = Late("loopwright.core.chain")
    call_errors = Late("loopwright.model.call_errors")
    child_entry = Late("loopwright.engine.child_entry")
    inbox_order = Late("loopwright.engine.inbox_order")
    commit_line = Late("loopwright.engine.commit_line")
    memory_recall = Late("loopwright.engine.memory_recall")
    money = Late("loopwright.engine.money")

T = TypeVar("T")

POISON_LIMIT = 5
"""Takeovers without progress after which a session is not tried again."""


class Journal:
    """One session, to be read and written by the one who has its turn."""

    __slots__ = (
        "_ended",
        "_line",
        "_stops",
        "actor",
        "awaited",
        "kernel",
        "lease",
        "left",
        "on_fenced",
        "on_inbox",
        "session_id",
        "stop_floor",
        "takeovers",
        "unbegun",
        "unheard",
    )

    def __init__(self, kernel: Kernel, actor: Actor) -> None:
        self.kernel = kernel
        self.actor = actor
        self.session_id = actor.session_id
        """The session's id."""
        self.lease: Lease | None = None
        self.takeovers = 0
        self.on_fenced: Callable[[], None] = _ignore
        self.on_inbox: Callable[[int], None] = _ignore_seq
        self.stop_floor = 0
        """Stop items up to this inbox number were meant for an earlier run."""
        self.left = False
        """True once the session is to be left as it is: nothing more is written."""
        self.unbegun = ""
        """A reservation of money whose call has certainly not begun."""
        self.awaited = False
        """Its parent runs here and waits for the end of this very run: nobody has to be told."""
        self.unheard: int | None = None
        """While calls wait outside: inbox number before the first message that waits for the next round."""
        self._stops: list[str] = []
        self._line: CommitLine | None = None
        self._ended: list[MemorySnapshot] = []
        """Sends that the commit under way ends, for memory."""

    @property
    def state(self) -> State:
        """The loaded state. Only after `load`."""
        assert self.actor.state is not None
        return self.actor.state

    async def load(self, *, fresh: bool = False) -> Head | None:
        """Makes sure that there is a state; reads the store unless a warm one can be tried.

        Answers the head when the store was read. Raises: `SessionNotFoundError`, `SessionGoneError`,
        `SessionTooNewError`, `AgentUnavailableError`, `StoreCorruptError` naming the record.
        """
        if self.actor.state is not None and not fresh:
            check_agent(self.session_id, self.actor.state.facts.agent_name, self.kernel.config.agent_name)
            return None
        behind = self.actor.state.position if self.actor.state is not None else 0
        found = await self.kernel.store.lookup(self.session_id)
        head = found.head
        check_known(head, self.kernel.config.agent_name)
        if head.position < behind:
            self.actor.forget()
            raise StoreRolledBackError(
                f"session {self.session_id!r} is at {head.position}, this process knows {behind} records;"
                " a backup was restored or writes were lost: check before you go on"
            )
        # No further than the head that was seen: what it says about the lease belongs to exactly these records.
        seen = inbox_order.taken_up_to(found) if found.waiting else head.inbox_seq
        state = await opened_state(self.kernel.store, head)
        self.actor.forget()  # what is known beside the old state may not be true of this one
        self.actor.state = state
        self.actor.inbox_seq, self.actor.inbox_seen = max(self.actor.inbox_seq, head.inbox_seq), seen
        self.takeovers = head.takeovers
        self.actor.format = head.min_format
        return head

    async def waiting(self) -> tuple[InboxItem, ...]:
        """Inbox items not taken yet. Raises `StoreCorruptError` when their numbers are not those that the store gave."""
        found = await self.kernel.store.lookup(self.session_id)
        self.actor.inbox_seq = max(self.actor.inbox_seq, found.head.inbox_seq)
        if found.waiting:
            inbox_order.taken_up_to(found)
        else:
            self.actor.inbox_seen = self.actor.inbox_seq
        return found.waiting

    def stop_among(self, items: Sequence[InboxItem]) -> str | None:
        """The reason of a stop that is meant for this run, or None; it is taken with the end of the run."""
        stops = [i for i in items if i.kind == "stop" and i.seq > self.stop_floor]
        self._stops = [i.item_id for i in stops]
        return (stops[-1].body.decode("utf-8", "replace") or "stopped") if stops else None

    def stops_taken(self) -> tuple[Op, ...]:
        """The operation that takes the stop items found."""
        stops, self._stops = self._stops, []
        return (TakeItems(tuple(stops)),) if stops else ()

    @property
    def inbox_waiting(self) -> bool:
        """True when items may have arrived since the inbox was last seen empty."""
        return self.actor.inbox_seq > self.actor.inbox_seen

    async def commit(
        self,
        records: Sequence[Record],
        *,
        sync: bool = False,
        release: bool = False,
        quiet_inbox: bool = False,
        ops: tuple[Op, ...] = (),
        progress: bool = True,
        window_start: int | None = None,
    ) -> Committed:
        """Checks, encodes and writes records as one transition; the state holds them when this returns.

        `quiet_inbox`: only if no inbox item arrived that was not seen (`InboxMovedError`, the state is as before).
        `window_start`: where the window begins from now on; a checkpoint of everything before it goes along.
        Raises what the store raises; the warm state is then dropped, because it is ahead of the journal.
        Cancel: the commit is finished first, then the cancellation goes on.
        """
        check_kept(self)
        state, kernel = self.state, self.kernel
        if progress and (state.lost_answers or state.dropped):
            records = (HistoryRepaired(tuple(state.lost_answers), tuple(state.dropped)), *records)
        if (context := state.facts.context) is not None and context.holds:
            records, ops = money.with_settlements(self, records, ops, ends=release or self.lease is None)
        expect = state.position
        encoded, change = self._apply(state, records, progress=progress, window_start=window_start)
        transition = Transition(
            session_id=self.actor.session_id,
            expect=expect,
            lease=self.lease or Acquire(kernel.ambient.token(), kernel.config.lease_ttl_s),
            records=encoded,
            head=change,
            ops=ops,
            release=release,
            if_inbox=self.actor.inbox_seen if quiet_inbox else None,
            sync=sync,
        )
        point = None if kernel.ambient.quiet else "+".join([r.kind for r in encoded])
        asked_at = time.monotonic()
        if point is not None:
            kernel.ambient.reach(f"commit.before:{point}")
        try:
            work = kernel.store.commit(transition)
            cancelled: asyncio.CancelledError | None = None
            if isinstance(work, Settled):  # the usual case, without another coroutine
                done: Committed = await work
            else:
                done, cancelled = await settled(work)
        except BaseException as error:
            self._lost(error)
            raise
        self._won(done, transition, asked_at)
        if self._ended:
            ended, self._ended = self._ended, []
            memory_recall.remember(kernel, ended)
        if point is not None:
            kernel.ambient.reach(f"commit.after:{point}")
        if cancelled is not None:
            raise cancelled
        return done

    async def append(self, records: Sequence[Record], ops: tuple[Op, ...] = ()) -> None:
        """Like `commit`, for results that finish while another commit of this session is under way: they go together."""
        await self._in_line().append(records, ops)

    async def alone(self, records: Sequence[Record], *ops: Op) -> None:
        """A commit of its own while others of this session may be under way, in its place in line: synced, or with `ops`.

        Raises `OnCommitError` when the work of a `RunInside` failed: nothing was written, the state is as before and the
        run can go on.
        """
        await self._in_line().alone(records, *ops)

    def commit_through(self, line: CommitLine) -> None:
        """From now on `append` and `alone` go through this line."""
        self._line = line

    def _in_line(self) -> CommitLine:
        if self._line is None:
            self._line = commit_line.CommitLine(self)
        return self._line

    def _apply(
        self, state: State, records: Sequence[Record], *, progress: bool, window_start: int | None
    ) -> tuple[tuple[EncodedRecord, ...], HeadChange]:
        """Checks the records and folds them into the state, ahead of the store; answers what is to be written."""
        at, expect = self.kernel.ambient.now(), state.position
        # All of them before the first is folded: what cannot be stored must not be half in the state.
        encoded = [checked_record(record, at) for record in records]
        usage, sends, checkpoint = NO_USAGE, 0, None
        try:
            for record in records:
                why = refusal(state, record)
                if why is not None:
                    raise InvariantError(f"session {self.session_id!r}: {type(record).__name__} refused: {why}")
                apply(state, record, at)
                if type(record) is SendStarted:
                    sends += 1
                elif (spent := getattr(record, "usage", None)) is not None:
                    usage = spent if usage is NO_USAGE else usage + spent
                elif type(record) is SendFinished and (parts := self.kernel.context) is not None and parts.memory:
                    self._ended += memory_recall.snapshots_of(state)
        except BaseException:
            self.actor.forget()
            raise
        due = state.position - state.facts.checkpoint >= self.kernel.config.checkpoint_every or window_start is not None
        if due and not state.batch and state.workflow is None:
            checkpoint = state.position
            encoded.append(checked_record(snapshot := checkpoint_of(state), at))
            apply(state, snapshot, at)
        if encoded and (link := link_of(self.kernel.config, self.session_id, state.facts.chain, expect, encoded)):
            encoded.append(checked_record(link, at))
            apply(state, link, at)
        needs = format_needed(encoded) if self.actor.format < CURRENT_FORMAT else 1
        change = HeadChange(
            status=status_of(state),
            window_start=window_start,
            checkpoint=checkpoint,
            min_format=needs if needs > self.actor.format else None,
            sends=sends,
            usage=usage,
            progress=progress,
        )
        return tuple(encoded), change

    def _won(self, done: Committed, transition: Transition, asked_at: float) -> None:
        self.actor.inbox_seq = max(self.actor.inbox_seq, done.inbox_seq)
        self.takeovers = done.takeovers
        self.actor.format = transition.head.min_format or self.actor.format
        keeper = self.kernel.keeper
        if transition.release:
            if self.lease is not None:
                keeper.release(self.session_id)
            self.lease = None
        elif isinstance(transition.lease, Acquire):
            self.lease = Lease(done.epoch, transition.lease.token)
            held = Held(done.epoch, done.inbox_seq, self.on_fenced, self.on_inbox, asyncio.get_running_loop())
            keeper.hold(self.session_id, held, asked_at=asked_at)

    def _lost(self, error: BaseException) -> None:
        """The state is ahead of the journal now; whoever goes on reads it anew."""
        self._ended = []
        if isinstance(error, call_errors.OnCommitError):
            return  # `CommitLine` does, in the same run
        self.actor.forget()
        if isinstance(error, InboxMovedError):
            self.actor.inbox_seq = max(self.actor.inbox_seq, error.inbox_seq)
        elif isinstance(error, SessionFencedError | SessionMovedError):
            self.drop_lease()

    def hear_nothing(self) -> None:
        """Forgets whom to tell about a takeover or an inbox item."""
        self.on_fenced = _ignore
        self.on_inbox = _ignore_seq
        self._line = None

    def drop_lease(self) -> None:
        """Forgets the lease without giving it back."""
        self.lease = None
        self.kernel.keeper.release(self.session_id)


def first_records(
    config: AgentLoopConfig, created: SessionCreated, at: float, *also: Record
) -> tuple[tuple[Record, ...], tuple[EncodedRecord, ...]]:
    """The records that a session begins with, and their stored form. Raises as `checked_record` does."""
    records = (created, *also)
    rows = [checked_record(record, at) for record in records]
    link = link_of(config, created.session_id, "", 0, rows)
    if link is None:
        return records, tuple(rows)
    return (*records, link), (*rows, checked_record(link, at))


def link_of(
    config: AgentLoopConfig, session_id: str, before: str, since: int, rows: Sequence[EncodedRecord | StoredRecord]
) -> ChainLinked | None:
    """The link that goes right behind `rows`, which stand from position `since` on; None when the loop makes none."""
    if not config.hash_chain:
        return None
    return chain.link_for(session_id, before, since, rows[-1].at, rows, config.hash_chain_key)


def format_needed(rows: Sequence[EncodedRecord]) -> int:
    """The journal format that a reader of all of `rows` needs."""
    return max([FORMATS.get((row.kind, row.version), 1) for row in rows], default=1)


def check_known(head: Head, agent_name: str) -> None:
    """Raises `SessionTooNewError` or `AgentUnavailableError` when this loop cannot run the session."""
    if head.min_format > CURRENT_FORMAT:
        raise SessionTooNewError(head.session_id, head.min_format, CURRENT_FORMAT)
    check_agent(head.session_id, head.agent_name, agent_name)


def check_conversation(head: Head) -> None:
    """Raises `WorkflowRunError` for a workflow run, in which nobody would hear a message."""
    if head.kind == "workflow":
        raise child_entry.no_conversation(head.session_id)


def check_agent(session_id: str, name: str, known: str) -> None:
    """Raises `AgentUnavailableError` when a session of agent `name` is not for a loop of agent `known`."""
    if name != known:
        raise AgentUnavailableError(session_id, name, (known,))


FOLDED_AT_ONCE = 500
"""Records folded before other sessions get their turn of the event loop."""


async def opened_state(store: Store, head: Head) -> State:
    """The state as of `head`, from as few records as it can be had from. Raises as `load_state` does."""
    length = head.position - head.window_start
    stored = await store.read(head.session_id, after=head.window_start, limit=length)
    if head.window_start == 0 or any(row.kind == "state_checkpointed" for row in stored):
        try:
            return await resumed_state(head.session_id, stored)
        except msgspec.ValidationError:
            if head.window_start == 0:
                raise
    # What stands before the window is known from a checkpoint alone; without one that can be read, all is read.
    return await load_state(head.session_id, await store.read(head.session_id, limit=head.position))


async def resumed_state(session_id: str, stored: Sequence[StoredRecord]) -> State:
    """`load_state` in less time: what the newest checkpoint knows is taken from it. Says nothing about older damage."""
    newest = max((row.position for row in stored if row.kind == "state_checkpointed"), default=0)
    try:
        return await load_state(session_id, stored, facts_at=newest)
    except msgspec.ValidationError:  # the checkpoint of a version that had other facts
        return await load_state(session_id, stored)


async def load_state(session_id: str, stored: Sequence[StoredRecord], *, facts_at: int = 0) -> State:
    """The state that these records of one session fold to. Raises `StoreCorruptError` naming the position.

    `facts_at`: the position of a checkpoint whose facts are taken, so that records that only lead to them are left out.
    """
    state = State()
    if stored:
        state.position = stored[0].position
    for count, row in enumerate(stored, 1):
        if count % FOLDED_AT_ONCE == 0:
            await breathe()
        known = row.position < facts_at
        if known and row.kind in FACTS_ONLY and not state.batch:
            pass_over(state, row.kind)
            continue
        try:
            record = decode_record(row.kind, row.version, row.body)
        except StoreCorruptError as error:
            raise StoreCorruptError(f"session {session_id!r}, position {row.position}: {error}") from error
        (hear if known else apply)(state, record, row.at)
        if isinstance(record, StateCheckpointed) and (stored[0].position > 0 or row.position == facts_at):
            state.facts = facts_of(record)
            state.facts.checkpoint = row.position
    return state


def checked_record(record: Record, at: float) -> EncodedRecord:
    """The record's stored form, read back once: values come from hosts, hooks and models, and what cannot be read
    must not be written.

    Raises: `InvalidMessageError` or `ConfigError` naming the field; nothing was stored.
    """
    try:
        kind, version, body = checked(record)
    except (StoreCorruptError, TypeError, ValueError, RecursionError) as error:
        what = type(record).__name__
        why = str(error) if not isinstance(error, RecursionError) else "it is nested too deeply"
        fault = InvalidMessageError if "Message" in what else ConfigError
        raise fault(f"{what} cannot be stored: {why}") from error
    return EncodedRecord(kind, version, at, body)


def status_of(state: State) -> Status:
    """The head status that belongs to a state."""
    send = state.active
    if send is None:
        return "idle"
    return "waiting" if send.paused else "running"


def check_kept(journal: Journal) -> None:
    """Raises `SessionLeftError` once the session is to be left as it is."""
    if journal.left:
        raise SessionLeftError(
            f"session {journal.session_id!r} was left in the middle of a run; the next worker goes on"
        )


def _ignore() -> None:
    return


def _ignore_seq(_: int) -> None:
    return
