"""A conversation of 2,000 sends with tools under a budget of 16,000 tokens, for each way of showing and folding it.

Owns: these figures, the model of such a conversation and its own way of counting tokens. Read next: `figures_counting.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from loopwright import AgentEventType, AgentLoopConfig, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall, tool
from loopwright.context.agentic_fold import AgenticFold
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.summary_fold import LLMSummaryFold
from loopwright.context.verbatim import VerbatimRepresentation
from loopwright.model.codec import encode
from loopwright.model.events import AgentEvent
from loopwright.model.messages import AssistantMessage, as_messages
from loopwright.model.usage import Usage

from .measuring import Figure, Sample, Scale, bytes_written, compared, cpu, interleaved, settle
from .workload import SYSTEM

BUDGET = 16_000
MICRO = 1e6
SAME_CPU = 1.5
"""CPU of the last sends against that of the first ones that still counts as independent of their number."""

REPRESENTATIONS: dict[str, Callable[[], Any]] = {
    "verbatim": VerbatimRepresentation,
    "projected": ProjectedRepresentation,
}
FOLDS: dict[str, Callable[[], Any]] = {"summary": LLMSummaryFold, "agentic": AgenticFold}
COMBINATIONS = [(shown, folded) for shown in REPRESENTATIONS for folded in FOLDS]

_PIECES = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]")
NOTE = "The person asks for orders one after the other, and each was looked up and reported. " * 6


@lru_cache(maxsize=4096)
def tokens_of_text(text: str) -> int:
    """Another way to count than the library's, so that what it expects can be wrong: pieces of words, digits, marks.

    Remembered: the CPU of a send is to be the library's.
    """
    return len(_PIECES.findall(text))


def tokens_of_request(request: LLMRequest) -> int:
    """What the provider of this conversation says that a request had."""
    total = 3 + tokens_of_text(request.system_prompt or "")
    total += sum(tokens_of_text(encode(spec).decode()) for spec in request.tools)
    for message in as_messages(request.messages):
        if isinstance(message, AssistantMessage):
            said = [p.name + p.arguments if isinstance(p, ToolCall) else p.text for p in message.parts]
            total += 3 + sum(tokens_of_text(text) for text in said)
        else:
            total += 3 + tokens_of_text(message.content if isinstance(message.content, str) else str(message.content))
    return total


class Clerk:
    """Looks an order up for each question, then answers; writes notes when it is asked for one."""

    model = "clerk"

    def __init__(self) -> None:
        self.asked = False
        self.sizes: list[int] = []
        """Tokens of each request of the conversation, by this provider's count."""
        self.folds = 0

    async def complete(self, request: LLMRequest) -> LLMResponse:
        await asyncio.sleep(0)  # whatever else is ready gets its turn, as with every real model
        size = tokens_of_request(request)
        names = {spec.name for spec in request.tools if not isinstance(spec, dict)}  # type: ignore[union-attr]
        if "look_up" not in names:
            self.folds += 1
            note = ToolCall("n", "finish", json.dumps({"note": NOTE}))
            return self._said(size, "", note) if "finish" in names else self._said(size, NOTE)
        self.sizes.append(size)
        self.asked = not self.asked
        number = len(self.sizes)
        if self.asked:
            return self._said(size, "", ToolCall(f"c{number}", "look_up", json.dumps({"order_id": number})))
        return self._said(size, f"Order {number} was packed this morning, leaves today and should arrive on Thursday.")

    @staticmethod
    def _said(size: int, text: str, *wanted: ToolCall) -> LLMResponse:
        usage = Usage(size, tokens_of_text(text) + 10, calls=1)
        finish = "tool_calls" if wanted else "stop"
        return LLMResponse(text=text, tool_calls=wanted, finish_reason=finish, usage=usage, model="clerk")  # type: ignore[arg-type]

    async def aclose(self) -> None:
        return


@tool(effect="pure")
async def look_up(order_id: int) -> dict[str, Any]:
    """Looks an order up, with all that is known about it."""
    steps = [{"step": n, "at": f"2026-03-{n + 1:02d}", "by": f"station {order_id * 7 % 97}"} for n in range(12)]
    return {"order_id": order_id, "state": "packed", "weight_g": order_id * 13 % 5000, "steps": steps}


async def conversation(scale: Scale, shown: str, folded: str) -> list[Figure]:
    """CPU, bytes and tokens of the first and of the last sends, and how far the largest request was from the budget."""
    sends, chunk = scale.of(2000, 80), scale.of(20, 4)
    chunks, model, expected = scale.of(10, 2), Clerk(), list[int]()
    config = AgentLoopConfig(context_budget_tokens=BUDGET, system_prompt=SYSTEM)

    def hear(event: AgentEvent) -> None:
        expected.append(event.data.stable_tokens)  # type: ignore[union-attr]

    async with StatefulAgentLoop(
        llm=model,
        dsn=scale.folder / f"context-{shown}-{folded}.db",
        durability="relaxed",
        tools=[look_up],
        config=config,
        representation=REPRESENTATIONS[shown](),
        fold=FOLDS[folded](),
    ) as loop:
        session_id = await loop.new_session()
        number = 0

        async def some() -> int:
            nonlocal number
            for _ in range(chunk):
                number += 1
                result = await loop.send(
                    f"And what about order {number}? I was told it is late.", session_id=session_id
                )
                if result.status != "completed":
                    raise RuntimeError(f"send {number} ended as {result.status}: {result.error}")
            return chunk

        early, early_bytes = await _measured(some, chunks, chunk)
        while number < sends - chunks * chunk:
            await some()
        # Listening costs as well: what was expected of each request is asked for between the measured sends.
        leave = loop.event_bus.subscribe(hear, AgentEventType.PROMPT_PREFIX)
        asked = len(model.sizes)
        await some()
        leave()
        errors = [abs(e / s - 1) for e, s in zip(expected, model.sizes[asked:], strict=True)]
        number -= chunk
        late, late_bytes = await _measured(some, chunks, chunk)
    name = f"context, {shown} × {folded}"
    cost = compared(
        f"{name}, CPU of a send at {sends:,} vs the first ones",
        "µs",
        {"the first": cpu(early)},
        cpu(late),
        scale=MICRO,
        budget=f"≤ {SAME_CPU}×",
        limit=SAME_CPU,
    )
    if early_bytes is not None and late_bytes is not None:
        cost.others |= {"bytes per send at first": early_bytes, "bytes per send at last": late_bytes}
    cost.others |= {"calls for folds": model.folds, "sends": float(sends)}
    size = compared(
        f"{name}, largest request vs the budget",
        "tokens",
        {"budget": [float(BUDGET)]},
        [float(max(model.sizes))],
        budget="≤ 1×",
        limit=1.0,
    )
    size.others |= {
        "median request": statistics.median(model.sizes),
        "error of the expected size, %": 100 * statistics.mean(errors),
    }
    return [cost, size]


async def _measured(work: Callable[[], Any], rounds: int, sends: int) -> tuple[Sequence[Sample], float | None]:
    """Samples of so many rounds, and the bytes written in each send of them."""
    await settle()
    before = bytes_written()
    samples = (await interleaved({"sends": work}, rounds, warm_up=0))["sends"]
    await settle()
    after = bytes_written()
    return samples, None if before is None or after is None else (after - before) / (rounds * sends)
