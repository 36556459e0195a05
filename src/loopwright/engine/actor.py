"""One actor per session and process: turns are taken one after the other, state is kept warm between them.

Owns: mutual exclusion inside the process, whatever the number of loop objects, event loops and threads; the state
cache. Must not know: what a turn does.
Read next: `journal.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import OrderedDict, deque
from typing import Any

from ..core.state import State
from ..model.errors import SessionReentrantError
from ..ports.cancellation import CancellationToken

_running: contextvars.ContextVar[tuple[Actor, ...]] = contextvars.ContextVar("loopwright_running", default=())
"""Actors whose turn this code runs in, outermost first."""


def outside_of_turns() -> contextvars.Context:
    """This code's context without the turns it runs in: for work that goes on beside them and takes turns of its own."""
    context = contextvars.copy_context()
    context.run(_running.set, ())
    return context


class Entered:
    """A turn that was taken, to be given to `Actor.leave`."""

    __slots__ = ("mark", "turn")

    def __init__(self, mark: contextvars.Token[tuple[Actor, ...]], turn: int) -> None:
        self.mark = mark
        self.turn = turn


class Actor:
    """A session in this process."""

    __slots__ = (
        "_held",
        "_holder",
        "_mutex",
        "_turns",
        "_waiting",
        "asked_fold",
        "beside",
        "folded",
        "folding",
        "folding_after",
        "format",
        "inbox_seen",
        "inbox_seq",
        "key",
        "learned",
        "pins",
        "scratch",
        "sent",
        "session_id",
        "state",
        "token",
    )

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.session_id = key[1]
        self.state: State | None = None
        """Warm state, as of the last commit of this process; checked against the store by the next commit."""
        self.format = 1
        """What a reader of the journal has to know (`min_format`), as of the warm state."""
        self.inbox_seq = 0
        """The newest inbox number that anybody here heard of."""
        self.inbox_seen = 0
        """The newest one whose items were read."""
        self.scratch: dict[str, Any] = {}
        self.folding: CancellationToken | None = None
        """Set while a fold is under way beside the runs; cancelled as soon as its note is made, to tell who waits for it."""
        self.folding_after = 0
        """The beginning of the window that it is made for, a position."""
        self.folded: Any = None
        """A fold that was made and is not written yet: `folding.Made`."""
        self.beside: set[str] = set()
        """Reservations of work beside the runs of this process: no commit takes them for left behind."""
        self.learned: dict[str, Any] | None = None
        """What replies taught about token counts, by model: `calibration.Learned`."""
        self.sent: Any = None
        """The request that the newest reply answered, while somebody asks how the next one fits: `prefix.Sent`."""
        self.asked_fold: CancellationToken | None = None
        """Stops the fold that a host asked for and that has the turn."""
        self.token: CancellationToken | None = None
        """Stops the run that has the turn; None between runs."""
        self.pins = 0
        self._mutex = threading.Lock()
        self._held = False
        self._holder: asyncio.AbstractEventLoop | None = None
        self._turns = 0
        """Turns taken so far; the number of the current one."""
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def busy(self) -> bool:
        """True while somebody has the turn."""
        return self._held

    async def enter(self) -> Entered:
        """Takes the turn, first come first served. Raises `SessionReentrantError` inside of one's own turn."""
        stack = _running.get()
        if self in stack:
            raise SessionReentrantError(self.session_id)
        place: asyncio.Future[None] | None = None
        loop = asyncio.get_running_loop()
        with self._mutex:
            if self._held and self._holder is not None and self._holder.is_closed():
                self._held = False  # whoever had the turn went down with its event loop, without giving it back
                self.forget()
                self.token = None
            if not self._held:
                self._take(loop)
            else:
                place = loop.create_future()
                self._waiting.append((loop, place))
        if place is not None:
            try:
                await place
            except asyncio.CancelledError:
                if place.cancelled():
                    self._withdraw(place)  # when it is not in line any more, `_hand_over` finds it cancelled
                else:
                    self._pass_on()
                raise
            self._take(loop)
        return Entered(_running.set((*stack, self)), self._turns)

    def leave(self, entered: Entered) -> None:
        """Gives the turn to the next in line, unless it was taken away from its holder meanwhile."""
        try:
            _running.reset(entered.mark)
        except ValueError:
            pass  # a turn that is torn down in another context, by the end of its event loop
        if entered.turn == self._turns:
            self._pass_on()

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        self._held = True
        self._holder = loop
        self._turns += 1

    def forget(self) -> None:
        """Drops the warm state: it may not be what the journal says."""
        self.state = self.sent = self.learned = None

    def _withdraw(self, place: asyncio.Future[None]) -> None:
        with self._mutex:
            for entry in self._waiting:
                if entry[1] is place:
                    self._waiting.remove(entry)
                    return

    def _pass_on(self) -> None:
        while True:
            with self._mutex:
                if not self._waiting:
                    self._held = False
                    return
                loop, place = self._waiting.popleft()
            try:
                loop.call_soon_threadsafe(self._hand_over, place)
            except RuntimeError:
                continue  # that event loop is closed; its waiter is gone with it
            return

    def _hand_over(self, place: asyncio.Future[None]) -> None:
        if place.cancelled():
            self._pass_on()
        else:
            place.set_result(None)


class ActorTable:
    """All actors of the process, by store identity and session id; idle ones are bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actors: dict[tuple[str, str], Actor] = {}
        self._idle: OrderedDict[tuple[str, str], Actor] = OrderedDict()
        """Those without a pin, longest idle first."""

    def __len__(self) -> int:
        return len(self._actors)

    def clear(self) -> None:
        """Forgets everything, lock included: for a forked child, where nobody can give anything back."""
        self._lock = threading.Lock()
        self._actors = {}
        self._idle = OrderedDict()

    def turn(self, identity: str, session_id: str, keep: int) -> TurnOf:
        """The session's actor with the turn taken; at most `keep` idle sessions stay warm afterwards."""
        return TurnOf(self, self.pin(identity, session_id), keep)

    def pin(self, identity: str, session_id: str) -> Actor:
        """The actor, made if needed, kept in the table until `unpin`."""
        key = (identity, session_id)
        with self._lock:
            actor = self._actors.get(key)
            if actor is None:
                actor = self._actors[key] = Actor(key)
            elif actor.pins == 0:
                del self._idle[key]
            actor.pins += 1
            return actor

    def unpin(self, actor: Actor, keep: int) -> None:
        """Ends a `pin`; beyond `keep` idle actors the longest idle ones go."""
        with self._lock:
            actor.pins -= 1
            if actor.pins == 0 and self._actors.get(actor.key) is actor:
                self._idle[actor.key] = actor
            gone: list[Actor] = []
            while len(self._idle) > keep:
                key, _ = self._idle.popitem(last=False)
                gone.append(self._actors.pop(key))
        for one in gone:
            one.scratch.clear()  # what lives there, such as a shell, ends now and not when memory is looked through

    def find(self, identity: str, session_id: str) -> Actor | None:
        """The actor if there is one."""
        return self._actors.get((identity, session_id))

    def drop(self, identity: str, session_id: str | None = None) -> None:
        """Forgets idle sessions of a store: one, or all."""
        with self._lock:
            if session_id is not None:
                gone = [key] if (key := (identity, session_id)) in self._idle else []
            else:
                gone = [key for key in self._idle if key[0] == identity]
            actors = [self._actors.pop(key) for key in gone]
            for key in gone:
                del self._idle[key]
        for actor in actors:
            actor.scratch.clear()

    def bury(self, identity: str) -> None:
        """Forgets all sessions of a store, those with a turn under way too. For crash tests: their process is dead."""
        with self._lock:
            for key in [k for k in self._actors if k[0] == identity]:
                del self._actors[key]
                self._idle.pop(key, None)


class TurnOf:
    """A turn to be taken with `async with`."""

    __slots__ = ("_actor", "_entered", "_keep", "_table")

    def __init__(self, table: ActorTable, actor: Actor, keep: int) -> None:
        self._table = table
        self._actor = actor
        self._keep = keep

    async def __aenter__(self) -> Actor:
        try:
            self._entered = await self._actor.enter()
        except BaseException:
            self._table.unpin(self._actor, self._keep)
            raise
        return self._actor

    async def __aexit__(self, *_: object) -> None:
        self._actor.leave(self._entered)
        self._table.unpin(self._actor, self._keep)


def _in_forked_child() -> None:
    """A forked process starts with empty hands: turns, locks and waiters belong to its parent."""
    ACTORS.clear()
    _running.set(())


ACTORS = ActorTable()
"""The one table of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
