"""What a larger database costs: reading one window, a claim that finds nothing, and firing due timers.

Owns: databases of three sizes and these figures. Must not know: any store.
Everything goes through the store's own calls, the filling too, so that rows are as a real life leaves them.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.model.codec import encode
from loopwright.model.messages import UserMessage
from loopwright.ports.store import (
    Acquire,
    ClaimQuery,
    DropTimer,
    DueTimer,
    InboxItem,
    NewSession,
    PutTimer,
    Store,
    Transition,
)

from ..measuring import Figure, Sample, Scale, Work, compared, cpu, interleaved, wall
from ..workload import QUESTION
from .commits import TURN
from .contestants import Contestant

RECORDS = 100
"""In each session: some sixteen turns with a tool call each."""
TIMERS = 10
"""Armed in each session."""
SIZES = (1, 100, 10_000)
QUICK_SIZES = (1, 10, 100)
READS, CLAIMS = 20, 3
"""A round's."""
CLAIMED = 50
"""How much a claim asks for."""
DUE = 2000
"""Timers of the largest database that come due."""
AT_ONCE = 64
"""Sessions made at once; more would not make the filling faster."""
EPOCH_S = 1e9
MICRO = 1e6

JOURNAL = tuple(itertools.islice(itertools.cycle(record for records, _ in TURN for record in records), RECORDS))
WAKE = encode(UserMessage(QUESTION))
QUERY = ClaimQuery(agent_names=("agent",), max_format=1, now=0.0, limit=CLAIMED)


@dataclass(frozen=True)
class Fired:
    """How long it took until the last due timer was fired."""

    took_s: float
    claiming_s: float
    """Of that, waiting for claims."""
    claims: int


@dataclass(frozen=True)
class Filled:
    """A database with this many sessions, each with its records and timers."""

    store: Store
    sessions: int
    picks: Iterator[int]

    async def read(self) -> int:
        """Sessions from all over the database, one after the other."""
        for _ in range(READS):
            found = await self.store.read(f"s{next(self.picks) % self.sessions}")
            if len(found) != RECORDS:
                raise RuntimeError(f"a window has {len(found)} records")
        return READS

    async def claim_nothing(self) -> int:
        for _ in range(CLAIMS):
            found = await self.store.claim(QUERY)
            if found.timers or found.interrupted:
                raise RuntimeError("something was claimed before its time")
        return CLAIMS

    async def fire_due(self, due: int) -> Fired:
        """Fires that many timers, as a worker that has nothing else to do."""
        now = EPOCH_S + due - 1
        fired, claims, claiming_s, began = 0, 0, 0.0, time.perf_counter()
        while fired < due:
            asked = time.perf_counter()
            found = await self.store.claim(ClaimQuery(agent_names=("agent",), max_format=1, now=now, limit=CLAIMED))
            claiming_s += time.perf_counter() - asked
            claims += 1
            if not found.timers:
                raise RuntimeError(f"only {fired} of {due} timers came due")
            await asyncio.gather(*[self._fire(timer) for timer in found.timers])
            fired += len(found.timers)
        return Fired(time.perf_counter() - began, claiming_s, claims)

    async def _fire(self, timer: DueTimer) -> None:
        item = InboxItem(f"timer:{timer.timer_id}:{timer.due_at!r}", "timer", timer.body, EPOCH_S)
        await self.store.enqueue(timer.session_id, item, (DropTimer(timer.timer_id),))


async def fill(store: Store, sessions: int) -> None:
    """The n-th timer of all comes due n seconds after the epoch of this module; neighbours are of different sessions."""
    for first in range(0, sessions, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, sessions))
        await asyncio.gather(*[_create(store, n) for n in numbers])
        await asyncio.gather(*[_arm(store, n, sessions) for n in numbers])


async def _create(store: Store, number: int) -> None:
    await store.create(NewSession(session_id=f"s{number}", agent_name="agent", records=JOURNAL, at=1.0))


async def _arm(store: Store, number: int, sessions: int) -> None:
    timers = tuple(PutTimer(f"t{n}", EPOCH_S + n * sessions + number, WAKE) for n in range(TIMERS))
    lease = Acquire(number.to_bytes(16, "big"), 30.0)
    await store.commit(
        Transition(session_id=f"s{number}", expect=RECORDS, lease=lease, ops=timers, release=True, sync=True)
    )


async def growth(scale: Scale, contestant: Contestant) -> list[Figure]:
    """Rows of windows, of empty claims, and one of timers; ratios are to the smallest database, that of timers to the middle one."""
    sizes = QUICK_SIZES if scale.quick else SIZES
    for sessions in sizes:
        filling = contestant.open(f"filled-{sessions}", "relaxed")
        await fill(filling, sessions)
        if contestant.name != "memory":  # whose data are those of its object
            await filling.aclose()
    filled = {n: Filled(contestant.open(f"filled-{n}"), n, itertools.count(1, 7919)) for n in sizes}
    try:
        reads: dict[str, Work] = {str(n): one.read for n, one in filled.items()}
        claims: dict[str, Work] = {str(n): one.claim_nothing for n, one in filled.items()}
        rounds = scale.of(15, 1)
        windows, empty = await interleaved(reads, rounds), await interleaved(claims, rounds)
        _, middle, largest = sizes
        due = {middle: min(DUE, middle * TIMERS // 2), largest: min(DUE, largest * TIMERS // 2)}
        fired = {n: await filled[n].fire_due(count) for n, count in due.items()}
    finally:
        for one in filled.values():
            await one.store.aclose()  # type: ignore[attr-defined]
    return [
        *_rows(f"window of {RECORDS} records, {contestant.name}", RECORDS, "records", windows),
        *_rows(f"empty claim, {contestant.name}", TIMERS, "timers", empty),
        _fired(contestant, due, fired),
    ]


def _rows(what: str, each: int, noun: str, samples: dict[str, list[Sample]]) -> list[Figure]:
    smallest = next(iter(samples))
    floor = {f"{int(smallest) * each:,} {noun}": wall(samples[smallest])}
    rows: list[Figure] = []
    for sessions, found in samples.items():
        row = compared(f"{what}, {int(sessions) * each:,} {noun}", "µs", floor, wall(found), scale=MICRO)
        row.others["CPU µs"] = statistics.median(cpu(found)) * MICRO
        rows.append(row)
    return rows


def _fired(contestant: Contestant, due: dict[int, int], fired: dict[int, Fired]) -> Figure:
    (middle, before), (largest, now) = fired.items()
    row = compared(
        f"firing due timers, {contestant.name}, {largest * TIMERS:,} timers",
        "/s",
        {f"{middle * TIMERS:,} timers": [due[middle] / before.took_s]},
        [due[largest] / now.took_s],
        more_is_better=True,
    )
    row.others = {"claims/s": now.claims / now.took_s, "ms per claim": now.claiming_s / now.claims * 1000}
    return row
