"""What bounds a fold and what goes into it: long histories go in parts, results of one reply share the budget."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage

from loopwright import AgentLoopConfig, ImagePart, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall, tool
from loopwright.core.fold_plan import BATCH_SHARE, FOLD_SHARE
from loopwright.core.window import tokens_of
from loopwright.model.codec import decode_record
from loopwright.model.messages import ToolResultMessage, as_messages, content_text
from loopwright.model.records import ToolFinished
from loopwright.ports.fold import FoldDesk, FoldResult, FoldTask
from loopwright.testing.virtual import VirtualAmbient

BUDGET = 4_000
SAID = "word " * 800
"""A thousand tokens."""


class Noting:
    """A fold that remembers what it was given."""

    fold_id = "noting"
    keep_last_sends = 2
    trigger_ratio = 1.0
    summary_max_tokens = 100

    def __init__(self) -> None:
        self.tasks: list[FoldTask] = []

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult:
        self.tasks.append(task)
        return FoldResult(note=f"up to #{task.parts[-1].label}")


class Answering:
    """Says "ok", or asks once for so many calls."""

    def __init__(self, calls: int = 0) -> None:
        self._calls = calls
        self.requests: list[LLMRequest] = []

    async def complete(self, request: LLMRequest) -> LLMResponse:
        self.requests.append(request)
        if self._calls and not any(isinstance(m, ToolResultMessage) for m in as_messages(request.messages)):
            asked = tuple(ToolCall(f"c{n}", "read", "{}") for n in range(self._calls))
            return LLMResponse(tool_calls=asked, finish_reason="tool_calls")
        return LLMResponse(text="ok", finish_reason="stop")

    async def aclose(self) -> None:
        return


def loop_on(dsn: str, budget: int | None, model: Any, fold: Any = None, tools: Any = ()) -> StatefulAgentLoop:
    config = AgentLoopConfig(context_budget_tokens=budget)
    return StatefulAgentLoop(llm=model, dsn=dsn, config=config, fold=fold, tools=tools, ambient=VirtualAmbient())


async def long_session(dsn: str) -> str:
    async with loop_on(dsn, None, Answering()) as loop:
        session = await loop.new_session()
        for _ in range(40):
            await loop.send(SAID, session_id=session)
    return session


async def test_a_history_of_ten_budgets_is_folded_in_parts_before_the_model_is_asked(stage: Stage) -> None:
    session = await long_session(stage.dsn)
    fold, model = Noting(), Answering()
    async with loop_on(stage.dsn, BUDGET, model, fold) as loop:
        assert (await loop.send("now with a budget", session_id=session)).status == "completed"
    assert len(fold.tasks) >= 3
    sizes = [sum(tokens_of(part.messages) for part in task.parts) for task in fold.tasks]
    assert max(sizes) <= FOLD_SHARE * BUDGET
    assert tokens_of(as_messages(model.requests[0].messages)) <= BUDGET


async def test_a_fold_that_was_asked_for_takes_all_parts(stage: Stage) -> None:
    session = await long_session(stage.dsn)
    fold = Noting()
    async with loop_on(stage.dsn, BUDGET, Answering(), fold) as loop:
        await loop.send("now with a budget", session_id=session)
        labels = [part.label for task in fold.tasks for part in task.parts]
        fold.tasks.clear()
        for _ in range(2):
            await loop.send("short", session_id=session)
        assert await loop.fold(session)
        assert not await loop.fold(session)
    labels += [part.label for task in fold.tasks for part in task.parts]
    assert labels == sorted(set(labels))
    assert len(labels) == 41


@tool(effect="pure")
async def read() -> str:
    return "wörter " * 20_000


async def test_the_results_of_one_reply_share_a_part_of_the_budget_and_stay_whole_behind_it(stage: Stage) -> None:
    model = Answering(calls=6)
    async with loop_on(stage.dsn, BUDGET, model, tools=[read]) as loop:
        result = await loop.send("read six", session_id=await loop.new_session())
        assert result.status == "completed"
        results = [m for m in as_messages(model.requests[1].messages) if isinstance(m, ToolResultMessage)]
        assert 500 < tokens_of(results) <= BUDGET // BATCH_SHARE
        assert all("read_output(artifact_id=" in content_text(m.content) for m in results)
        finished = [one for one in await _finished(loop, result.session_id) if one.artifact_id is not None]
        assert len(finished) == 6
        for one in finished:
            assert (await loop.store.read_artifact(one.artifact_id or "")).decode() == "wörter " * 20_000


@tool(effect="pure", name="read")
async def pictures() -> tuple[ImagePart, ...]:
    return tuple(ImagePart(media_type="image/png", data=b"png" + bytes([n])) for n in range(25))


@pytest.mark.parametrize("calls, said, tool_", [(100, "read", read), (1, "h " * 6_600, read), (1, "look", pictures)])
async def test_results_never_make_a_request_larger_than_the_budget(
    stage: Stage, calls: int, said: str, tool_: Any
) -> None:
    model = Answering(calls=calls)
    async with loop_on(stage.dsn, BUDGET + 1_000, model, tools=[tool_]) as loop:
        assert (await loop.send(said, session_id=await loop.new_session())).status == "completed"
    request = model.requests[-1]
    assert any(isinstance(m, ToolResultMessage) for m in as_messages(request.messages))
    assert tokens_of(as_messages(request.messages)) <= BUDGET + 1_000


async def _finished(loop: StatefulAgentLoop, session: str) -> list[ToolFinished]:
    from_store = [decode_record(row.kind, row.version, row.body) for row in await loop.store.read(session)]
    return [one for one in from_store if isinstance(one, ToolFinished)]
