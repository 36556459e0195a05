"""What both sides do: the same model, the same texts, the same tool.

Owns: the fake model and the tool. Must not know: who is measured.
Read next: `floor.py`.
"""

from __future__ import annotations

import asyncio

from loopwright import LLMRequest, LLMResponse, ToolCall, ToolDefinition, tool

QUESTION = "What is the state of order 4711, and when will it arrive?"
ANSWER = "Order 4711 was packed this morning and leaves today; it should arrive on Thursday."
SYSTEM = "You answer questions about orders in one sentence."

_CALL = ToolCall("call_1", "look_up", '{"order_id": 4711, "detail": "state"}')
_SAY = LLMResponse(text=ANSWER, finish_reason="stop", model="fake")
_ASK = LLMResponse(tool_calls=(_CALL,), finish_reason="tool_calls", model="fake")


class FakeModel:
    """Answers at once, or after `latency_s`; with `tools` every question leads to one call first.

    It looks at nothing in the request: whose turn it is, it counts. So it is for one session at a time, or without tools.
    """

    def __init__(self, *, tools: bool = False, latency_s: float = 0.0) -> None:
        self._tools = tools
        self._latency_s = latency_s
        self._asked = False
        self.calls = 0

    async def complete(self, request: LLMRequest | object) -> LLMResponse:
        self.calls += 1
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if self._tools:
            self._asked = not self._asked
            return _ASK if self._asked else _SAY
        return _SAY

    async def aclose(self) -> None:
        return


def look_up_text(order_id: int, detail: str) -> str:
    """What the tool does, for both sides."""
    return f"order {order_id}: {detail} is packed"


def order_tool(effect: str) -> ToolDefinition:
    """The tool, declared with this effect."""

    @tool(name="look_up", effect=effect)  # type: ignore[arg-type]
    async def look_up(order_id: int, detail: str) -> str:
        """Looks an order up."""
        return look_up_text(order_id, detail)

    return look_up
