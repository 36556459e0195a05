"""The process that the demonstration kills: one agent, its events as JSON lines on standard output.

Owns: its arguments. Must not know: that it will be killed; going on is the same call as beginning.
Read next: `demo.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from ..config import AgentLoopConfig
from ..loop import StatefulAgentLoop
from ..model.events import AgentEvent
from ..transports.service_factory import create_llm_service
from .demo_desk import TASK, desk_tools

SESSION = "office"


def main() -> None:
    """Runs the task, or goes on with it when the journal has it already."""
    parser = argparse.ArgumentParser(prog="python -m loopwright.cli.demo_worker", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder to work in")
    parser.add_argument("--db", required=True, help="the store")
    parser.add_argument("--model", required=True, help="provider:model")
    parser.add_argument("--base-url", help="where the model is served")
    parser.add_argument("--resume", action="store_true", help="go on with what another process began")
    asyncio.run(work(parser.parse_args()))


async def work(given: argparse.Namespace) -> None:
    """One send, or what is left of it."""
    settings = {"base_url": given.base_url} if given.base_url else {}
    llm = create_llm_service(given.model, **settings)
    config = AgentLoopConfig(agent_name="office", max_rounds=16)
    async with StatefulAgentLoop(llm=llm, dsn=given.db, tools=desk_tools(given.folder), config=config) as loop:
        loop.event_bus.subscribe(say)
        if given.resume:
            await loop.resume(SESSION)
        else:
            await loop.new_session(session_id=SESSION, title="the office")
            await loop.send(TASK, session_id=SESSION)
    await llm.aclose()


def say(event: AgentEvent) -> None:
    """One event, one line, at once."""
    sys.stdout.write(json.dumps(event.to_dict()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
