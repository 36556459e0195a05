"""A conversation took a wrong turn: it goes on from an earlier place, in a session of its own, and nothing is copied."""

import asyncio

from loopwright import StatefulAgentLoop
from loopwright.model.archive_errors import ForkPositionError


async def main() -> None:
    async with StatefulAgentLoop(llm="echo:", dsn="forks.db") as loop:
        original = (await loop.send("Plan a picnic.")).session_id
        before_rain = (await loop.get_session_stats(original)).records
        await loop.send("What if it rains?", session_id=original)

        fork = await loop.fork(original, at=before_rain, title="without rain")
        await loop.send("Who brings the cake?", session_id=fork)
        for name, session_id in (("original", original), ("fork", fork)):
            asked = [m.text for m in await loop.get_messages(session_id) if m.text][::2]
            print(f"{name}: {asked}")

        stats = await loop.get_session_stats(fork)
        print(f"own sends: {stats.sends} | left the original at {stats.base.position}")
        try:
            await loop.fork(original, at=before_rain + 1)
        except ForkPositionError as error:
            print("nearest boundaries:", error.nearest)

        await loop.close_session(original, copy_to_forks=True)
        print("messages without the original:", len(await loop.get_messages(fork)))


asyncio.run(main())
