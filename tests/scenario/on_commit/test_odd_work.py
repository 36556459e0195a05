"""Work that raises what nobody expects, or that wears out its connection, fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.application import Application
from tests.scenario.conftest import Stage, asked
from tests.scenario.on_commit.test_effect_and_record import ORDERS, finished, order_tool, orders

from loopwright import ToolContext, open_store, tool
from loopwright.model.call_errors import OnCommitError
from loopwright.ports.store import RunInside
from loopwright.ports.transaction_work import OnCommit, TransactionCursor
from loopwright.stores.server_work import LOSSES
from loopwright.testing.store_kit import begin

ON_SQLITE = pytest.mark.parametrize("app", ["sqlite"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("app", [pytest.param("postgres", marks=pytest.mark.server)], indirect=True)


class Unsayable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnsayableEnd(Exception):
    """Its text asks to be cancelled."""

    def __str__(self) -> str:
        raise asyncio.CancelledError


class Odd(BaseException):
    """No `Exception`."""


ODD = [
    Unsayable(),
    UnsayableEnd(),
    Odd("odd"),
    asyncio.CancelledError(),
    GeneratorExit(),
    SystemExit(3),
    StopIteration("x"),
]


def raising(error: BaseException) -> OnCommit:
    """Work that raises it."""

    def work(_: TransactionCursor) -> None:
        raise error

    return work


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
async def test_whatever_work_raises_fails_that_call_alone(app: Application, stage: Stage, error: BaseException) -> None:
    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app, ctx.session_id))
        if ctx.session_id == "s1":
            ctx.on_commit(raising(error))
        return "ordered"

    def answer(request: Any) -> Any:
        return asked(("c", "order", "{}")) if len(request.messages) == 1 else str(request.messages[-1].content)

    loop = stage.loop(*[answer] * 6, tools=[order])
    names = ["s0", "s1", "s2"]
    for name in names:
        await loop.new_session(session_id=name)
    results = await asyncio.gather(*[loop.send("go", session_id=name) for name in names])
    assert {r.status for r in results} == {"completed"}
    assert type(error).__name__ in str(results[1].final_text)
    assert [row[0] for row in await app.ask(ORDERS)] == ["s0", "s2"]


@ON_SQLITE
@pytest.mark.parametrize("durability", ["full", "barrier"])
@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
async def test_whatever_work_raises_the_store_goes_on_in_the_loop_and_in_its_thread(
    app: Application, error: BaseException, durability: Any
) -> None:
    store = open_store(app.dsn, durability=durability)
    writer, other = await begin(store, "s"), await begin(store, "other")
    with pytest.raises(OnCommitError, match=type(error).__name__) as caught:
        await writer.apply(RunInside("c", (raising(error),)))
    assert caught.value.__cause__ is error
    await writer.write()
    await other.write()
    await store.aclose()


def a_generator_function(cursor: TransactionCursor) -> Iterator[int]:
    cursor.execute("DELETE FROM orders")
    yield 1


async def an_async_generator_function(cursor: TransactionCursor) -> Any:
    cursor.execute("DELETE FROM orders")
    yield 1


@pytest.mark.parametrize(
    "work, says",
    [
        (a_generator_function, "without yield"),
        (an_async_generator_function, "without yield"),
        (lambda cursor: a_generator_function(cursor), "nothing has run"),  # noqa: PLW0108 - its kind is not seen before
        (lambda cursor: an_async_generator_function(cursor), "nothing has run"),  # noqa: PLW0108
    ],
    ids=["generator function", "async generator function", "generator", "async generator"],
)
async def test_a_generator_of_which_nothing_would_run_is_refused(
    app: Application, stage: Stage, work: Any, says: str
) -> None:
    one = await finished(stage, order_tool(orders(app), work))
    assert one.status == "failed"
    assert says in str(one.content)
    assert await app.ask(ORDERS) == []


@ON_POSTGRES
async def test_a_wrong_number_of_values_is_the_tools_error_and_is_tried_once(app: Application, stage: Stage) -> None:
    called: list[int] = []

    def wrong(cursor: TransactionCursor) -> None:
        called.append(1)
        cursor.execute("INSERT INTO orders (id, n) VALUES ($1, $2)", ("a", 1, 2, 3))

    one = await finished(stage, order_tool(wrong))
    assert (one.status, len(called)) == ("failed", 1)
    assert "the server expects 2 arguments" in str(one.content)


@ON_POSTGRES
async def test_work_whose_check_at_the_end_takes_the_connection_away_fails_after_a_few_tries(
    app: Application, stage: Stage
) -> None:
    await app.ask(
        "CREATE FUNCTION hang_up() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON orders INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang_up()",
    )
    one = await finished(stage, order_tool(orders(app)))
    assert one.status == "failed"
    assert f"its connection was lost {LOSSES} times" in str(one.content)


@ON_POSTGRES
async def test_work_that_ends_its_own_connection_fails_after_a_few_tries(app: Application, stage: Stage) -> None:
    await app.ask(
        "CREATE FUNCTION hang_up() RETURNS boolean LANGUAGE sql AS 'SELECT pg_terminate_backend(pg_backend_pid())'"
    )
    called: list[int] = []

    def end(cursor: TransactionCursor) -> None:
        called.append(1)
        orders(app)(cursor)
        cursor.execute("SELECT hang_up()")

    one = await finished(stage, order_tool(end))
    assert (one.status, len(called)) == ("failed", LOSSES)
    assert f"its connection was lost {LOSSES} times" in str(one.content)
    assert await app.ask(ORDERS) == []
