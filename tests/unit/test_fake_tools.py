"""The double of a tool: what it answers, what it writes down, what it says was left over."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from loopwright import StatefulAgentLoop, ToolContext, ToolFailure, tool
from loopwright.model.call_errors import ToolValidationError
from loopwright.testing import FakeTool, ScriptedLLM, ScriptError, calls, gated
from loopwright.testing.tool_context import FakeToolContext


@tool(effect="idempotent", timeout_s=7, reconcile=lambda unknown: "asked the world")
async def book(day: date, guests: int = 1) -> str:
    """Book a table."""
    raise AssertionError("the world was reached")


async def call(double: FakeTool, arguments: dict[str, Any], key: str = "k") -> Any:
    handler = double.tool.handler
    assert handler is not None
    return await handler(arguments, FakeToolContext(idempotency_key=key))


async def test_a_double_stands_in_for_a_tool_in_a_loop_and_writes_down_its_calls() -> None:
    model = ScriptedLLM([calls(("book", {"day": "2027-01-31", "guests": 4})), "Booked."])
    double = FakeTool.of(book, ["table 7"])
    async with double, StatefulAgentLoop(llm=model, dsn="memory:", tools=[double.tool]) as loop:
        session = (await loop.send("go")).session_id
        told = [getattr(message, "text", "") for message in await loop.get_messages(session)]
    [made] = double.calls
    assert told == ["go", "", "table 7", "Booked."]
    assert (made.arguments, made.session_id, made.call_id) == ({"day": "2027-01-31", "guests": 4}, session, "call_0_0")
    assert (made.ended, made.value, len(made.key), made.round_index) == ("returned", "table 7", 64, 1)
    assert model.requests[0].tools == (book.spec,)


async def test_a_double_keeps_schema_effect_and_limits_and_never_asks_the_real_world() -> None:
    double = FakeTool.of(book, ["ok"])
    assert (double.tool.effect, double.tool.timeout_s, double.tool.reconcile) == ("idempotent", 7, None)
    assert FakeTool.of(book, effect="once").tool.effect == "once"


@pytest.mark.parametrize(
    "arguments, told",
    [({}, "day"), ({"day": "2027-01-31", "guests": "two"}, "guests"), ({"day": "tomorrow"}, "day")],
)
async def test_arguments_that_the_real_tool_refuses_take_no_step(arguments: dict[str, Any], told: str) -> None:
    double = FakeTool.of(book, ["ok"])
    with pytest.raises(ToolValidationError, match=told):
        await call(double, arguments)
    assert (double.remaining, double.calls) == (1, [])


async def test_a_step_is_a_value_an_error_or_a_function_of_the_arguments_async_or_not() -> None:
    async def later(arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"n": arguments["n"], "key": context.idempotency_key}

    double = FakeTool("look", ["text", ToolFailure("not here"), lambda arguments, _: arguments["n"], later])
    assert await call(double, {}, "a") == "text"
    with pytest.raises(ToolFailure, match="not here"):
        await call(double, {}, "b")
    assert await call(double, {"n": 3}, "b") == 3
    assert await call(double, {"n": 4}, "c") == {"n": 4, "key": "c"}
    assert [one.ended for one in double.calls] == ["returned", "raised", "returned", "returned"]
    assert double.keys == ("a", "b", "c")
    double.assert_done()


async def test_a_function_answers_every_call() -> None:
    double = FakeTool("add", lambda arguments, _: arguments["a"] + arguments["b"])
    assert [await call(double, {"a": n, "b": 1}, str(n)) for n in range(3)] == [1, 2, 3]
    double.assert_done()


async def test_a_key_that_was_answered_gets_the_same_answer_and_takes_no_step() -> None:
    double = FakeTool("pay", ["paid", "paid again"])
    assert [await call(double, {}, "k"), await call(double, {}, "k"), await call(double, {}, "other")] == [
        "paid",
        "paid",
        "paid again",
    ]
    assert [one.ended for one in double.calls] == ["returned", "repeated", "returned"]


async def test_a_once_call_that_is_made_again_is_a_fault() -> None:
    double = FakeTool("pay", ["paid"], effect="once")
    await call(double, {}, "k")
    with pytest.raises(ScriptError, match="declared once"):
        await call(double, {}, "k")
    with pytest.raises(ScriptError, match="declared once"):
        double.assert_done()


async def test_a_call_waits_at_its_gate_and_one_that_is_stopped_there_has_no_answer() -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    double = FakeTool("slow", [gated("late", gate, reached=reached), gated("in time", gate)])
    task = asyncio.ensure_future(call(double, {}, "k"))
    await reached.wait()
    assert double.running == 1
    with pytest.raises(ScriptError, match="still run"):
        double.assert_done()
    task.cancel()
    await asyncio.wait([task])
    assert double.calls[0].ended == "stopped"
    gate.set()
    assert await call(double, {}, "k") == "in time"
    double.assert_done()


async def test_calls_beyond_the_script_and_steps_that_nobody_took_are_faults() -> None:
    double = FakeTool("look", ["one"])
    with pytest.raises(ScriptError, match=r"1 step\(s\) were not used; the next is 'one'"):
        double.assert_done()
    await call(double, {}, "a")
    double.assert_done()
    with pytest.raises(ScriptError, match="call 2 is beyond"):
        await call(double, {}, "b")
    with pytest.raises(ScriptError, match="call 2 is beyond"):
        double.assert_done()
    double = FakeTool("look", ["one"])
    double.add("two")
    with pytest.raises(ScriptError), double:
        await call(double, {}, "a")
    with pytest.raises(ScriptError, match="answers by a function"):
        FakeTool("look", lambda *_: 1).add("two")
    with pytest.raises(ScriptError, match="not the text"):
        FakeTool("look", "one")
