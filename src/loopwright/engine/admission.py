"""Who may run a session now: sends, follow-ups, resumes.

Owns: taking the turn and the lease, what to do with an interrupted or waiting session, and that an accepted input is
never lost or taken twice. Must not know: the steps of a run (`run.py`).
Read next: `run.py`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..core.state import State, fold
from ..late import Late
from ..model.codec import decode_record, encode
from ..model.errors import (
    CancellationRequested,
    InvalidMessageError,
    RetryLaterError,
    SessionBusyError,
    SessionMovedError,
    StoreError,
)
from ..model.event_types import AgentEventType
from ..model.messages import UserMessage
from ..model.records import Record, SendFinished, SendStarted, UserMessageAdded
from ..ports.ambient import breathe
from ..ports.settling import settled
from ..ports.store import WAKING_KINDS, Enqueued, InboxItem, MarkItem, Op, TakeItems
from .actor import ACTORS, Actor, TurnOf
from .journal import check_conversation, check_known
from .kernel import Kernel
from .running import before_append, epochs_asked, said, without_bytes
from .turn import AS_SET, INSTEAD, Begun, SendOptions, Turn, ended, healing, pending_error, plain

if TYPE_CHECKING:
    from ..core import pricing, spawning
    from ..core import result as results
    from ..core.result import FollowUpQueued, StatefulResult
    from . import child_entry, children, epochs, wakes
    from .running import RunContext
else:
    spawning = Late("loopwright.core.spawning")
    child_entry = Late("loopwright.engine.child_entry")
    children = Late("loopwright.engine.children")
    wakes = Late("loopwright.engine.wakes")
    epochs = Late("loopwright.engine.epochs")
    pricing = Late("loopwright.core.pricing")
    results = Late("loopwright.core.result")

T = TypeVar("T")

_log = logging.getLogger("loopwright.admission")

_UNHEARD = frozenset({"failed", "degraded", "hit_round_limit", "budget_exceeded"})
"""Outcomes after which a waiting follow-up gets a send of its own; who stopped a run wanted silence."""

BREATH = 32
"""Sends after which everything else that is ready runs first: where neither model nor store waits, nothing else would."""

MAX_MOVES = 50
"""How often another writer may get ahead of one admission before it gives up."""


class Admission:
    """The entrances of a loop object to its sessions."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        kernel.admission = self
        self._sends = 0

    async def send(self, session_id: str, message: UserMessage, options: SendOptions) -> StatefulResult:
        """Accepts an input and runs it; see `StatefulAgentLoop.send`."""

        async def begin(turn: Turn) -> Begun:
            if options.send_id is not None and (known := await self._known(turn, options.send_id)) is not None:
                return known
            await self._load(turn)
            state = turn.journal.state
            if state.workflow is not None:
                raise child_entry.no_conversation(session_id)
            healed: tuple[Sequence[Record], tuple[Op, ...]] = (), ()
            if state.active is not None:
                policy = self.kernel.config.on_interrupted
                if options.heal_pending or (policy == "abort" and not state.active.paused):
                    healed = (healing(state), ()) if plain(state) else wakes.stopped(turn.journal, INSTEAD)
                elif state.active.paused or policy == "raise":
                    raise pending_error(session_id, state)
                else:
                    return await self._into_interrupted(turn, message, options)
            shown = await before_append(self.kernel, session_id, message)
            begun = await self._open_after_earlier(turn, UserMessageAdded(shown), healed)
            if healed[1]:
                children.stop_below(self.kernel, healed[1])
            return begun

        return await self._begin_and_run(session_id, options, begin)

    async def resume(
        self, session_id: str, options: SendOptions, *, taken: Callable[[Turn], None] | None = None
    ) -> StatefulResult:
        """Continues the open send, or runs once more without new input when none is open. `taken`: see `recover`."""

        async def begin(turn: Turn) -> Begun:
            await self._load(turn, fresh=True)  # it may have been another process's
            if (begun := await self._left_behind(turn, "resume")) is not None:
                if taken is not None and turn.journal.lease is not None:
                    taken(turn)
                return begun
            if turn.journal.state.workflow is not None:
                return results.result_of(turn.journal.state)  # a run has one send
            if not turn.journal.state.messages and turn.journal.state.note is None:
                raise InvalidMessageError(f"session {session_id!r} is empty: there is nothing to run; send something")
            return await self._open(turn, [])

        return await self._begin_and_run(session_id, options, begin)

    async def recover(
        self, session_id: str, *, wait_s: float | None = None, taken: Callable[[Turn], None] | None = None
    ) -> StatefulResult | None:
        """Continues what was left behind, or None when somebody else did so meanwhile.

        `wait_s`: how long a session that somebody runs is waited for, by default as long as a send does.
        `taken` is called with the turn when the session is this process's, before it runs.
        """

        async def begin(turn: Turn) -> Begun | None:
            await self._load(turn, fresh=True)
            begun = await self._left_behind(turn, "recover")
            if taken is not None and turn.journal.lease is not None:
                taken(turn)
            return begun

        async with self._turn(session_id) as actor:
            begun = await self._admitted(actor, AS_SET, begin, wait_s=wait_s)
            result = None if begun is None else await ended(begun)
            if actor.state is not None and actor.state.facts.family is not None:
                await child_entry.after_run(self.kernel, actor.state)
            return result

    async def run_child(self, session_id: str, parent: RunContext) -> StatefulResult | None:
        """Begins or continues a child whose parent waits for it right here; None while another process runs it.

        The child stops with its parent; when the parent leaves its own run to others, so does the child.
        """

        async def begin(turn: Turn) -> Begun:
            known = turn.actor.state  # of a child that has begun, others may have gone on with it since
            await self._load(turn, fresh=known is not None and known.facts.send is not None)
            state = turn.journal.state
            turn.journal.awaited = True
            if state.active is None and state.facts.send is not None:
                if turn.journal.inbox_waiting and any(i.kind == "message" for i in await turn.journal.waiting()):
                    begun: Begun | None = await self._from_inbox(turn)  # something was said to it since
                else:
                    return results.result_of(state)
            else:
                begun = await self._left_behind(turn, "its parent goes on")
            assert begun is not None
            return child_entry.beside_parent(turn, parent, begun)

        async with self._turn(session_id) as actor:
            try:
                return await ended(await self._admitted(actor, AS_SET, begin, wait_s=0.0))
            except SessionBusyError:
                return None

    async def _left_behind(self, turn: Turn, reason: str) -> Begun | None:
        """An open send or waiting messages, to go on with; stops that came after what they were meant for are taken away."""
        state = turn.journal.state
        if state.active is not None:
            if not state.active.paused:
                return await turn.take_over(reason)
            return await wakes.woken_or_waiting(turn)
        items = await turn.journal.waiting() if turn.journal.inbox_waiting else ()
        if state.facts.family is not None and child_entry.stopped_before_it_began(state, items):
            return await child_entry.never_begun(turn, items, self._start(turn))
        unbegun = state.facts.family is not None and state.facts.send is None
        first = child_entry.first_input(state) if unbegun else []  # it begins with what it was made with
        if first or (unbegun and state.workflow is not None) or any(item.kind not in WAKING_KINDS for item in items):
            begun = await self._open(turn, first)
            if unbegun:
                child_entry.hear_stops_after(turn, items)
            return begun
        if items:
            records = await said(self.kernel, state, items)
            await turn.journal.commit(records, release=True, ops=(TakeItems(tuple([i.item_id for i in items])),))
        return None

    async def enqueue(self, session_id: str, message: UserMessage, item_id: str) -> FollowUpQueued:
        """Stores an input in the inbox and leaves it to whoever runs the session."""
        check_conversation((await self.kernel.store.lookup(session_id)).head)
        return _receipt(session_id, item_id, await self._queued(session_id, message, item_id))

    async def follow_up(
        self, session_id: str, message: UserMessage, item_id: str, options: SendOptions
    ) -> StatefulResult | FollowUpQueued:
        """Stores an input in the inbox; runs it when nobody else will."""
        store = self.kernel.store
        head = (await store.lookup(session_id)).head
        check_known(head, self.kernel.config.agent_name)
        check_conversation(head)
        queued = await self._queued(session_id, message, item_id)
        receipt = _receipt(session_id, item_id, queued)
        if queued.duplicate and queued.depth == 0:
            return receipt  # delivered before; a duplicate that still waits is run like a new one
        actor = ACTORS.find(store.identity, session_id)
        if queued.status == "waiting" or (queued.status == "running" and actor is not None and actor.token is not None):
            return receipt
        if queued.status == "running":
            head = (await store.lookup(session_id)).head
            if head.owner not in (None, store.owner) and head.expires_in_s > 0:
                return receipt

        async def begin(turn: Turn) -> Begun | None:
            await self._load(turn, fresh=True)
            state = turn.journal.state
            if state.active is not None:
                if state.active.paused:
                    return None
                old = await turn.take_over("a follow-up arrived")
                return functools.partial(self._own_after, turn, old, item_id)
            items = await turn.journal.waiting()
            return await self._from_inbox(turn) if any(i.kind not in WAKING_KINDS for i in items) else None

        async with self._turn(session_id) as actor:
            try:
                begun = await self._admitted(actor, options, begin)
            except SessionBusyError:
                return receipt  # accepted, and somebody who began meanwhile will take it
            if begun is None:
                return receipt
            return await ended(begun)

    async def _queued(self, session_id: str, message: UserMessage, item_id: str) -> Enqueued:
        """Stores the item; a run of this session in this process sees it at its next boundary."""
        store, now = self.kernel.store, self.kernel.ambient.now()
        message = await without_bytes(self.kernel, session_id, message)
        self.kernel.ambient.reach("inbox.before")
        queued = await store.enqueue(session_id, InboxItem(item_id, "message", encode(message), now))
        self.kernel.ambient.reach("inbox.after")
        if not queued.duplicate:
            self.kernel.emit(session_id, AgentEventType.INBOX_QUEUED, item_id, queued.depth)
        actor = ACTORS.find(store.identity, session_id)
        if actor is not None:
            actor.inbox_seq = max(actor.inbox_seq, queued.inbox_seq)
        return queued

    def created(self, session_id: str, records: Sequence[Record], at: float, needs: int) -> None:
        """Remembers a session that was just made, so that its first send need not read what was written."""
        keep = self.kernel.config.session_cache_size
        actor = ACTORS.pin(self.kernel.store.identity, session_id)
        if keep > 0 and actor.state is None and not actor.busy:
            actor.state = fold([(record, at) for record in records])
            actor.format = needs
        ACTORS.unpin(actor, keep)

    async def prewarm(self, session_id: str) -> bool:
        """Loads the session's state unless it is warm; True when it was loaded."""

        async def load(turn: Turn) -> bool:
            return await turn.journal.load() is not None

        return await self.in_turn(session_id, load)

    async def in_turn(self, session_id: str, work: Callable[[Turn], Awaitable[T]]) -> T:
        """`work` with the session's turn, done again from its start when another writer got ahead."""
        async with self._turn(session_id) as actor:
            return await self._admitted(actor, AS_SET, work)

    async def run_after(self, session_id: str, begin: Callable[[Turn], Awaitable[Begun]]) -> StatefulResult:
        """Begins and runs a send with the session's turn."""
        return await self._begin_and_run(session_id, AS_SET, begin)

    async def _begin_and_run(
        self, session_id: str, options: SendOptions, begin: Callable[[Turn], Awaitable[Begun]]
    ) -> StatefulResult:
        self._sends += 1
        if self._sends % BREATH == 0:
            await breathe()
        async with self._turn(session_id) as actor:
            begun = await self._admitted(actor, options, begin)
            result = await ended(begun)
            if result.status in _UNHEARD and actor.inbox_seq > actor.inbox_seen:
                await self._run_unheard(actor)
            if actor.state is not None and actor.state.facts.family is not None:
                await child_entry.after_run(self.kernel, actor.state)
            return result

    async def _run_unheard(self, actor: Actor) -> None:
        """Runs what was said to a send that ended without hearing it; the result is nobody's, so only events tell."""

        async def begin(turn: Turn) -> Begun | None:
            await self._load(turn, fresh=True)
            items = () if turn.journal.state.active is not None else await turn.journal.waiting()
            return await self._from_inbox(turn) if any(i.kind == "message" for i in items) else None

        try:
            begun = await self._admitted(actor, AS_SET, begin)
            if begun is not None:
                await ended(begun)
        except (RetryLaterError, StoreError) as error:
            _log.warning("session %s: a follow-up waits for the next run: %s", actor.session_id, error)

    def _turn(self, session_id: str) -> TurnOf:
        """The session's turn, to be taken with `async with`."""
        return ACTORS.turn(self.kernel.store.identity, session_id, self.kernel.config.session_cache_size)

    async def _admitted(
        self,
        actor: Actor,
        options: SendOptions,
        work: Callable[[Turn], Awaitable[T]],
        *,
        wait_s: float | None = None,
    ) -> T:
        """The result of `work`, waiting for the lease and starting over when another writer got ahead."""
        kernel = self.kernel
        deadline, moves = 0.0, 0
        while True:
            turn = Turn(kernel, actor, options)
            try:
                return await work(turn)
            except asyncio.CancelledError:
                await settled(turn.left())
                raise
            except SessionMovedError:
                actor.forget()
                moves += 1
                if moves > MAX_MOVES:
                    raise
            except SessionBusyError as busy:
                actor.forget()
                now = kernel.ambient.monotonic()
                deadline = deadline or now + (kernel.config.lease_wait_s if wait_s is None else wait_s)
                if now >= deadline:
                    raise
                await kernel.ambient.sleep(min(deadline - now, max(busy.expires_in_s, 0.02), 0.1))

    async def _load(self, turn: Turn, *, fresh: bool = False) -> None:
        """Loads the session; an open send that somebody alive is running is `SessionBusyError`."""
        head = await turn.journal.load(fresh=fresh)
        if head is None or head.status != "running":
            return
        if head.owner is not None and head.owner != self.kernel.store.owner and head.expires_in_s > 0:
            raise SessionBusyError(turn.actor.session_id, head.owner, head.expires_in_s)

    async def _open(
        self,
        turn: Turn,
        messages: Sequence[Record],
        *,
        healed: Sequence[Record] = (),
        ops: tuple[Op, ...] = (),
    ) -> Callable[[], Awaitable[StatefulResult]]:
        """The commit that accepts an input and takes the lease."""
        options = turn.options
        if options.send_id is not None and messages:  # what waits in the inbox is known by this id already
            ops = (*ops, MarkItem(options.send_id))
        start = self._start(turn)
        before = await epochs.opening(turn, start) if epochs_asked(self.kernel, turn.journal.state, start) else ()
        done = await turn.journal.commit([*healed, *before, start, *messages], sync=True, ops=ops)
        turn.journal.stop_floor = done.inbox_seq
        return turn.run

    async def _open_after_earlier(
        self, turn: Turn, message: UserMessageAdded, healed: tuple[Sequence[Record], tuple[Op, ...]]
    ) -> Begun:
        """The same for a message that comes after those which wait in the inbox: they are said first, in one commit."""
        journal = turn.journal
        items = await journal.waiting() if journal.inbox_waiting else ()
        if not items:
            return await self._open(turn, [message], healed=healed[0], ops=healed[1])
        earlier = await said(self.kernel, journal.state, items)
        ids = tuple([item.item_id for item in items])
        begun = await self._open(turn, [*earlier, message], healed=healed[0], ops=(TakeItems(ids), *healed[1]))
        journal.actor.inbox_seen = max(journal.actor.inbox_seen, items[-1].seq)
        self.kernel.emit(journal.session_id, AgentEventType.INBOX_DELIVERED, ids)
        return begun

    def _start(self, turn: Turn) -> SendStarted:
        """The record with every limit of a new send."""
        options, config = turn.options, self.kernel.config
        usd = config.run_cost_budget_usd
        names = options.tools if options.tools is not None else (options.registry or self.kernel.tools).names()
        start = SendStarted(
            index=turn.journal.state.facts.sends + 1,
            send_id=options.send_id,
            max_rounds=options.max_rounds or config.max_rounds,
            tools=names,
            system_prompt=options.system_prompt,
            model=config.model,
            run_token_budget=options.run_token_budget or config.run_token_budget,
            run_cost_budget=None if usd is None else pricing.nanodollars(usd),
            max_output_tokens=options.max_output_tokens or config.max_output_tokens,
            output=options.output,
            context_budget_tokens=config.context_budget_tokens,
        )
        family = turn.journal.state.facts.family
        return start if family is None else spawning.as_spawned(start, family.persona, options.overridden())

    async def _from_inbox(self, turn: Turn) -> Callable[[], Awaitable[StatefulResult]]:
        """A send whose input is what waits in the inbox: it is taken at the first boundary, under the lease."""
        return await self._open(turn, [])

    async def _into_interrupted(self, turn: Turn, message: UserMessage, options: SendOptions) -> Begun:
        """Hands the input to the interrupted send, which goes on and takes it at its next boundary.

        The send is taken over first: who loses it to another process has stored nothing.
        """
        kernel = self.kernel
        message = await without_bytes(kernel, turn.actor.session_id, message)
        old = await turn.take_over("a new input arrived")
        item_id = options.send_id or kernel.ambient.new_id("item")
        item = InboxItem(item_id, "message", encode(message), kernel.ambient.now())
        kernel.ambient.reach("inbox.before")
        try:
            queued, cancelled = await settled(kernel.store.enqueue(turn.actor.session_id, item))
        except BaseException:
            turn.let_go()
            raise
        kernel.ambient.reach("inbox.after")
        turn.actor.inbox_seq = max(turn.actor.inbox_seq, queued.inbox_seq)
        if cancelled is not None:
            raise cancelled
        return functools.partial(self._own_after, turn, old, item_id)

    async def _own_after(self, turn: Turn, old: Begun, item_id: str) -> StatefulResult:
        """The result for an input handed to an interrupted send: that send's when it took the input, else its own's."""
        try:
            result = await ended(old)
        except asyncio.CancelledError:
            await settled(self._withdrawn(turn, item_id))
            raise
        if all(item.item_id != item_id for item in await turn.journal.waiting()):
            return result
        if turn.token.cancelled:
            await self._withdrawn(turn, item_id)
            return results.result_of(turn.journal.state)
        begun = await self._patiently(turn, functools.partial(self._known, send_id=item_id))
        return result if begun is None else await ended(begun)

    async def _patiently(self, turn: Turn, begin: Callable[[Turn], Awaitable[T]]) -> T:
        """The same for an input that is accepted already: another process that is ahead is waited for, however long."""
        while True:
            try:
                return await self._admitted(turn.actor, turn.options, begin)
            except SessionBusyError as busy:
                await self.kernel.ambient.sleep(min(max(busy.expires_in_s, 0.02), 0.1))

    async def _withdrawn(self, turn: Turn, item_id: str) -> None:
        """Ends an input that its caller stopped before any send took it: a send of its own, cancelled at once."""
        items = [item for item in await turn.journal.waiting() if item.item_id == item_id]
        await turn.journal.load()
        state = turn.journal.state
        if not items or state.active is not None:
            return
        heard = await said(self.kernel, state, items)
        finished = SendFinished(
            outcome="cancelled", error_code=CancellationRequested.code, error_message="stopped before it began"
        )
        records: list[Record] = [self._start(turn), *heard, finished]
        await turn.journal.commit(records, sync=True, release=True, ops=(TakeItems((item_id,)),))

    async def _known(self, turn: Turn, send_id: str) -> Begun | None:
        """What became of an id that was accepted before; None when it is new."""
        found = await self.kernel.store.lookup(turn.actor.session_id, item_id=send_id)
        if found.item_position is None:
            return None
        await self._load(turn, fresh=True)
        state = turn.journal.state
        waits = found.item_position < 0
        if state.active is not None and (waits or found.item_position > state.active.position):
            if state.active.paused:
                return await wakes.woken_or_waiting(turn)
            old = await turn.take_over("the same input was sent again")
            return functools.partial(self._own_after, turn, old, send_id) if waits else old
        if waits:
            return await self._from_inbox(turn)
        return await self._result_at(turn.actor.session_id, found.item_position)

    async def _result_at(self, session_id: str, position: int) -> StatefulResult:
        """The result of the send that took an input whose transition ended at `position`."""
        state = State()
        for row in await self.kernel.store.read(session_id):
            fold([(decode_record(row.kind, row.version, row.body), row.at)], state)
            if state.position >= position and state.facts.send is not None and state.facts.send.finished is not None:
                break
        return results.result_of(state)


def _receipt(session_id: str, item_id: str, queued: Enqueued) -> FollowUpQueued:
    return results.FollowUpQueued(
        session_id=session_id, item_id=item_id, queue_depth=queued.depth, duplicate=queued.duplicate
    )
