"""Faults around work inside a commit: lost connections, locks of others, a batch that is undone, cancellation."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any

import asyncmy
import asyncpg
import pytest
from tests.application import Application
from tests.contract.stores.server_cuts import cut_all
from tests.scenario.conftest import Stage, asked
from tests.scenario.on_commit.test_effect_and_record import ORDERS, finished, order_tool, orders
from tests.waiting import next_turn, until

from loopwright import StatefulAgentLoop, ToolContext, tool
from loopwright.model.records import ToolFinished
from loopwright.ports.transaction_work import TransactionCursor
from loopwright.testing import calls
from loopwright.testing.tool_context import FakeToolContext

ON_SERVERS = pytest.mark.parametrize(
    "app",
    [pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "mariadb")],
    indirect=True,
)
ON_SQLITE = pytest.mark.parametrize("app", ["sqlite"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("app", [pytest.param("postgres", marks=pytest.mark.server)], indirect=True)


@ON_SERVERS
async def test_work_whose_connection_is_lost_is_called_again_and_committed_once(app: Application, stage: Stage) -> None:
    called: list[int] = []

    def cut_once(cursor: TransactionCursor) -> None:
        called.append(1)
        orders(app)(cursor)
        if len(called) == 1:
            cutting = threading.Thread(target=lambda: asyncio.run(cut_all(app.dsn)))
            cutting.start()
            cutting.join()
        cursor.execute("UPDATE orders SET n = n + 1")

    one = await finished(stage, order_tool(cut_once))
    assert (one.status, len(called)) == ("finished", 2)
    assert await app.ask(ORDERS) == [("a", 2)]


@ON_SERVERS
async def test_a_row_that_somebody_else_holds_fails_the_call_and_not_the_run(app: Application, stage: Stage) -> None:
    await app.ask("INSERT INTO orders (id, n) VALUES ('a', 1)")
    holder = await held_row(app)
    one = await finished(stage, order_tool(lambda cursor: cursor.execute("UPDATE orders SET n = 5")))
    assert one.status == "failed"
    await holder.close()
    assert await app.ask(ORDERS) == [("a", 1)]


class Holder:
    """A transaction of the application that holds the row."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def close(self) -> None:
        if isinstance(self._connection, asyncpg.Connection):
            await self._connection.close()
        else:
            await self._connection.ensure_closed()


async def held_row(app: Application) -> Holder:
    lock = "SELECT n FROM orders FOR UPDATE"
    if app.kind == "postgres":
        server = await asyncpg.connect(app.dsn)
        await server.execute(f"BEGIN; {lock}")
        return Holder(server)
    host, _, database = app.dsn.rpartition("@")[2].partition("/")
    user = app.dsn.partition("://")[2].partition("@")[0].partition(":")[0]
    mysql = await asyncmy.connect(
        host=host.partition(":")[0], port=int(host.partition(":")[2]), user=user, database=database, autocommit=False
    )
    async with mysql.cursor() as cursor:
        await cursor.execute(lock)
    return Holder(mysql)


@ON_SERVERS
async def test_values_arrive_as_they_were_given(app: Application, stage: Stage) -> None:
    odd = "it's 100% \\ \x1a0020 ünï"  # characters that the store escapes in its own columns
    await finished(stage, order_tool(orders(app, odd), orders(app, "at the end: ")))
    assert {row[0] for row in await app.ask(ORDERS)} == {odd, "at the end: "}


@ON_POSTGRES
async def test_a_constraint_that_waits_for_the_commit_is_the_tools_error_too(app: Application, stage: Stage) -> None:
    await app.ask(
        "CREATE TABLE lines (id INTEGER, of_order VARCHAR(40) REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    one = await finished(stage, order_tool(lambda cursor: cursor.execute("INSERT INTO lines VALUES (1, 'none')")))
    assert one.status == "failed"
    assert "ForeignKeyViolationError" in str(one.content)
    assert await app.ask("SELECT * FROM lines") == []


@ON_SQLITE
async def test_a_batch_that_one_work_undoes_is_committed_again_without_it(app: Application, stage: Stage) -> None:
    await app.ask("INSERT INTO orders (id, n) VALUES ('taken', 0)")
    called: list[str] = []

    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""

        def write(cursor: TransactionCursor) -> None:
            called.append(ctx.session_id)
            name = "taken" if ctx.session_id == "s4" else ctx.session_id
            cursor.execute("INSERT OR ROLLBACK INTO orders (id, n) VALUES (?, 1)", (name,))

        ctx.on_commit(write)
        return "ordered"

    def answer(request: Any) -> Any:
        return asked(("c", "order", "{}")) if len(request.messages) == 1 else "done"

    loop = stage.loop(*[answer] * 20, tools=[order])
    names = [f"s{n}" for n in range(10)]
    for name in names:
        await loop.new_session(session_id=name)
    results = await asyncio.gather(*[loop.send("go", session_id=name) for name in names])
    assert {r.status for r in results} == {"completed"}
    assert [row[0] for row in await app.ask(ORDERS)] == [*[n for n in names if n != "s4"], "taken"]
    assert len(called) > len(names)


async def test_a_send_cancelled_while_its_work_fails_ends_as_cancelled(app: Application, stage: Stage) -> None:
    here = asyncio.get_running_loop()

    def cancel_and_fail(_: TransactionCursor) -> None:
        here.call_soon_threadsafe(sending.cancel)
        if threading.current_thread() is not threading.main_thread():
            asyncio.run_coroutine_threadsafe(next_turn(), here).result()
        raise ValueError("no")

    loop = stage.loop(calls(("order", {})), tools=[order_tool(cancel_and_fail)])
    session_id = await loop.new_session()
    sending = asyncio.create_task(loop.send("go", session_id=session_id))
    with pytest.raises(asyncio.CancelledError):
        await sending
    records = await stage.records(loop, session_id)
    assert getattr(records[-1], "outcome", None) == "cancelled"
    assert [r.status for r in records if isinstance(r, ToolFinished)] in (["failed"], ["aborted"])


async def test_a_stopped_call_has_no_effect_even_when_its_thread_returns_later(app: Application, stage: Stage) -> None:
    go, left = threading.Event(), list[str]()

    @tool(effect="idempotent", timeout_s=0.05)
    def order(ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app))
        go.wait(10)
        left.append("returned")
        return "ordered"

    one = await finished(stage, order)
    assert one.status == "timed_out"
    go.set()
    await until(lambda: left)
    assert await app.ask(ORDERS) == []


async def test_a_failed_work_leaves_a_session_that_another_process_reads_as_this_one_does(
    app: Application, stage: Stage
) -> None:
    def fail(_: TransactionCursor) -> None:
        raise ValueError("no")

    loop = stage.loop(calls(("order", {})), "one", "two", tools=[order_tool(fail)])
    session_id = (await loop.send("go")).session_id
    await loop.send("on", session_id=session_id)
    async with StatefulAgentLoop(llm="echo:", dsn=app.dsn) as cold:
        assert await cold.get_messages(session_id) == await loop.get_messages(session_id)


def test_a_test_commits_what_a_handler_gave_with_a_cursor_of_its_own() -> None:
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE orders (id, n)")
    context = FakeToolContext()
    order = order_tool(orders(Application("sqlite", ""), "a"), orders(Application("sqlite", ""), "b"))
    assert order.handler is not None
    assert asyncio.run(order.handler({}, context)) == "ordered"
    context.commit(shop.cursor())
    context.commit(shop.cursor())
    assert shop.execute("SELECT id FROM orders").fetchall() == [("a",), ("b",)]
    shop.close()
