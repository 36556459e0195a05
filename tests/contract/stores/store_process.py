"""A process of its own on a store file, told what to do on the command line; for tests that kill and stop it.

`write PATH PREFIX SESSIONS TURNS`: several sessions of its own and one that all processes share, many commits each.
`hold PATH SESSION TTL_S`: takes the lease, says so, and at each line on its input commits once and says what came of it.
"""

from __future__ import annotations

import asyncio
import sys

from loopwright.model.errors import LoopwrightError, SessionExistsError
from loopwright.ports.store import Acquire, EncodedRecord, InboxItem, Lease, NewSession, Transition
from loopwright.stores.sqlite import SqliteStore

TOKEN = b"0123456789abcdef"


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def one(text: str) -> tuple[EncodedRecord, ...]:
    return (EncodedRecord("fact", 1, 1.0, text.encode()),)


async def write(path: str, prefix: str, sessions: int, turns: int) -> None:
    store = SqliteStore(path)

    async def run(n: int) -> None:
        name = f"{prefix}-{n}"
        await store.create(NewSession(session_id=name, agent_name="a", records=(), at=1.0))
        taken = await store.commit(Transition(session_id=name, expect=0, lease=Acquire(TOKEN, 60.0)))
        for turn in range(turns):
            lease = Lease(taken.epoch, TOKEN)
            await store.commit(
                Transition(session_id=name, expect=turn, lease=lease, records=one(f"{turn}"), sync=turn % 2 == 0)
            )
            await store.enqueue("shared", InboxItem(f"{name}-{turn}", "message", b"{}", 1.0))

    try:
        await store.create(NewSession(session_id="shared", agent_name="a", records=(), at=1.0))
    except SessionExistsError:
        pass
    await asyncio.gather(*(run(n) for n in range(sessions)))
    await store.aclose()


async def hold(path: str, session_id: str, ttl_s: float) -> None:
    store = SqliteStore(path)
    position = (await store.lookup(session_id)).head.position
    taken = await store.commit(
        Transition(session_id=session_id, expect=position, lease=Acquire(TOKEN, ttl_s), records=one("held"), sync=True)
    )
    say("holding")
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        try:
            taken = await store.commit(
                Transition(
                    session_id=session_id,
                    expect=taken.position,
                    lease=Lease(taken.epoch, TOKEN),
                    records=one("late"),
                )
            )
            say("committed")
        except LoopwrightError as error:
            say(error.code)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "write":
        asyncio.run(write(words[0], words[1], int(words[2]), int(words[3])))
    else:
        asyncio.run(hold(words[0], words[1], float(words[2])))
