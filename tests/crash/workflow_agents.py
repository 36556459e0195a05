"""The workflow that is stopped everywhere: a foreach, an agent that asks a person, a tool, side by side."""

from __future__ import annotations

from typing import Any

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall, ToolContext, tool
from loopwright.model.messages import ToolResultMessage
from loopwright.testing.crash_matrix import Life
from loopwright.tools.ask import request_user_input_tool

SPEC: dict[str, Any] = {
    "name": "busy",
    "root": {
        "type": "sequence",
        "steps": [
            {
                "type": "parallel",
                "branches": [
                    {
                        "type": "foreach",
                        "id": "each",
                        "as": "room",
                        "items": ["attic", "cellar", "hall"],
                        "max_concurrency": 2,
                        "body": {"type": "tool", "id": "enter", "tool": "enter", "arguments": {"room": "{{room}}"}},
                    },
                    {
                        "type": "agent",
                        "id": "asker",
                        "spec": {"name": "asker", "system_prompt": "You ask."},
                        "input": "which of {{input}}?",
                    },
                    {"type": "tool", "id": "pay", "tool": "pay"},
                ],
            },
            {"type": "tool", "id": "end", "tool": "enter", "arguments": {"room": "{{asker}}"}},
        ],
    },
}


def reply(request: LLMRequest) -> LLMResponse:
    """The agent asks once, and then says what it was told."""
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        return LLMResponse(text=f"take {last.text}", finish_reason="stop")
    ask = ToolCall("q", "request_user_input", '{"prompt": "which?"}')
    return LLMResponse(tool_calls=(ask,), finish_reason="tool_calls")


def busy_loop(life: Life) -> StatefulAgentLoop:
    @tool(effect="idempotent")
    async def enter(room: str, context: ToolContext) -> str:
        """Enters a room."""
        life.effect(context)
        return f"in {room}"

    @tool(effect="idempotent")
    async def pay(context: ToolContext) -> str:
        """Pays."""
        life.effect(context)
        return "paid"

    return StatefulAgentLoop(
        llm=life.model(reply), dsn=life.dsn, ambient=life.ambient, tools=[enter, pay, request_user_input_tool()]
    )


async def drive(loop: StatefulAgentLoop) -> None:
    """What a host repeats: it starts the run of this id, and answers what is asked."""
    result = await loop.workflows.run(SPEC, "both", run_id="r")
    while result.pending_interactions:
        await loop.submit_input("r", result.pending_interactions[0].id, "the left")
        result = await loop.workflows.resume("r")
    assert result.status == "completed", result.error_message
