"""A new process that goes on with a stored session: `cold_ours.py DATABASE SESSION LEVEL [--http]`.

Ends at the first model call, saying what it cost so far; as a program of its own it imports what a host imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop

if "--http" in sys.argv:
    import httpx2  # noqa: F401 - what a real transport loads


class FirstCall:
    """A model that reports instead of answering."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        said = {"cpu_s": time.process_time(), "monotonic_s": time.monotonic(), "messages": len(request.messages)}
        sys.stdout.write(json.dumps(said))
        sys.stdout.flush()
        os._exit(0)


async def main() -> None:
    _, path, session_id, level = sys.argv[:4]
    loop = StatefulAgentLoop(llm=FirstCall(), dsn=path, durability=level)
    await loop.send("And now?", session_id=session_id)


asyncio.run(main())
