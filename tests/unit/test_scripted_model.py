"""The scripted model: what a step may be, a function may return."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from loopwright import LLMResponse
from loopwright.ports.llm import LLMRequest
from loopwright.testing import ScriptedLLM, calls, gated
from loopwright.testing.scripted import ScriptError

ASKED = LLMRequest(messages=())
ADD = calls(("add", {"a": 1}), text="so")


async def later(step: Any) -> Any:
    return step


@pytest.mark.parametrize("step", ["text", ADD, LLMResponse(text="own")])
async def test_a_function_may_return_whatever_a_step_may_be(step: Any) -> None:
    asked: list[LLMRequest] = []

    def of(request: LLMRequest) -> Any:
        asked.append(request)
        return step

    plain = await ScriptedLLM([step]).complete(ASKED)
    assert await ScriptedLLM([of]).complete(ASKED) == plain
    assert await ScriptedLLM([lambda _: later(step)]).complete(ASKED) == plain
    assert asked == [ASKED]


async def test_what_a_function_returns_may_wait_or_fail() -> None:
    gate = asyncio.Event()
    gate.set()
    waited = await ScriptedLLM([lambda _: gated(ADD, gate)]).complete(ASKED)
    assert waited == await ScriptedLLM([ADD]).complete(ASKED)
    with pytest.raises(ValueError, match="no"):
        await ScriptedLLM([lambda _: ValueError("no")]).complete(ASKED)


async def test_a_step_of_another_kind_is_named() -> None:
    with pytest.raises(ScriptError, match="not int"):
        await ScriptedLLM([cast("Any", lambda _: 5)]).complete(ASKED)
