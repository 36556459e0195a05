"""What scenarios of folds share: a host's own strategy, a loop whose model answers anything, and waiting for folds."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from tests.scenario.conftest import Listener, Stage, said
from tests.waiting import next_turn, until

from loopwright import (
    AgentEventBus,
    LLMRequest,
    LLMResponse,
    tool,
)
from loopwright.core.estimate import tool_tokens
from loopwright.core.pairing import problem
from loopwright.model.context_records import FoldFailed, FoldMade
from loopwright.model.messages import as_messages
from loopwright.ports.fold import FoldDesk, FoldResult, FoldTask
from loopwright.tools.recall import recall_folded_tool, recall_send_tool

LONG = "word " * 80
"""About a hundred tokens."""


class OwnFold:
    """A host's own strategy."""

    fold_id = "own"

    def __init__(self, *answers: Any, keep: int = 2, ratio: float = 0.75, tokens: int = 5000) -> None:
        self.keep_last_sends = keep
        self.trigger_ratio = ratio
        self.summary_max_tokens = tokens
        self.answers = iter(answers) if answers else itertools.repeat(None)
        self.tasks: list[FoldTask] = []

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        self.tasks.append(task)
        answer = next(self.answers)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return await answer(task, desk)
        labels = " ".join(f"#{part.label}" for part in task.parts)
        return FoldResult(note=f"{task.prior or ''} {labels}".strip()) if answer is None else answer


def folds(listener: Listener) -> list[str]:
    return [event.data.phase for event in listener.events if event.type.value == "fold_status"]  # type: ignore[union-attr]


async def talked(loop: Any, sid: str, count: int) -> None:
    for n in range(count):
        assert (await loop.send(f"{n}: {LONG}", session_id=sid)).ok


RECALL_TOKENS = sum(tool_tokens(made().spec) for made in (recall_folded_tool, recall_send_tool))
"""Estimated, of the tools that come with a context budget."""


def stage_of(stage: Stage, fold: Any, *, budget: int | None, answers: int = 50, **options: Any) -> Any:
    """A loop whose model answers whatever it is asked, its listener, and the requests of the conversation."""
    listener, requests = Listener(), []

    class Model:
        async def complete(self, request: LLMRequest) -> LLMResponse:
            assert problem(as_messages(request.messages)) is None
            requests.append(request)
            return said(f"Right. {LONG}")

        async def aclose(self) -> None:
            return

    bus = AgentEventBus()
    bus.subscribe(listener)
    options.setdefault("llm", Model())
    room = None if budget is None else budget + RECALL_TOKENS
    loop = stage.loop(fold=fold, context_budget_tokens=room, event_bus=bus, **options)
    return loop, listener, requests


async def records_of(stage: Stage, loop: Any, sid: str, *kinds: type) -> list[Any]:
    return [record for record in await stage.records(loop, sid) if isinstance(record, kinds)]


async def folds_ended(listener: Listener) -> None:
    """Until no fold is under way, one that the newest send began included."""
    for _ in range(3):
        await next_turn()
    await until(lambda: folds(listener).count("started") * 2 == len(folds(listener)))


async def quiet(stage: Stage, loop: Any, sid: str, count: int) -> None:
    """Until so many folds ended."""

    async def ended() -> bool:
        return len(await records_of(stage, loop, sid, FoldMade, FoldFailed)) >= count

    async with asyncio.timeout(5):
        while not await ended():
            await next_turn()


@tool(effect="pure")
async def look(n: int) -> str:
    """Looks."""
    return f"found {n} " + "y" * 800
