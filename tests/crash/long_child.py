"""A process that goes on with the long conversation in a folder, to be killed at any moment.

Run as `python -m tests.crash.long_child FOLDER REPRESENTATION FOLD SENDS`, with `LOOPWRIGHT_CRASH_AT` for where.
What it finds wrong goes to the file `problems` at once; a summary is printed at the end as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.crash.long_talk import SESSION, Model, Plan, Watch, loop_of, talk

from loopwright import LLMRequest, LLMResponse
from loopwright.model.errors import SessionNotFoundError
from loopwright.testing.crash_matrix import Life
from loopwright.testing.crash_points import CrashPoints, EffectLog


class ReportingModel(Model):
    """Writes down what is wrong with a request before it answers."""

    def __init__(self, watch: Watch, folder: Path) -> None:
        super().__init__(watch)
        self._seen = watch
        self._folder = folder

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """See `Model`."""
        reply = await super().complete(request)
        written_down(self._seen, self._folder)
        return reply


def written_down(watch: Watch, folder: Path) -> None:
    with (folder / "problems").open("a", encoding="utf-8") as file:
        file.writelines(f"{problem}\n" for problem in watch.problems)
    watch.problems.clear()


async def main(folder: Path, plan: Plan, sends: int) -> None:
    watch = Watch()
    life = Life(str(folder / "sessions.db"), 1, CrashPoints.from_environment(), EffectLog(folder / "effects"))
    async with loop_of(plan, life.dsn, life.ambient, ReportingModel(watch, folder), life.effect) as loop:
        try:
            watch.current = max((await loop.get_session_stats(SESSION)).sends - 1, 0)
        except SessionNotFoundError:
            watch.current = 0
        await talk(loop, watch, sends, recover=watch.current % 2 == 0)
    written_down(watch, folder)
    sys.stdout.write(json.dumps({"requests": watch.requests, "largest": watch.largest}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Plan(sys.argv[2], sys.argv[3]), int(sys.argv[4])))
