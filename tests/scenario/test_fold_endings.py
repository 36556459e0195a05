"""How folds end that nobody finished, what they leave behind, and what a strategy may hand in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Stage, said, texts
from tests.scenario.folding_stage import LONG, OwnFold, records_of, stage_of, talked
from tests.waiting import next_turn

from loopwright import AgentHooks, HookPoint, LLMRequest, LLMResponse
from loopwright.core.context_state import SUPERSEDED, VETOED, wait_after
from loopwright.core.fold_plan import HARD_WAIT
from loopwright.core.state import State, apply
from loopwright.model.call_errors import CompactionFailed
from loopwright.model.context_records import FoldFailed, FoldMade
from loopwright.model.errors import CancellationRequested, HookFailedError
from loopwright.model.messages import UserMessage
from loopwright.model.notes import Note
from loopwright.model.usage import Usage
from loopwright.ports.fold import FoldDesk, FoldResult, FoldTask


@pytest.mark.parametrize("code, waits", [(SUPERSEDED, 0), (CancellationRequested.code, 0), (VETOED, 1), ("x", 1)])
def test_only_what_the_strategy_did_counts_as_its_failure(code: str, waits: int) -> None:
    state = State()
    apply(state, FoldFailed(error_code=code, message="x", trigger="ratio"), 0.0)
    context = state.facts.context
    assert context is not None
    assert (context.fold_wait, context.fold_failures) == (waits, int(code == "x"))


def test_a_fold_that_a_hook_put_off_waits_for_a_reply_after_any_failures() -> None:
    state = State()
    for code in [*["x"] * 6, VETOED]:
        apply(state, FoldFailed(error_code=code, message="x", trigger="budget"), 0.0)
    context = state.facts.context
    assert context is not None
    assert context.fold_wait == 1
    assert wait_after(context.fold_failures) - context.fold_wait < HARD_WAIT, "else it would be asked again at once"


async def test_a_call_that_needs_a_fold_waits_for_the_one_that_is_under_way(stage: Stage) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()

    async def waits(task: FoldTask, desk: FoldDesk) -> FoldResult:
        reached.set()
        await gate.wait()
        return FoldResult(note="made beside")

    own = OwnFold(waits, keep=1, ratio=0.4)
    loop, _, requests = stage_of(stage, own, budget=800)
    sid = await loop.new_session()
    await talked(loop, sid, 2)
    await reached.wait()
    asked = len(requests)
    send = asyncio.create_task(loop.send(LONG * 6, session_id=sid))
    for _ in range(20):
        await next_turn(0.001)
    assert len(requests) == asked
    assert not send.done()
    gate.set()
    assert (await send).ok
    assert "made beside" in texts(requests[asked].messages)[0]
    assert own.tasks[1:] == [] or own.tasks[1].prior == "made beside", "no second one of the same beginning"


async def test_a_stop_ends_the_wait_for_a_fold_that_is_under_way(stage: Stage) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()

    async def waits(task: FoldTask, desk: FoldDesk) -> None:
        reached.set()
        await gate.wait()

    loop, _, _ = stage_of(stage, OwnFold(waits, keep=1, ratio=0.4), budget=800)
    sid = await loop.new_session()
    await talked(loop, sid, 2)
    await reached.wait()
    send = asyncio.create_task(loop.send(LONG * 6, session_id=sid))
    for _ in range(20):
        await next_turn(0.001)
    assert await loop.stop(sid)
    assert (await send).status == "cancelled"
    gate.set()


class Leaving(BaseException):
    """Of a host."""


NOTE = Note("n1", "fact", pinned=False)
MALFORMED: dict[str, Any] = {
    "a number": FoldResult(note=5),  # type: ignore[arg-type]
    "bytes": FoldResult(note=b"abc"),  # type: ignore[arg-type]
    "notes that are none": FoldResult(note="n", written=("abc",)),  # type: ignore[arg-type]
    "ids that are none": FoldResult(note="n", removed=(5,)),  # type: ignore[arg-type]
    "a huge note": FoldResult(note="n", written=(Note("n1", "y" * 1_000_000),)),
    "too many notes": FoldResult(note="n", written=tuple(Note(f"n{n}", "y") for n in range(500))),
    "no id": FoldResult(note="n", written=(Note("", "y"),)),
    "an own end of the process": SystemExit(3),
    "an own base exception": Leaving(),
    "an own stop": CancellationRequested("me"),
    "an own cancellation": asyncio.CancelledError(),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_whatever_a_strategy_answers_or_raises_the_send_goes_on(stage: Stage, name: str) -> None:
    answer = MALFORMED[name]
    loop, _, _ = stage_of(stage, OwnFold(*[answer] * 4, *[None] * 9, keep=1, ratio=1.0), budget=600)
    sid = await loop.new_session()
    await talked(loop, sid, 5)
    await folds_ended_quietly(loop, stage, sid)
    failed, *_ = await records_of(stage, loop, sid, FoldFailed)
    assert failed.error_code not in (CancellationRequested.code, SUPERSEDED)
    assert await loop.get_messages(sid, include_compacted=True)


async def folds_ended_quietly(loop: Any, stage: Stage, sid: str) -> None:
    async with asyncio.timeout(5):
        while not await records_of(stage, loop, sid, FoldFailed):
            await next_turn()


async def test_characters_that_nothing_can_carry_are_replaced_in_a_note(stage: Stage) -> None:
    result = FoldResult(note="a \ud800 b", written=(Note("n1", "c \udfff d"),))
    loop, _, _ = stage_of(stage, OwnFold(result, keep=1), budget=None)
    sid = await loop.new_session()
    await talked(loop, sid, 2)
    assert await loop.fold(sid)
    (made,) = await records_of(stage, loop, sid, FoldMade)
    assert "a ? b" in made.note


class Paid:
    """A model that tells what a request about a fold costs."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        if request.tools:  # none for a fold
            return said(LONG)
        return LLMResponse(text="ok", finish_reason="stop", usage=Usage(5_000, 1, calls=1))

    async def aclose(self) -> None:
        return


@pytest.mark.parametrize("asked", [True, False])
async def test_what_a_fold_cost_is_stored_when_its_caller_is_cancelled(stage: Stage, asked: bool) -> None:
    started = asyncio.Event()

    async def waits(task: FoldTask, desk: FoldDesk) -> None:
        await desk.complete(LLMRequest(messages=(UserMessage("FOLD"),)))
        started.set()
        await asyncio.Event().wait()

    own = OwnFold(waits, None, keep=1, ratio=1.0)
    loop, _, _ = stage_of(stage, own, budget=None if asked else 300, llm=Paid())
    sid = await loop.new_session()
    await talked(loop, sid, 2 if asked else 1)
    work = asyncio.create_task(loop.fold(sid) if asked else loop.send(LONG, session_id=sid))
    await started.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    (failed,) = await records_of(stage, loop, sid, FoldFailed)
    assert failed.error_code == CancellationRequested.code
    assert failed.usage.input_tokens == 5_000
    assert (await loop.get_session_stats(sid)).usage.input_tokens >= 5_000


async def test_a_stop_ends_a_fold_that_a_host_asked_for(stage: Stage) -> None:
    started = asyncio.Event()

    async def waits(task: FoldTask, desk: FoldDesk) -> None:
        started.set()
        await asyncio.Event().wait()

    loop, _, _ = stage_of(stage, OwnFold(waits, None, keep=1), budget=None)
    sid = await loop.new_session()
    await talked(loop, sid, 2)
    fold = asyncio.create_task(loop.fold(sid))
    await started.wait()
    assert await loop.stop(sid, reason="enough")
    with pytest.raises(CompactionFailed, match="enough"):
        await fold
    assert await loop.stop(sid) is False, "there is nothing to stop any more"
    assert await loop.fold(sid) is True


@pytest.mark.parametrize("point", [HookPoint.FOLD_BEFORE, HookPoint.FOLD_AFTER])
async def test_a_hook_of_a_fold_that_cancels_itself_is_a_hook_that_failed(stage: Stage, point: HookPoint) -> None:
    hooks = AgentHooks()

    async def cancels(context: Any) -> None:
        raise asyncio.CancelledError

    hooks.register(point, cancels)
    loop, _, _ = stage_of(stage, OwnFold(keep=1), budget=None, hooks=hooks)
    sid = await loop.new_session()
    await talked(loop, sid, 2)
    if point is HookPoint.FOLD_BEFORE:
        with pytest.raises(HookFailedError, match="CancelledError"):
            await loop.fold(sid)
    else:
        assert await loop.fold(sid), "it is stored already"
    assert (await loop.send("Go on.", session_id=sid)).ok
