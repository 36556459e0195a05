"""What a tool wants done with its result is stored with it, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.application import Application
from tests.scenario.conftest import Stage, asked

from loopwright import (
    AgentHooks,
    HookDirective,
    HookPoint,
    InputNeeded,
    ToolContext,
    ToolDefinition,
    ToolHandlerResult,
    tool,
)
from loopwright.model.errors import UsageError
from loopwright.model.records import ToolFinished, ToolStarted
from loopwright.ports.hook import ToolAfterContext, ToolErrorContext
from loopwright.ports.transaction_work import OnCommit, TransactionCursor
from loopwright.testing import calls

ORDERS = "SELECT id, n FROM orders ORDER BY id"


def orders(app: Application, id_: str = "a", n: int = 1) -> OnCommit:
    """Writes one order."""

    def write(cursor: TransactionCursor) -> None:
        cursor.execute(f"INSERT INTO orders (id, n) VALUES ({app.marks(2)})", (id_, n))

    return write


def order_tool(*works: OnCommit, effect: Any = "idempotent", answers: Any = "ordered") -> ToolDefinition:
    @tool(effect=effect)
    async def order(ctx: ToolContext) -> Any:
        """Order."""
        for work in works:
            ctx.on_commit(work)
        if isinstance(answers, Exception):
            raise answers
        return answers

    return order


async def finished(stage: Stage, definition: ToolDefinition, **options: Any) -> ToolFinished:
    """What became of one call of the tool; the send completes in any case."""
    loop = stage.loop(calls((definition.name, {})), "done", tools=[definition], **options)
    result = await loop.send("go")
    assert result.status == "completed"
    records = await stage.records(loop, result.session_id)
    assert [type(r) for r in records].count(ToolStarted) == 1
    [one] = [r for r in records if isinstance(r, ToolFinished)]
    return one


async def test_the_effect_is_there_with_the_result(app: Application, stage: Stage) -> None:
    one = await finished(stage, order_tool(orders(app)))
    assert (one.status, one.content) == ("finished", "ordered")
    assert await app.ask(ORDERS) == [("a", 1)]


async def test_works_of_one_call_run_in_order_and_see_what_the_earlier_ones_wrote(
    app: Application, stage: Stage
) -> None:
    seen: list[Any] = []

    def look(cursor: TransactionCursor) -> None:
        cursor.execute(ORDERS)
        seen.append((cursor.fetchone(), cursor.rowcount, cursor.fetchall()))

    def change(cursor: TransactionCursor) -> None:
        cursor.execute("UPDATE orders SET n = n + 1")
        seen.append(cursor.rowcount)

    def many(cursor: TransactionCursor) -> None:
        cursor.executemany(f"INSERT INTO orders (id, n) VALUES ({app.marks(2)})", [("b", 5), ("c", 6)])
        seen.append(cursor.rowcount)

    await finished(stage, order_tool(orders(app), many, change, look))
    assert seen == [2, 3, (("a", 2), 3, [("b", 6), ("c", 7)])]


async def test_an_error_is_the_result_and_nothing_that_was_written_stays(app: Application, stage: Stage) -> None:
    def fail(_: TransactionCursor) -> None:
        raise ValueError("out of stock")

    one = await finished(stage, order_tool(orders(app), fail))
    assert one.status == "failed"
    assert "ValueError: out of stock" in str(one.content)
    assert await app.ask(ORDERS) == []


async def test_a_statement_that_fails_fails_the_work_also_when_the_error_is_caught(
    app: Application, stage: Stage
) -> None:
    def careless(cursor: TransactionCursor) -> None:
        try:
            orders(app)(cursor)
        except Exception:  # noqa: BLE001 - what a careless tool does
            return

    one = await finished(stage, order_tool(orders(app), careless))
    assert one.status == "failed"
    assert "nothing of it was stored" in str(one.content)
    assert await app.ask(ORDERS) == []


async def test_a_key_that_is_taken_fails_at_once_and_the_session_goes_on(app: Application, stage: Stage) -> None:
    await app.ask("INSERT INTO orders (id, n) VALUES ('a', 7)")
    one = await finished(stage, order_tool(orders(app)))
    assert one.status == "failed"
    assert await app.ask(ORDERS) == [("a", 7)]


async def test_parallel_calls_of_which_one_fails_leave_the_others_alone(app: Application, stage: Stage) -> None:
    @tool(effect="idempotent")
    async def order(n: int, ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app, "same" if n in (3, 5) else f"o{n}", n))
        return f"ordered {n}"

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    wanted: list[Any] = [("order", {"n": n}) for n in range(7)]
    loop = stage.loop(calls(*wanted, ("look", {})), "done", tools=[order, look])
    result = await loop.send("go")
    assert result.status == "completed"
    records = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    assert sorted(r.status for r in records) == ["failed"] + ["finished"] * 7
    stored = {row[1] for row in await app.ask(ORDERS)}
    assert stored == {int(str(r.content).split()[1]) for r in records if str(r.content).startswith("ordered")}
    assert len(stored) == 6


async def test_sessions_that_commit_together_are_unaffected_by_one_whose_work_fails(
    app: Application, stage: Stage
) -> None:
    def fail(_: TransactionCursor) -> None:
        raise ValueError("no")

    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app, ctx.session_id))
        if ctx.session_id in ("s3", "s7"):
            ctx.on_commit(fail)
        return "ordered"

    def answer(request: Any) -> Any:
        return asked(("c", "order", "{}")) if len(request.messages) == 1 else "done"

    loop = stage.loop(*[answer] * 20, tools=[order])
    names = [f"s{n}" for n in range(10)]
    for name in names:
        await loop.new_session(session_id=name)
    results = await asyncio.gather(*[loop.send("go", session_id=name) for name in names])
    assert {r.status for r in results} == {"completed"}
    assert [row[0] for row in await app.ask(ORDERS)] == [n for n in names if n not in ("s3", "s7")]


@pytest.mark.parametrize("effect", ["idempotent", "once"])
async def test_a_handler_that_raises_has_no_effect(app: Application, stage: Stage, effect: str) -> None:
    one = await finished(stage, order_tool(orders(app), effect=effect, answers=ValueError("changed my mind")))
    assert (one.status, one.content) == ("failed", "ValueError: changed my mind")
    assert await app.ask(ORDERS) == []


async def test_a_once_tool_has_its_effect_with_its_result_too(app: Application, stage: Stage) -> None:
    one = await finished(stage, order_tool(orders(app), effect="once"))
    assert one.status == "finished"
    assert await app.ask(ORDERS) == [("a", 1)]


async def test_what_a_handler_returns_is_committed_whatever_it_or_a_hook_makes_of_it(
    app: Application, stage: Stage
) -> None:
    hooks = AgentHooks()

    @hooks.on(HookPoint.TOOL_AFTER)
    async def rewrite(context: ToolAfterContext) -> None:
        context.output = f"[checked] {context.output}"

    one = await finished(stage, order_tool(orders(app), answers=ToolHandlerResult("half", ok=False)), hooks=hooks)
    assert (one.status, one.content) == ("failed", "[checked] half")
    assert await app.ask(ORDERS) == [("a", 1)]


async def test_hooks_see_the_error_as_one_of_the_tool_and_it_is_not_tried_again(app: Application, stage: Stage) -> None:
    hooks, seen = AgentHooks(), list[str]()

    @hooks.on(HookPoint.TOOL_ERROR)
    async def note(context: ToolErrorContext) -> None:
        seen.append(type(context.error).__name__)

    def fail(_: TransactionCursor) -> None:
        raise ValueError("no")

    one = await finished(stage, order_tool(fail), hooks=hooks)
    assert (one.status, seen) == ("failed", ["OnCommitError"])


async def test_a_handler_that_ran_again_after_an_error_has_the_effect_of_its_last_run_only(
    app: Application, stage: Stage
) -> None:
    hooks, runs = AgentHooks(), list[int]()

    @hooks.on(HookPoint.TOOL_ERROR)
    async def again(context: ToolErrorContext) -> None:
        context.directive = HookDirective.SHORT_CIRCUIT

    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""
        runs.append(1)
        ctx.on_commit(orders(app, f"run {len(runs)}"))
        if len(runs) == 1:
            raise ValueError("a hiccup")
        return "ordered"

    await finished(stage, order, hooks=hooks)
    assert await app.ask(ORDERS) == [("run 2", 1)]


async def test_a_handler_in_a_thread_may_use_it_too(app: Application, stage: Stage) -> None:
    @tool(effect="idempotent")
    def order(ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app))
        return "ordered"

    assert (await finished(stage, order)).status == "finished"
    assert await app.ask(ORDERS) == [("a", 1)]


async def test_a_handler_cannot_both_ask_a_person_and_write(app: Application, stage: Stage) -> None:
    one = await finished(stage, order_tool(orders(app), answers=InputNeeded("sure?")))
    assert one.status == "failed"
    assert "asked a person" in str(one.content)
    assert await app.ask(ORDERS) == []


async def test_after_the_handler_has_ended_nothing_more_is_noted(app: Application, stage: Stage) -> None:
    kept: list[ToolContext] = []

    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""
        kept.append(ctx)
        return "ordered"

    await finished(stage, order)
    with pytest.raises(UsageError, match="after its handler had ended"):
        kept[0].on_commit(orders(app))


async def test_a_cursor_that_was_kept_is_dead(app: Application, stage: Stage) -> None:
    kept: list[TransactionCursor] = []
    await finished(stage, order_tool(orders(app), kept.append))
    with pytest.raises(UsageError, match="transaction is over"):
        kept[0].execute("DELETE FROM orders")
    assert await app.ask(ORDERS) == [("a", 1)]


async def an_async_function(cursor: TransactionCursor) -> None:
    cursor.execute("DELETE FROM orders")


def answers_a_coroutine(cursor: TransactionCursor) -> object:
    return an_async_function(cursor)


@pytest.mark.parametrize(
    "work, effect, says",
    [
        (an_async_function, "idempotent", "synchronous"),
        (answers_a_coroutine, "idempotent", "not synchronous"),
        (print, "pure", "declared pure"),
    ],
    ids=["coroutine function", "coroutine", "pure tool"],
)
async def test_what_cannot_work_is_refused_with_the_reason(
    app: Application, stage: Stage, work: Callable[..., Any], effect: str, says: str
) -> None:
    one = await finished(stage, order_tool(work, effect=effect))
    assert one.status == "failed"
    assert says in str(one.content)
