"""Commits a second at 1, 16 and 256 concurrent sessions, how long one takes, and what it waits for.

Owns: these figures and the turn whose commits they are. Must not know: any store.
Read next: `growth.py`, what a larger database costs.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from loopwright.model.codec import encode_record
from loopwright.model.messages import AssistantMessage, TextPart, ToolCall, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    Record,
    SendFinished,
    SendStarted,
    ToolFinished,
    UserMessageAdded,
)
from loopwright.model.usage import Usage
from loopwright.ports.store import Acquire, EncodedRecord, HeadChange, Lease, NewSession, Store, Transition

from ..measuring import Figure, Scale, compared
from ..workload import ANSWER, QUESTION, look_up_text
from .contestants import Contestant

SESSIONS = (1, 16, 256)
SPAN_S = 0.8
WAITS = "waits: of memory none, of SQLite syncs to the disk, of a server round trips"
GROUPED = 10.0
"""How many times its own rate with one session a SQLite file that syncs every commit has to reach with 256."""


def encoded(*records: Record) -> tuple[EncodedRecord, ...]:
    return tuple([EncodedRecord(kind, version, 1.0, body) for kind, version, body in map(encode_record, records)])


_USAGE = Usage(100, 20, calls=1)
_CALL = ToolCall("call_1", "look_up", '{"order_id": 4711, "detail": "state"}')

ACCEPTED = encoded(SendStarted(index=1, max_rounds=24), UserMessageAdded(UserMessage(QUESTION)))
ASKED = encoded(AssistantMessageAdded(AssistantMessage((_CALL,)), 1, "tool_calls", _USAGE, "fake"))
FOUND = encoded(ToolFinished("call_1", "look_up", "ok", look_up_text(4711, "state")))
ENDED = encoded(
    AssistantMessageAdded(AssistantMessage((TextPart(ANSWER),)), 2, "stop", _USAGE, "fake"),
    SendFinished(outcome="completed", rounds=2),
)
TURN = ((ACCEPTED, True), (ASKED, False), (FOUND, False), (ENDED, True))
"""The commits of a turn with one tool call, as the engine makes them: records, and whether they are marked `sync`."""


class Writer:
    """One session, written as the engine does it: the first commit of a turn takes the lease, the last gives it back."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._position = 0
        self.took_s: list[float] = []

    async def create(self) -> None:
        await self._store.create(NewSession(session_id=self._session_id, agent_name="agent", records=(), at=1.0))

    async def turn(self) -> None:
        token = self._position.to_bytes(16, "big")
        lease: Lease | Acquire = Acquire(token, 30.0)
        for records, sync in TURN:
            last = records is ENDED
            head = HeadChange(status="idle" if last else "running", sends=int(records is ACCEPTED), usage=_USAGE)
            transition = Transition(
                session_id=self._session_id,
                expect=self._position,
                lease=lease,
                records=records,
                head=head,
                release=last,
                sync=sync,
            )
            began = time.perf_counter()
            done = await self._store.commit(transition)
            self.took_s.append(time.perf_counter() - began)
            self._position = done.position
            lease = Lease(done.epoch, token)

    async def turns_until(self, end: float) -> None:
        while time.perf_counter() < end:
            await self.turn()


async def writers(store: Store, prefix: str, count: int) -> list[Writer]:
    made = [Writer(store, f"{prefix}-{n}") for n in range(count)]
    await asyncio.gather(*[writer.create() for writer in made])
    return made


async def commits(scale: Scale, contestant: Contestant) -> list[Figure]:
    """One row for each number of sessions: rates by turns, in rounds; the ratio is to the store's own single session."""
    waits = await _waits(scale, contestant)
    store = contestant.open("commits")
    try:
        groups = {count: await writers(store, f"of-{count}", count) for count in SESSIONS}
        rates: dict[int, list[float]] = {count: [] for count in SESSIONS}
        order = list(SESSIONS)
        for n in range(-1, scale.of(5, 1)):
            for count in order:
                rate = await _rate(groups[count], SPAN_S if n >= 0 and not scale.quick else SPAN_S / 8)
                if n >= 0:
                    rates[count].append(rate)
                else:
                    for writer in groups[count]:
                        writer.took_s.clear()
            order.append(order.pop(0))
    finally:
        await store.aclose()
    return [_row(contestant, count, rates, groups[count], waits[count]) for count in SESSIONS]


async def _rate(group: Sequence[Writer], span_s: float) -> float:
    before = sum(len(writer.took_s) for writer in group)
    began = time.perf_counter()
    await asyncio.gather(*[writer.turns_until(began + span_s) for writer in group])
    return (sum(len(writer.took_s) for writer in group) - before) / (time.perf_counter() - began)


async def _waits(scale: Scale, contestant: Contestant) -> dict[int, float]:
    """Waits per commit at each number of sessions, after a turn that opens connections and prepares statements."""
    found: dict[int, float] = {}
    async with contestant.counted() as (store, so_far):
        for count in SESSIONS:
            group = await writers(store, f"counted-{count}", count)
            await asyncio.gather(*[writer.turn() for writer in group])
            before, turns = so_far(), scale.of(512, 64) // count + 1
            for _ in range(turns):
                await asyncio.gather(*[writer.turn() for writer in group])
            found[count] = (so_far() - before) / (turns * count * len(TURN))
    return found


def _row(
    contestant: Contestant, count: int, rates: dict[int, list[float]], group: Sequence[Writer], waits: float
) -> Figure:
    judged = contestant.name == "SQLite full" and count == SESSIONS[-1]
    figure = compared(
        f"commits, {contestant.name}, {count} {'session' if count == 1 else 'sessions'}",
        "/s",
        {"1 session": rates[1]},
        rates[count],
        budget=f"≥ {GROUPED:.0f}×" if judged else "",
        limit=GROUPED if judged else None,
        more_is_better=True,
    )
    took = statistics.quantiles([s * 1000 for writer in group for s in writer.took_s], n=100)
    figure.others = {"p50 ms": took[49], "p99 ms": took[98], "waits per commit": waits}
    figure.notes.append(WAITS)
    return figure
