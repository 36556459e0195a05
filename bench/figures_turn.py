"""One session: the durable turn, with a tool, with links, with a long history.

Owns: these four figures and the bytes of a turn. Read next: `figures_many.py`.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from loopwright import AgentLoopConfig, StatefulAgentLoop

from .floor import DRIVERS, FloorSession, FloorStore
from .measuring import Figure, Scale, Work, bytes_written, compared, cpu, interleaved, settle, wall
from .workload import QUESTION, SYSTEM, FakeModel, order_tool

MICRO = 1e6
SAME_BYTES = 1.15
"""Bytes at 5,000 messages against those at 10 that still count as independent of the length: a deeper b-tree."""


@asynccontextmanager
async def our_loop(
    path: Path, level: str, *, tool_effect: str | None = None, config: AgentLoopConfig | None = None
) -> AsyncIterator[StatefulAgentLoop]:
    tools = [order_tool(tool_effect)] if tool_effect else []
    model = FakeModel(tools=tool_effect is not None)
    async with StatefulAgentLoop(llm=model, dsn=path, tools=tools, durability=level, config=config) as loop:
        yield loop


async def our_turns(loop: StatefulAgentLoop, session_id: str, count: int) -> int:
    for _ in range(count):
        result = await loop.send(QUESTION, session_id=session_id)
        if result.status != "completed":
            raise RuntimeError(f"a turn ended as {result.status}: {result.error}")
    return count


async def turn(scale: Scale, level: str, *, tool_effect: str | None = None) -> Figure:
    """Turns of a new session a round, so that histories are short and equal on both sides."""
    count = scale.of(100, 40)
    kind = f"turn-{level}-{tool_effect}"
    numbers = itertools.count()
    stores = {driver: FloorStore(scale.folder / f"{kind}-{driver}.db", driver, level) for driver in DRIVERS}
    async with our_loop(scale.folder / f"{kind}.db", level, tool_effect=tool_effect) as loop:

        async def ours() -> int:
            session_id = await loop.new_session(system_prompt=SYSTEM)
            return await our_turns(loop, session_id, count)

        def floor(store: FloorStore) -> Work:
            async def work() -> int:
                model = FakeModel(tools=tool_effect is not None)
                session = FloorSession(store, f"s{next(numbers)}", write_intents=tool_effect == "once")
                for _ in range(count):
                    await session.send(model, QUESTION)
                return count

            return work

        samples = await interleaved(
            {**{driver: floor(store) for driver, store in stores.items()}, "ours": ours}, scale.of(13, 3)
        )
    for store in stores.values():
        store.close()
    what = "durable turn" if tool_effect is None else f"durable turn with 1 tool call ({tool_effect})"
    figure = compared(
        f"{what}, CPU, {level}",
        "µs",
        {driver: cpu(samples[driver]) for driver in DRIVERS},
        cpu(samples["ours"]),
        scale=MICRO,
        budget="≤ 4×",
        limit=4.0,
    )
    for name in (*DRIVERS, "ours"):
        figure.others[f"wall of {name}"] = statistics.median(wall(samples[name])) * MICRO
    return figure


async def linked(scale: Scale, level: str) -> Figure:
    """The same turn with every transition linked in a hash chain, ours against ours. Nobody's budget: it is a choice."""
    count = scale.of(100, 40)
    config = AgentLoopConfig(hash_chain=True, hash_chain_key=b"k" * 32)
    async with (
        our_loop(scale.folder / f"bare-{level}.db", level) as bare,
        our_loop(scale.folder / f"linked-{level}.db", level, config=config) as chained,
    ):

        def turns_of(loop: StatefulAgentLoop) -> Work:
            async def work() -> int:
                return await our_turns(loop, await loop.new_session(system_prompt=SYSTEM), count)

            return work

        samples = await interleaved({"bare": turns_of(bare), "linked": turns_of(chained)}, scale.of(13, 3))
    return compared(
        f"durable turn, hash chain with a key vs none, CPU, {level}",
        "µs",
        {"ours without": cpu(samples["bare"])},
        cpu(samples["linked"]),
        scale=MICRO,
    )


async def history(scale: Scale, level: str) -> list[Figure]:
    """The same turn with 10 and with 5,000 messages already there, ours against ours, and the bytes that it writes."""
    long_messages = scale.of(5000, 600)
    count, path = scale.of(40, 20), scale.folder / f"history-{level}.db"
    async with our_loop(path, "relaxed") as loop:
        long_id = await loop.new_session(system_prompt=SYSTEM)
        await our_turns(loop, long_id, long_messages // 2)
    async with our_loop(path, level) as loop:
        await loop.prewarm(long_id)

        async def with_ten() -> int:
            return await our_turns(loop, short_id, count)

        async def with_many() -> int:
            return await our_turns(loop, long_id, count)

        short: list[float] = []
        long: list[float] = []
        for n in range(scale.of(15, 3)):
            short_id = await loop.new_session(system_prompt=SYSTEM)
            await our_turns(loop, short_id, 5)
            # One warm-up in all: the rounds are short, because the short session must stay short.
            pair = await interleaved({"short": with_ten, "long": with_many}, 1, warm_up=int(n == 0))
            short += cpu(pair["short"])
            long += cpu(pair["long"])
        figure = compared(
            f"turn with {long_messages:,} messages there vs 10, CPU, {level}",
            "µs",
            {"ours with 10": short},
            long,
            scale=MICRO,
            budget="≤ 1.5×",
            limit=1.5,
        )
        written = await _bytes(loop, scale, long_id, long_messages)
    if written is not None:
        written.name += f", {level}"
    return [figure] if written is None else [figure, written]


async def _bytes(loop: StatefulAgentLoop, scale: Scale, long_id: str, long_messages: int) -> Figure | None:
    """Bytes handed to write calls in a turn, log and checkpoints included; None where nobody counts them.

    Neither session is the newest of its database, whose journal alone grows at the end of the file: that one is listed.
    Checkpoints come every few hundred turns and write much at once, so rounds are added up and not compared one by one.
    """
    if bytes_written() is None:
        return None
    count = scale.of(100, 30)
    found: dict[str, list[float]] = {"short": [], "long": [], "newest": []}
    for _ in range(scale.of(16, 2)):
        ids = {"short": await loop.new_session(system_prompt=SYSTEM), "long": long_id}
        ids["newest"] = await loop.new_session(system_prompt=SYSTEM)
        await our_turns(loop, ids["short"], 5)
        await our_turns(loop, ids["newest"], scale.of(60, 20))
        for kind, session_id in ids.items():
            await settle()
            before = bytes_written() or 0
            await our_turns(loop, session_id, count)
            await settle()
            found[kind].append(((bytes_written() or 0) - before) / count)
    figure = compared(
        f"bytes written per turn at {long_messages:,} messages vs 10",
        "B",
        {"ours with 10": [statistics.mean(found["short"])]},
        [statistics.mean(found["long"])],
        budget="equal",
        limit=SAME_BYTES,
    )
    figure.others["in the newest session of the file"] = statistics.median(found["newest"])
    figure.notes.append(f"equal means at most {SAME_BYTES}×; write-ahead log and checkpoints together")
    return figure
