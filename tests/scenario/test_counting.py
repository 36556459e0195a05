"""Sizes of requests are learned from what providers count, and from a tokenizer where none did."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.scenario.conftest import Listener, Stage
from tests.scenario.folding_stage import RECALL_TOKENS

from loopwright import LLMRequest, LLMResponse
from loopwright.engine.actor import ACTORS
from loopwright.model.context_records import FoldMade, TokensCalibrated
from loopwright.model.errors import ConfigError
from loopwright.model.usage import Usage
from loopwright.ports.fold import FoldResult

BUDGET = 4000


def counted(tokens: int, *, model: str = "m", text: str = "fine") -> LLMResponse:
    return LLMResponse(text=text, finish_reason="stop", usage=Usage(tokens, 5, calls=1), model=model)


class Note:
    """A fold that asks nobody."""

    fold_id, keep_last_sends, trigger_ratio, summary_max_tokens = "note", 1, 1.0, 100

    async def fold(self, task: Any, desk: Any) -> FoldResult:
        return FoldResult(note="so far")


class Counter:
    """A tokenizer with an opinion."""

    def __init__(self, tokens: int | str | None) -> None:
        self.tokens = tokens
        self.asked: list[tuple[LLMRequest, str]] = []
        self.reached = asyncio.Event()

    async def count(self, request: LLMRequest, *, model: str) -> Any:
        self.asked.append((request, model))
        self.reached.set()
        if self.tokens == "raise":
            raise ValueError("no vocabulary")
        if self.tokens == "hang":
            await asyncio.Event().wait()
        return self.tokens


async def calibrated(stage: Stage, loop: Any, session_id: str) -> list[TokensCalibrated]:
    return [r for r in await stage.records(loop, session_id) if isinstance(r, TokensCalibrated)]


async def test_replies_teach_a_ratio_and_only_what_moved_is_written(stage: Stage) -> None:
    loop = stage.loop(
        *[counted(2 * (n + RECALL_TOKENS)) for n in (1004, 2013, 2420)], context_budget_tokens=100_000 // 8
    )
    sid = await loop.new_session()
    for text in ("x" * 4000, "x" * 4000, "x" * 1600):
        assert (await loop.send(text, session_id=sid)).status == "completed"
    (record,) = await calibrated(stage, loop, sid)
    assert record == TokensCalibrated("m", 2.0, 1)


async def test_a_ratio_is_in_the_commit_of_the_reply_that_taught_it(stage: Stage) -> None:
    loop = stage.loop(counted(2000), context_budget_tokens=BUDGET)
    sid = await loop.new_session()
    await loop.send("x" * 4000, session_id=sid)
    kinds = [row.kind for row in await loop.store.read(sid)]
    assert kinds[-3:] == ["tokens_calibrated", "assistant_message_added", "send_finished"]


async def test_a_session_without_a_context_budget_pays_nothing(stage: Stage) -> None:
    loop = stage.loop(counted(2000))
    sid = await loop.new_session()
    await loop.send("x" * 4000, session_id=sid)
    assert await calibrated(stage, loop, sid) == []


async def test_usage_that_nobody_reported_teaches_nothing(stage: Stage) -> None:
    loop = stage.loop(LLMResponse(text="fine", finish_reason="stop"), context_budget_tokens=BUDGET)
    sid = await loop.new_session()
    await loop.send("x" * 4000, session_id=sid)
    assert await calibrated(stage, loop, sid) == []


async def test_a_new_process_goes_on_from_the_ratio_in_the_journal(stage: Stage) -> None:
    loop = stage.loop(counted(2 * (1004 + RECALL_TOKENS)), context_budget_tokens=3 * BUDGET)
    sid = await loop.new_session()
    await loop.send("x" * 4000, session_id=sid)
    ACTORS.drop(loop.store.identity)
    other = stage.loop(counted(2017 + RECALL_TOKENS), context_budget_tokens=3 * BUDGET)
    await other.send("y" * 4000, session_id=sid)
    first, second = await calibrated(stage, other, sid)
    assert first.ratio == 2.0
    assert second.samples == 2
    assert 1.4 < second.ratio < 1.6


async def test_a_new_session_begins_with_what_the_loop_learned_of_the_model(stage: Stage) -> None:
    loop = stage.loop(counted(2 * (1004 + RECALL_TOKENS)), counted(1004 + RECALL_TOKENS), context_budget_tokens=BUDGET)
    sids = [await loop.new_session(), await loop.new_session()]
    for sid in sids:
        await loop.send("x" * 4000, session_id=sid)
    (record,) = await calibrated(stage, loop, sids[1])
    assert record == TokensCalibrated("m", 1.5, 2)


async def test_a_ratio_makes_a_fold_that_the_estimate_alone_would_have_missed(stage: Stage) -> None:
    async def folds(tokens: int) -> int:
        steps = [counted(tokens), counted(tokens)]
        loop = stage.loop(*steps, context_budget_tokens=BUDGET, fold=Note())
        sid = await loop.new_session()
        for text in ("x" * 4000, "x" * 4000):
            assert (await loop.send(text, session_id=sid)).status == "completed"
        return sum(isinstance(record, FoldMade) for record in await stage.records(loop, sid))

    assert await folds(1004) == 0
    assert await folds(3012) == 1


async def test_a_tokenizer_is_asked_near_the_budget_and_its_count_folds_before_the_call(stage: Stage) -> None:
    counter = Counter(BUDGET + 500)
    model = stage.model("one", "two")
    loop = stage.loop(llm=model, context_budget_tokens=BUDGET, fold=Note(), token_counter=counter)
    sid = await loop.new_session(system_prompt="be exact")
    for text in ("x" * 4000, "x" * 5000):
        assert (await loop.send(text, session_id=sid)).status == "completed"
    records = await stage.records(loop, sid)
    assert sum(isinstance(record, FoldMade) for record in records) == 1
    assert model.requests[1].messages[0].text.count("so far") == 1  # type: ignore[union-attr]
    asked, name = counter.asked[0]
    assert (asked.system_prompt, len(asked.messages), name) == ("be exact", 3, "scripted")


async def test_a_tokenizer_is_not_asked_far_from_the_budget_or_after_a_reply_told_the_size(stage: Stage) -> None:
    counter = Counter(10)
    loop = stage.loop(
        counted(1000), counted(2500), counted(2600), context_budget_tokens=BUDGET, token_counter=counter, fold=Note()
    )
    sid = await loop.new_session()
    for text in ("x" * 4000, "x" * 5000, "x"):
        await loop.send(text, session_id=sid)
    assert counter.asked == []


@pytest.mark.parametrize("fault", ["raise", "many"])
async def test_a_tokenizer_that_fails_is_left_out_with_one_line_and_the_run_goes_on(
    stage: Stage, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    counter = Counter(fault)
    loop = stage.loop("one", "two", "three", context_budget_tokens=BUDGET, token_counter=counter, fold=Note())
    sid = await loop.new_session()
    with caplog.at_level(logging.WARNING, "loopwright.counting"):
        for text in ("x" * 10_000, "y", "z"):
            assert (await loop.send(text, session_id=sid)).status == "completed"
    assert len(counter.asked) == 1
    assert len(caplog.records) == 1
    assert "not asked again" in caplog.text


async def test_a_stop_wins_against_a_tokenizer_that_hangs(stage: Stage) -> None:
    counter = Counter("hang")
    loop = stage.loop(context_budget_tokens=BUDGET, token_counter=counter, fold=Note())
    sid = await loop.new_session()
    run = asyncio.create_task(loop.send("x" * 10_000, session_id=sid))
    await counter.reached.wait()
    await loop.stop(sid)
    assert (await run).status == "cancelled"


async def test_a_tokenizer_that_changes_its_mind_cannot_keep_a_send_from_ending(stage: Stage) -> None:
    class Moody(Counter):
        async def count(self, request: LLMRequest, *, model: str) -> Any:
            await super().count(request, model=model)
            return len(self.asked) % 2 * 3000 + 2000

    counter = Moody(0)
    loop = stage.loop("one", "two", context_budget_tokens=BUDGET, token_counter=counter, fold=Note())
    sid = await loop.new_session()
    for text in ("x" * 10_000, "x" * 6000):
        assert (await loop.send(text, session_id=sid)).status == "completed"
    assert len(counter.asked) < 10


async def test_what_cannot_count_is_refused_at_once(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="object has no count"):
        stage.loop(token_counter=object())  # type: ignore[arg-type]


async def test_a_fold_is_why_a_prefix_broke(stage: Stage) -> None:
    loop = stage.loop("one", "two", "three", context_budget_tokens=BUDGET, fold=Note(), tools=[])
    listener = Listener()
    loop.event_bus.subscribe(listener, "prompt_prefix")
    sid = await loop.new_session(system_prompt="be exact")
    for text in ("x" * 8000, "x" * 8400, "y"):
        await loop.send(text, session_id=sid)
    assert [event.data.broke for event in listener.events] == ["first request", "fold", None]  # type: ignore[union-attr]
