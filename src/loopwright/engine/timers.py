"""Firing timers whose time has come.

Owns: how a due timer becomes an inbox item, once, and what hooks may make of it. Must not know: who finds due timers
(`firing.py`), who arms them (`arming.py`).
Read next: `../core/timer_rules.py`, `running.py`, where the item becomes a user message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..core import timer_rules
from ..model.codec import decode, encode
from ..model.errors import ConfigError, HookFailedError, StoreCorruptError
from ..model.event_types import AgentEventType
from ..model.messages import UserMessage
from ..model.timer_spec import TimerBody, TimerKind, TimerOutcome
from ..ports.hook import HookDirective, HookPoint, TimerContext
from ..ports.settling import settled
from ..ports.store import DropTimer, DueTimer, Enqueued, InboxItem, Op, PutTimer
from .actor import ACTORS
from .cron import CronTimes
from .kernel import Kernel

CLAIM_S = 120.0
"""How long a process that asks hooks about a timer keeps others from it; renewed while the hooks take their time."""

SHORTEST_S = 1.0
"""The least that a firing is postponed by."""

CRON = CronTimes()


class Firing(Struct, frozen=True, kw_only=True):
    """What became of one firing here."""

    session_id: str
    timer_id: str
    outcome: TimerOutcome
    kind: TimerKind
    next_due_at: float | None = None
    error: str = ""
    running: bool = False
    """The session was being run when the item reached it."""


def wake_id(timer_id: str, due_at: float) -> str:
    """The item id of a timer at this time: whoever fires it, and however often, it is one item."""
    return f"timer:{timer_id}:{due_at!r}"


def read_body(timer: DueTimer) -> tuple[TimerBody, UserMessage | None]:
    """What is stored of a timer; the message where an older version, or a host, stored a bare encoded `UserMessage`.

    Raises: `StoreCorruptError` when it is neither.
    """
    try:
        return decode(timer.body, TimerBody), None
    except StoreCorruptError:
        message = decode(timer.body, UserMessage)
        return TimerBody(kind="message", note=message.text), message


async def fire(kernel: Kernel, timer: DueTimer) -> Firing | None:
    """Puts what the timer says into its session's inbox and removes the timer or arms it again, in one commit.

    None: somebody else was first, or it was dropped or armed for another time since it was found; nothing was changed. A
    `timer.fire` hook is asked before, under a claim of `CLAIM_S` seconds that others see as a later time of the timer; a
    wake goes without it. Whatever goes wrong before the commit has the timer armed for half a minute later.
    Raises: `StoreCorruptError` when the body cannot be read, nothing is stored then; what `Store.enqueue` raises.
    Cancel: a firing that waits for a hook is given back; a commit is finished first.
    """
    shot = _Shot(kernel, timer)
    hooks = kernel.hooks
    asked = shot.body.kind == "message" and hooks.in_use and hooks.has(HookPoint.TIMER_FIRE)
    try:
        return await (shot.asked() if asked else shot.deliver())
    except (HookFailedError, ConfigError, ImportError, ValueError) as error:
        return await shot.again_later(str(error))


class _Shot:
    """One firing; an object because its steps share the timer, its body and the time that it is stored under."""

    def __init__(self, kernel: Kernel, timer: DueTimer) -> None:
        self.kernel = kernel
        self.timer = timer
        self.body, self.given = read_body(timer)
        self.due_at = timer.due_at if self.body.firing_for is None else self.body.firing_for
        self._stored_at = timer.due_at

    async def deliver(self, text: str | None = None) -> Firing | None:
        """Stores the item; `text` is what a hook made of the message."""
        kernel, body = self.kernel, self.body
        now = kernel.ambient.now()
        kind = "wake" if body.kind == "wake" else "timer"
        item = InboxItem(wake_id(self.timer.timer_id, self.due_at), kind, self._said(text, now), now)
        next_at, ops = self._fired(now)
        kernel.ambient.reach("inbox.before")
        queued, cancelled = await settled(kernel.store.enqueue(self.timer.session_id, item, ops))
        kernel.ambient.reach("inbox.after")
        if cancelled is not None:
            raise cancelled
        if queued.duplicate:
            # It was somebody else, who took the timer away; or it fired for this time before and was armed for it anew.
            await self._change(ops)
            return None
        actor = ACTORS.find(kernel.store.identity, self.timer.session_id)
        if actor is not None:
            actor.inbox_seq = max(actor.inbox_seq, queued.inbox_seq)
        idle = queued.status == "idle"
        return self._told("delivered" if idle else "queued", next_at, running=queued.status == "running")

    async def asked(self) -> Firing | None:
        """Delivers it as the hooks want."""
        if self.given is None and not await self._claim():
            return None
        now = self.kernel.ambient.now()
        message = self.given.text if self.given is not None else self._spoken(now)
        context = TimerContext(
            session_id=self.timer.session_id,
            timer_id=self.timer.timer_id,
            note=self.body.note,
            due_at=self.due_at,
            message=message,
            fire_count=self.body.fire_count,
            recurring=self.body.every_s is not None or self.body.cron is not None,
        )
        try:
            await self._holding(self.kernel.hooks.run(HookPoint.TIMER_FIRE, context))
        except asyncio.CancelledError:
            await settled(self._put_back(self.due_at))
            raise
        if context.directive is HookDirective.BREAK:
            return await self._instead("cancelled", None, ())
        if context.postpone_s is not None:
            return await self._postponed(context.postpone_s)
        now = self.kernel.ambient.now()
        if context.directive is HookDirective.SKIP:
            next_at, ops = self._fired(now)
            return await self._instead("skipped", next_at, ops[1:])
        return await self.deliver(None if context.message == message else _text(context.message))

    async def again_later(self, why: str) -> Firing | None:
        """The firing went wrong: the timer is armed for a little later."""
        at = self.kernel.ambient.now() + timer_rules.RETRY_S
        return await self._instead("error", at, (self._put(at),), why=why)

    async def _postponed(self, wait_s: Any) -> Firing | None:
        usable = isinstance(wait_s, int | float) and not isinstance(wait_s, bool)
        if not (usable and 0 <= wait_s <= timer_rules.FOR_HOSTS.most_s):
            raise ConfigError(f"postpone_s must be 0 to {timer_rules.FOR_HOSTS.most_s:.0f} seconds, not {wait_s!r:.50}")
        at = self.kernel.ambient.now() + max(float(wait_s), SHORTEST_S)
        return await self._instead("postponed", at, (self._put(at),))

    async def _instead(
        self, outcome: TimerOutcome, next_at: float | None, ops: tuple[Op, ...], *, why: str = ""
    ) -> Firing | None:
        """The timer ends or is armed again, and the session hears nothing."""
        done = await self._change((self._drop(), *ops))
        return None if done.duplicate else self._told(outcome, next_at, why=why)

    async def _change(self, ops: tuple[Op, ...]) -> Enqueued:
        self.kernel.ambient.reach("timer.before")
        done = await self.kernel.store.enqueue(self.timer.session_id, None, ops)
        self.kernel.ambient.reach("timer.after")
        return done

    # --- the claim --------------------------------------------------------------------------------------------------

    async def _claim(self) -> bool:
        """Keeps others from the timer for a while, or longer; False when it is not ours (any more)."""
        until = self.kernel.ambient.now() + CLAIM_S
        claimed = PutTimer(self.timer.timer_id, until, encode(replace(self.body, firing_for=self.due_at)))
        done = await self._change((self._drop(), claimed))
        if not done.duplicate:
            self._stored_at = until
        return not done.duplicate

    async def _holding(self, work: Coroutine[Any, Any, object]) -> None:
        """Waits for the hooks; the claim is renewed meanwhile. Losing it ends the wait: what is committed then is refused."""
        hooks = asyncio.ensure_future(work)
        try:
            while self.given is None and not hooks.done():
                nap = asyncio.ensure_future(self.kernel.ambient.sleep(CLAIM_S / 4))
                try:
                    await asyncio.wait([hooks, nap], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    nap.cancel()
                if not hooks.done() and not await self._claim():
                    break
            if self.given is not None or hooks.done():
                await hooks
        finally:
            hooks.cancel()

    async def _put_back(self, at: float) -> None:
        """Nobody fires it here: it is as due as it was."""
        if self.given is None:
            await self._change((self._drop(), self._put(at)))

    # --- what is stored ---------------------------------------------------------------------------------------------

    def _fired(self, now: float) -> tuple[float | None, tuple[Op, ...]]:
        """When it is due again, and what becomes of the timer. Raises: `ImportError`, `ValueError` for a cron expression."""
        next_at = timer_rules.next_due(self.body, now, CRON)
        if next_at is None:
            return None, (self._drop(),)
        again = encode(timer_rules.after_firing(self.body, now))
        return next_at, (self._drop(), PutTimer(self.timer.timer_id, next_at, again))

    def _drop(self) -> DropTimer:
        return DropTimer(self.timer.timer_id, self._stored_at)

    def _put(self, at: float) -> PutTimer:
        body = self.timer.body if self.given is not None else encode(replace(self.body, firing_for=None))
        return PutTimer(self.timer.timer_id, at, body)

    def _said(self, text: str | None, now: float) -> bytes:
        if self.body.kind == "wake":
            return encode(self.body)
        if self.given is not None and text is None:
            return self.timer.body
        return encode(UserMessage(self._spoken(now) if text is None else text))

    def _spoken(self, now: float) -> str:
        return timer_rules.spoken(self.timer.timer_id, self.body, self.due_at, now)

    def _told(self, outcome: TimerOutcome, next_at: float | None, *, running: bool = False, why: str = "") -> Firing:
        kernel, timer = self.kernel, self.timer
        kernel.emit(
            timer.session_id,
            AgentEventType.TIMER_FIRED,
            timer.timer_id,
            self.body.note,
            self.due_at,
            outcome,
            next_at,
            why,
        )
        return Firing(
            session_id=timer.session_id,
            timer_id=timer.timer_id,
            outcome=outcome,
            kind=self.body.kind,
            next_due_at=next_at,
            error=why,
            running=running,
        )


def _text(message: object) -> str:
    """What a hook wants said. Raises `ConfigError` when that cannot be."""
    if not isinstance(message, str) or not message.strip():
        raise ConfigError(f"a timer.fire hook must leave a text in message, not {message!r:.50}; SKIP says nothing")
    if (size := len(message.encode())) > timer_rules.MOST_SPOKEN:
        raise ConfigError(
            f"a timer.fire hook left a message of {size} bytes, {timer_rules.MOST_SPOKEN} are allowed; the timer is tried again"
        )
    return message
