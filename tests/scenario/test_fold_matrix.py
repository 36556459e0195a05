"""Shipped strategies at work in a loop: every representation with every fold, and fold models that give no note."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.scenario.conftest import Stage, said, texts
from tests.scenario.folding_stage import LONG, OwnFold, folds_ended, look, records_of, stage_of, talked

from loopwright import (
    LLMRequest,
    LLMResponse,
)
from loopwright.context.agentic_fold import AgenticFold
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.summary_fold import LLMSummaryFold
from loopwright.core.pairing import problem
from loopwright.core.window import tokens_of
from loopwright.model.context_records import FoldFailed, FoldMade
from loopwright.model.messages import ToolCall, ToolResultMessage, UserMessage, as_messages
from loopwright.model.usage import Usage

UNHEARD = "llm.retry_exhausted"
"""An empty reply is no reply: the one retry layer has asked again by then."""
SILENT: dict[str, tuple[Any, LLMResponse, str]] = {
    "summary, nothing": (LLMSummaryFold, said(""), UNHEARD),
    "summary, unknown tools": (LLMSummaryFold, LLMResponse(tool_calls=(ToolCall("c", "look", "{}"),)), "fold.empty"),
    "agent, nothing": (AgenticFold, said(" "), UNHEARD),
    "agent, loops": (AgenticFold, LLMResponse(tool_calls=(ToolCall("c", "read_send", '{"label": 1}'),)), "fold.empty"),
    "agent, unknown tools": (AgenticFold, LLMResponse(tool_calls=(ToolCall("c", "format_disk", "{}"),)), "fold.empty"),
}


@pytest.mark.parametrize("name", SILENT)
async def test_a_fold_model_without_a_note_costs_what_it_costs_and_the_send_goes_on(stage: Stage, name: str) -> None:
    strategy, reply, code = SILENT[name]
    fold_calls = 0

    class Mute:
        async def complete(self, request: LLMRequest) -> LLMResponse:
            nonlocal fold_calls
            fold_calls += 1
            return msgspec.structs.replace(reply, usage=Usage(100, 1, calls=1))

        async def aclose(self) -> None:
            return

    fold = strategy(keep_last_sends=1, trigger_ratio=1.0, summary_llm=Mute())
    loop, listener, requests = stage_of(stage, fold, budget=300, ambient=stage.time)
    sid = await loop.new_session()
    await talked(loop, sid, 1)
    result = await loop.send(LONG, session_id=sid)
    assert result.ok
    assert len(requests[-1].messages) == 3, "history is whole"
    await folds_ended(listener)
    failed = await records_of(stage, loop, sid, FoldFailed)
    assert {one.error_code for one in failed} == {code}
    assert failed[0].trigger == "budget"
    assert sum([one.usage.calls for one in failed]) == fold_calls <= 4 * len(failed)
    assert result.usage.input_tokens >= failed[0].usage.input_tokens > 0


class NoRepresentation:
    kind, version = "own", 3

    def project(self, send: Any) -> Any:
        return (UserMessage(f"#{send.label} was said"),)


REPRESENTATIONS = {"verbatim": None, "projected": ProjectedRepresentation(max_chars=60), "own": NoRepresentation()}
STRATEGIES = {"summary": LLMSummaryFold, "agentic": AgenticFold, "own": None}


@pytest.mark.parametrize("shown_as", REPRESENTATIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_representation_composes_with_every_fold(stage: Stage, shown_as: str, strategy: str) -> None:
    def answer(request: LLMRequest) -> LLMResponse:
        """The fold model and the agent in one: it uses a tool in each send."""
        assert problem(as_messages(request.messages)) is None
        names = [getattr(spec, "name", "") for spec in request.tools]
        if "finish" in names:
            return LLMResponse(tool_calls=tuple(calls_of("finish", '{"note": "all of #1 and more"}')))
        if not names:
            return said("A summary of #1 and more.")
        if isinstance(request.messages[-1], ToolResultMessage):
            return said(f"Found. {LONG[:200]}")
        return LLMResponse(tool_calls=tuple(calls_of("look", '{"n": 7}')))

    class Model:
        def __init__(self) -> None:
            self.requests: list[LLMRequest] = []

        async def complete(self, request: LLMRequest) -> LLMResponse:
            self.requests.append(request)
            return answer(request)

        async def aclose(self) -> None:
            return

    made = STRATEGIES[strategy]
    fold = OwnFold(keep=2) if made is None else made(keep_last_sends=2, trigger_ratio=0.7)
    model = Model()
    loop, _, _ = stage_of(
        stage, fold, budget=1_500, llm=model, tools=[look], representation=REPRESENTATIONS[shown_as],
        session_cache_size=0,
    )  # fmt: skip
    sid = await loop.new_session()
    for n in range(20):
        assert (await loop.send(f"{n}: {LONG}", session_id=sid)).ok
    ends = await records_of(stage, loop, sid, FoldMade, FoldFailed)
    assert any(isinstance(end, FoldMade) for end in ends) or shown_as == "own"
    assert [end.error_code for end in ends if isinstance(end, FoldFailed) if end.error_code != "fold.superseded"] == []
    talks = [request for request in model.requests if [getattr(s, "name", "") for s in request.tools] == ["look"]]
    for request in talks:
        assert tokens_of(request.messages) <= 1_500
        assert sum("<conversation_so_far>" in text for text in texts(request.messages)) <= 1
    assert len(await loop.get_messages(sid, include_compacted=True)) == 80


def calls_of(name: str, arguments: str) -> list[ToolCall]:
    return [ToolCall("c1", name, arguments)]
