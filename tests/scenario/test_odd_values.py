"""Values of wrong types from hosts, hooks, tools and models: named, never stored unreadable, nothing said twice."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage, texts

from loopwright import (
    HookPoint,
    ImagePart,
    InputNeeded,
    LLMResponse,
    LoopwrightError,
    ToolCall,
    ToolHandlerResult,
    UserMessage,
    tool,
)
from loopwright.testing import calls

ANY: Any = object()


def odd(value: Any) -> Any:
    """A value that the type checker lets through."""
    return value


@pytest.mark.parametrize(
    "message",
    [
        UserMessage((ImagePart(url=odd(object())),)),
        UserMessage(odd(["x"])),
        UserMessage(odd({"a": 1})),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/", "detail": 5}}]},
        odd(None),
        odd(5),
    ],
)
async def test_a_message_that_cannot_be_stored_is_refused_and_nothing_is_said_twice(stage: Stage, message: Any) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send("first")).session_id
    with pytest.raises(LoopwrightError):
        await loop.send(message, session_id=sid)
    with pytest.raises(LoopwrightError):
        await loop.follow_up(message, session_id=sid)
    await loop.send("second", session_id=sid)
    expected = ["user: first", "assistant: one", "user: second", "assistant: two"]
    assert texts(await stage.loop().get_messages(sid)) == expected


@pytest.mark.parametrize(
    "options",
    [{"max_rounds": 1.5}, {"run_token_budget": 1.5}, {"system_prompt": 5}, {"send_id": 5}, {"output_schema": 5}],
)
async def test_an_option_of_a_wrong_type_is_refused_before_anything_is_stored(stage: Stage, options: Any) -> None:
    loop = stage.loop()
    sid = await loop.new_session()
    with pytest.raises(LoopwrightError):
        await loop.send("go", session_id=sid, **options)
    assert await stage.loop().get_messages(sid) == ()


async def test_a_schema_that_does_not_compile_is_refused_before_a_reply_is_paid_for(stage: Stage) -> None:
    with pytest.raises(LoopwrightError):
        await stage.loop().send("go", output_schema={"type": "no such type"})


@pytest.mark.parametrize(
    "value",
    [ToolHandlerResult(odd({"a": 1})), ToolHandlerResult(odd([1, 2])), InputNeeded(prompt=odd(123)), {1, 2}, b"x"],
)
async def test_an_odd_result_of_a_tool_leaves_a_session_that_can_be_read(stage: Stage, value: Any) -> None:
    @tool(effect="pure")
    async def odd_tool() -> Any:
        """Odd."""
        return value

    loop = stage.loop(calls(("odd_tool", {})), "done", tools=[odd_tool])
    result = await loop.send("go")
    if result.status == "waiting_for_input":
        question = result.pending_interactions[0].id
        result = await loop.submit_input(result.session_id, question, "x")
    assert result.status == "completed"
    assert texts(await stage.loop().get_messages(result.session_id))[-1] == "assistant: done"


async def test_a_deep_result_is_text_and_a_deep_argument_is_refused(stage: Stage) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]

    @tool(effect="once")
    async def nested() -> Any:
        """Nested."""
        return deep

    bad = ToolCall("c2", "nested", '{"a":' + "[" * 5000 + "]" * 5000 + "}")
    steps = LLMResponse(tool_calls=(ToolCall("c1", "nested", "{}"), bad), finish_reason="tool_calls")
    result = await stage.loop(steps, "done", tools=[nested]).send("go")
    assert (result.status, result.final_text) == ("completed", "done")


@pytest.mark.parametrize("point", ["tool.before", "tool.after", "round.decide", "tools.batch.before"])
async def test_an_odd_output_of_a_hook_leaves_a_session_that_can_be_read(stage: Stage, point: str) -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "saw"

    def change(context: Any) -> str:
        context.output = {"a": 1}
        return "skip"

    loop = stage.loop(calls(("look", {})), "done", tools=[look])
    loop.hooks.register(HookPoint(point), change)
    result = await loop.send("go")
    assert result.status == "completed"
    assert texts(await stage.loop().get_messages(result.session_id))[2] == 'tool: {"a":1}'


@pytest.mark.parametrize(
    "response", [LLMResponse(text="x", model=odd(None)), LLMResponse(text="x", finish_reason=odd("weird")), odd("text")]
)
async def test_an_odd_reply_of_a_hosts_model_fails_the_send_and_the_session_can_be_read(
    stage: Stage, response: Any
) -> None:
    class Odd:
        async def complete(self, request: Any) -> Any:
            return response

    result = await stage.loop(llm=Odd()).send("go")
    assert result.status == "failed"
    assert texts(await stage.loop().get_messages(result.session_id)) == ["user: go"]


async def test_arguments_that_end_before_they_begin_at_the_output_limit_are_not_executed(stage: Stage) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def danger(path: str = "/") -> str:
        """Danger."""
        ran.append(path)
        return "gone"

    cut = LLMResponse(tool_calls=(ToolCall("c", "danger", "{}"),), finish_reason="length")
    await stage.loop(cut, "done", tools=[danger]).send("go")
    assert ran == []
