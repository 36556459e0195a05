"""An agent whose tool counts in a table of the application, inside the commit of its result.

Run as `python -m tests.crash.counting KIND DSN SESSIONS CALLS`: continues what was interrupted, then asks each session.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from msgspec import Struct
from tests.application import Application

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall, ToolContext, tool
from loopwright.model.codec import decode_record
from loopwright.model.errors import SessionExistsError
from loopwright.model.messages import ToolResultMessage
from loopwright.model.records import ToolFinished
from loopwright.ports.ambient import Ambient
from loopwright.ports.llm import LLMService
from loopwright.ports.transaction_work import TransactionCursor
from loopwright.testing.crash_points import CrashPoints

AT_ONCE = 3
"""Calls of one reply."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS total (n INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS done (run VARCHAR(100) NOT NULL, id VARCHAR(64) NOT NULL)",
    "DELETE FROM total",
    "INSERT INTO total VALUES (0)",
)


class CountingModel:
    """Asks for the tool until it has seen enough results: a function of the window."""

    def __init__(self, calls: int) -> None:
        self._calls = calls

    async def complete(self, request: LLMRequest) -> LLMResponse:
        seen = sum(isinstance(m, ToolResultMessage) for m in request.messages)
        if seen >= self._calls:
            return LLMResponse(text=f"counted to {seen}", finish_reason="stop")
        asked = tuple(ToolCall(f"c{seen}_{n}", "count", "{}") for n in range(AT_ONCE))
        return LLMResponse(tool_calls=asked, finish_reason="tool_calls")

    async def aclose(self) -> None:
        return


def counting_loop(
    app: Application, ambient: Ambient, model: LLMService, *, dsn: str = "", run: str = ""
) -> StatefulAgentLoop:
    """A loop with the tools `count`, which may run again, and `count_once`, which may not."""
    insert = f"INSERT INTO done (run, id) VALUES ({app.marks(2)})"

    def work(ctx: ToolContext) -> None:
        def write(cursor: TransactionCursor) -> None:
            cursor.execute("UPDATE total SET n = n + 1")
            cursor.execute(insert, (run, ctx.idempotency_key))

        ctx.on_commit(write)

    @tool(effect="idempotent")
    async def count(ctx: ToolContext) -> str:
        """Count."""
        work(ctx)
        return "count done"

    @tool(effect="once")
    async def count_once(ctx: ToolContext) -> str:
        """Count, never again."""
        work(ctx)
        return "count_once done"

    config = AgentLoopConfig(lease_ttl_s=1.0, lease_wait_s=20.0, max_rounds=100)
    return StatefulAgentLoop(llm=model, dsn=dsn or app.dsn, tools=[count, count_once], ambient=ambient, config=config)


class Books(Struct, frozen=True):
    """What one reading of the database says."""

    total: int
    results: Counter[str]
    """Recorded results of tools by status."""


async def books(app: Application) -> Books:
    """The application's count and the store's records as of one moment."""
    rows = await app.ask("SELECT n, version, body FROM total LEFT JOIN lw_records ON kind = 'tool_finished'")
    found = [decode_record("tool_finished", row[1], bytes(row[2])) for row in rows if row[2] is not None]
    return Books(rows[0][0], Counter(one.status for one in found if isinstance(one, ToolFinished)))


async def played(app: Application, sessions: int, calls: int) -> None:
    """Does all that the host does; can be repeated as a whole."""
    model: LLMService = CountingModel(calls)  # type: ignore[assignment]  # without `stream`
    async with counting_loop(app, CrashPoints.from_environment(), model) as loop:

        async def one(name: str) -> None:
            try:
                await loop.new_session(session_id=name)
            except SessionExistsError:
                pass
            await loop.send("go", session_id=name, send_id="first")

        await asyncio.gather(*[one(f"s{n}") for n in range(sessions)])


if __name__ == "__main__":
    asyncio.run(played(Application(sys.argv[1], sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
