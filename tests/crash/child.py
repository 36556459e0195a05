"""A process of a crash test: plays one agent on the files of one folder and prints how it ended as one line of JSON.

Run as `python -m tests.crash.child AGENT FOLDER`, with `LOOPWRIGHT_CRASH_AT` to have it killed or paused at a point.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.crash.agents import Agent
from tests.crash.process_agents import PROCESS_AGENTS

from loopwright import LoopwrightError
from loopwright.testing.crash_matrix import Life
from loopwright.testing.crash_points import CrashPoints, EffectLog


async def played(agent: Agent, life: Life) -> object:
    loop = agent.build(life)
    try:
        return await agent.scenario.drive(loop)
    finally:
        await loop.aclose()


def life_in(folder: Path) -> Life:
    return Life(str(folder / "sessions.db"), 1, CrashPoints.from_environment(), EffectLog(folder / "effects"))


def main(name: str, folder: Path) -> None:
    life = life_in(folder)
    ended: dict[str, object] = {"error": None}
    try:
        result = asyncio.run(played(PROCESS_AGENTS[name], life))
        ended["status"] = getattr(result, "status", None)
        ended["error"] = getattr(result, "error_code", None)
        ended["message"] = getattr(result, "error_message", None)
    except LoopwrightError as error:
        ended["error"] = error.code
        ended["message"] = str(error)
    ended["model_calls"] = life.model_calls
    ended["points"] = len(life.ambient.reached)
    sys.stdout.write(json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
