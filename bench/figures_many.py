"""Many sessions at once: 1,000 conversations of five turns with a model that takes 20 ms.

Owns: this figure. Read next: `figures_streaming.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics

from loopwright import StatefulAgentLoop

from .floor import DRIVERS, FloorSession, FloorStore
from .measuring import Figure, Scale, Work, compared, cpu, interleaved, wall
from .workload import QUESTION, SYSTEM, FakeModel

TURNS = 5
LATENCY_S = 0.020


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
        samples = await interleaved(
            {**{driver: floor(store) for driver, store in stores.items()}, "ours": ours}, rounds, warm_up=0
        )
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
    for name in (*DRIVERS, "ours"):
        figure.others[f"CPU µs a turn of {name}"] = statistics.median(cpu(samples[name])) * 1e6
    return figure
