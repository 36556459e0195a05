"""Many sessions at once: 1,000 conversations of five turns with a model that takes 20 ms.

Owns: this figure, and beside it what is left of it without an engine. Read next: `figures_streaming.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from pathlib import Path

from loopwright import StatefulAgentLoop
from loopwright.model.codec import encode_record
from loopwright.model.messages import AssistantMessage, TextPart, UserMessage
from loopwright.model.records import AssistantMessageAdded, Record, SendFinished, SendStarted, UserMessageAdded
from loopwright.model.usage import Usage
from loopwright.ports.store import Acquire, EncodedRecord, HeadChange, Lease, NewSession, Transition
from loopwright.stores.sqlite import SqliteStore

from .floor import DRIVERS, FloorSession, FloorStore
from .measuring import Figure, Scale, Work, compared, cpu, interleaved, wall
from .workload import ANSWER, QUESTION, SYSTEM, FakeModel

TURNS = 5
LATENCY_S = 0.020


BARE = "our store without the engine"


class BareStore:
    """The commits of these turns, made beforehand: what a store with leases and heads costs before anybody decides anything."""

    def __init__(self, path: Path, level: str, sessions: int) -> None:
        self.store = SqliteStore(path, durability=level)  # type: ignore[arg-type]
        self._sessions = sessions
        self._numbers = itertools.count()
        self._begins = _encoded(SendStarted(index=1, max_rounds=24), UserMessageAdded(UserMessage(QUESTION)))
        reply = AssistantMessage((TextPart(ANSWER),))
        usage = Usage(100, 20, calls=1)
        self._ends = _encoded(
            AssistantMessageAdded(reply, 1, "stop", usage, "fake"), SendFinished(outcome="completed", rounds=1)
        )
        self._paid = HeadChange(status="idle", usage=usage)

    async def work(self) -> int:
        await asyncio.gather(*[self._talk(f"s{next(self._numbers)}") for _ in range(self._sessions)])
        return self._sessions * TURNS

    async def _talk(self, session_id: str) -> None:
        await self.store.create(NewSession(session_id=session_id, agent_name="agent", records=(), at=1.0))
        position = 0
        for turn in range(TURNS):
            token = turn.to_bytes(16, "big")
            begun = await self.store.commit(
                Transition(
                    session_id=session_id,
                    expect=position,
                    lease=Acquire(token, 30.0),
                    records=self._begins,
                    head=HeadChange(status="running", sends=1),
                    sync=True,
                )
            )
            await asyncio.sleep(LATENCY_S)
            ended = await self.store.commit(
                Transition(
                    session_id=session_id,
                    expect=begun.position,
                    lease=Lease(begun.epoch, token),
                    records=self._ends,
                    head=self._paid,
                    release=True,
                    sync=True,
                )
            )
            position = ended.position


def _encoded(*records: Record) -> tuple[EncodedRecord, ...]:
    return tuple([EncodedRecord(kind, version, 1.0, body) for kind, version, body in map(encode_record, records)])


async def many(scale: Scale, level: str) -> Figure:
    """Turns a second by the wall clock; the sessions exist before the clock starts."""
    sessions = scale.of(1000, 100)
    numbers = itertools.count()
    errors: list[BaseException | str] = []
    stores = {driver: FloorStore(scale.folder / f"many-{level}-{driver}.db", driver, level) for driver in DRIVERS}
    path = scale.folder / f"many-{level}.db"
    async with StatefulAgentLoop(llm=FakeModel(latency_s=LATENCY_S), dsn=path, durability=level) as loop:
        prepared: list[list[str]] = []

        async def converse(session_id: str) -> None:
            for _ in range(TURNS):
                result = await loop.send(QUESTION, session_id=session_id)
                if result.status != "completed":
                    errors.append(result.status)

        async def ours() -> int:
            done = await asyncio.gather(*[converse(s) for s in prepared.pop()], return_exceptions=True)
            errors.extend(e for e in done if e is not None)
            return sessions * TURNS

        def floor(store: FloorStore) -> Work:
            async def talk(model: FakeModel) -> None:
                session = FloorSession(store, f"s{next(numbers)}")
                for _ in range(TURNS):
                    await session.send(model, QUESTION)

            async def work() -> int:
                model = FakeModel(latency_s=LATENCY_S)
                await asyncio.gather(*[talk(model) for _ in range(sessions)])
                return sessions * TURNS

            return work

        rounds = scale.of(2, 2)
        for _ in range(rounds):
            made = [loop.new_session(system_prompt=SYSTEM) for _ in range(sessions)]
            prepared += [await asyncio.gather(*made)]
        bare = BareStore(scale.folder / f"many-{level}-bare.db", level, sessions)
        contestants: dict[str, Work] = {driver: floor(store) for driver, store in stores.items()}
        samples = await interleaved({**contestants, BARE: bare.work, "ours": ours}, rounds, warm_up=0)
        await bare.store.aclose()
    for store in stores.values():
        store.close()
    figure = compared(
        f"{sessions:,} sessions × {TURNS} turns, 20 ms model, {level}",
        "turns/s",
        {driver: [1 / w for w in wall(samples[driver])] for driver in DRIVERS},
        [1 / w for w in wall(samples["ours"])],
        budget="≥ floor",
        limit=1.0 if not errors else float("inf"),
        more_is_better=True,
    )
    figure.notes.append(f"{len(errors)} errors" + (f", the first: {errors[0]!r}" if errors else ""))
    figure.others[f"turns/s of {BARE}"] = statistics.median([1 / w for w in wall(samples[BARE])])
    for name in (*DRIVERS, BARE, "ours"):
        figure.others[f"CPU µs a turn of {name}"] = statistics.median(cpu(samples[name])) * 1e6
    return figure
