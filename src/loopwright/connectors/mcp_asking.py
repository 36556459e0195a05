"""A call whose server may ask a person before it answers.

Owns: bringing the question into the task of the handler, where a run can pause for it. Must not know: servers.
The question comes while the server works, in a task of the connection; only the handler can leave, so it waits here for
both. When it leaves to ask, the call is stopped and the server is told; with the answer the handler runs again from its
start, the server is called again, and what it asks then is answered at once.
Read next: `mcp_tools.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from .mcp_talk import Elicitation, ElicitationAnswer

if TYPE_CHECKING:
    from ..ports.tool import ToolContext
    from .mcp_tools import CarefulCalls

MAX_QUESTIONS: Final = 10
"""Of one call."""


async def asking_call(
    client: CarefulCalls, name: str, arguments: dict[str, Any], context: ToolContext, *, again: int, source: str
) -> Any:
    """The result of a tool. Raises what the client raises; leaves the handler where a person has to be asked."""
    questions: asyncio.Queue[tuple[Elicitation, asyncio.Future[ElicitationAnswer]]] = asyncio.Queue()
    asked = 0

    async def elicit(question: Elicitation) -> ElicitationAnswer:
        answer: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        questions.put_nowait((question, answer))
        return await answer

    calling = asyncio.ensure_future(
        client.call_tool(name, arguments, again=again, elicit=elicit, progress=context.progress)
    )
    hearing = asyncio.ensure_future(questions.get())
    try:
        while True:
            ends: set[asyncio.Future[Any]] = {calling, hearing}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return calling.result()
            question, answer = hearing.result()
            hearing = asyncio.ensure_future(questions.get())
            asked += 1
            said = ElicitationAnswer("cancel") if asked > MAX_QUESTIONS else await _answered(context, question, source)
            if not answer.done():
                answer.set_result(said)
    finally:
        hearing.cancel()
        calling.cancel()


async def _answered(context: ToolContext, question: Elicitation, source: str) -> ElicitationAnswer:
    """What the person answered. Leaves the handler where nobody has answered yet."""
    if question.url is not None:
        said = await context.ask(
            f"{question.message}\n{question.url}",
            kind="elicitation",
            schema={"type": "object"},
            metadata={"url": question.url},
            source=source,
        )
    else:
        said = await context.ask(question.message, kind="elicitation", schema=question.schema, source=source)
    answer = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    action = answer.get("action")
    if action not in ("accept", "decline", "cancel"):
        return ElicitationAnswer("cancel")
    content = answer.get("content")
    return ElicitationAnswer(action, cast("dict[str, Any]", content) if isinstance(content, dict) else None)
