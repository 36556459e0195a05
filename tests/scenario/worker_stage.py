"""What workers find: sessions as a killed process, a sender without a process or a timer leaves them; stores that misbehave."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from loopwright import StatefulAgentLoop, UserMessage, WorkerSettings
from loopwright.engine.journal import checked_record
from loopwright.engine.worker import SessionNews
from loopwright.model.codec import encode
from loopwright.model.errors import StoreUnavailableError
from loopwright.model.records import SendStarted, UserMessageAdded
from loopwright.ports.store import Acquire, Claimable, ClaimQuery, HeadChange, InboxItem, PutTimer, Transition
from loopwright.stores.memory import MemoryStore

QUICK = WorkerSettings(poll_min_s=0.005, poll_max_s=0.02)
"""For workers on the real clock."""


async def interrupted(loop: StatefulAgentLoop, text: str = "go", *, session_id: str | None = None) -> str:
    """A session whose send was accepted by a process that is gone."""
    sid = await loop.new_session(session_id=session_id)
    records = [SendStarted(index=1, max_rounds=5), UserMessageAdded(UserMessage(text))]
    accepted = Transition(
        session_id=sid,
        expect=1,
        lease=Acquire(b"somebody", 5.0),
        records=tuple([checked_record(record, 0.0) for record in records]),
        head=HeadChange(status="running"),
        release=True,
    )
    await loop.store.commit(accepted)
    return sid


async def waiting(loop: StatefulAgentLoop, text: str = "go") -> str:
    """An idle session with a message that no process began to answer."""
    sid = await loop.new_session()
    await loop.store.enqueue(sid, InboxItem("m1", "message", encode(UserMessage(text)), 0.0))
    return sid


async def with_timer(loop: StatefulAgentLoop, body: bytes, *, due_at: float = 1.0) -> str:
    """An idle session with a timer and no words yet."""
    sid = await loop.new_session()
    armed = Transition(
        session_id=sid, expect=1, lease=Acquire(b"somebody", 5.0), ops=(PutTimer("t1", due_at, body),), release=True
    )
    await loop.store.commit(armed)
    return sid


class News:
    """Collects what a worker says."""

    def __init__(self) -> None:
        self.all: list[SessionNews] = []

    def __call__(self, news: SessionNews) -> None:
        self.all.append(news)

    def of(self, what: str) -> list[str]:
        return [news.session_id for news in self.all if news.what == what]


class LookedAt(MemoryStore):
    """Notes when it was looked at for work; `away` looks fail first."""

    def __init__(self, clock: Any, *, place: str = "", away: int = 0) -> None:
        super().__init__(place)
        self.clock = clock
        self.away = away
        self.looks: list[float] = []

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        self.looks.append(self.clock.monotonic())
        if self.away > 0:
            self.away -= 1
            return self._gone()
        return super().claim(query)

    async def _gone(self) -> Claimable:
        raise StoreUnavailableError("no connection")
