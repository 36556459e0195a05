"""Statements of a tool stay inside their transaction, away from the store's tables, and within their time."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from tests.application import Application
from tests.scenario.conftest import Stage
from tests.scenario.on_commit.test_effect_and_record import ORDERS, finished, order_tool, orders

from loopwright import StatefulAgentLoop, ToolContext, tool
from loopwright.model.call_errors import OnCommitError
from loopwright.model.errors import ConfigError
from loopwright.model.records import ToolFinished
from loopwright.ports.store import RunInside
from loopwright.ports.transaction_work import TransactionCursor, TransactionHost
from loopwright.stores.memory import MemoryStore
from loopwright.testing import ScriptedLLM, calls
from loopwright.testing.store_kit import begin, head_of, raises

STATEMENTS = [
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SAVEPOINT mine",
    "CREATE TABLE more (id INTEGER)",
    "DROP TABLE orders",
    "DELETE FROM lw_sessions",
    "DELETE FROM LW_Sessions",
    "UPDATE lw_sessions SET title = 'mine'",
    "SELECT count(*) FROM lw_records",
    "INSERT INTO orders (id, n) SELECT session_id, 1 FROM lw_sessions",
    "INSERT INTO orders (id, n) VALUES ('x', 1); COMMIT",
    "/* SELECT */ COMMIT",
]
OF_SQLITE = [
    "PRAGMA synchronous = OFF",
    "ATTACH DATABASE ':memory:' AS other",
    "VACUUM",
    "SELECT * FROM the_sessions",
    "INSERT OR ROLLBACK INTO orders (id, n) VALUES ('a', 2)",
    "SELECT 1; DELETE FROM lw_inbox",
]
OF_SERVERS = [
    "SET autocommit = 1",
    "/*!80000 COMMIT */",
    "SELECT 1 /*m! FROM orders */",
    "CALL anything()",
    "LOCK TABLES orders WRITE",
    "DO 1",
    'DELETE FROM u&"lw\\005frecords"',
    "SELECT set_config('search_path', 'pg_catalog', false)",
    "SELECT pg_catalog.\"set_config\" ('search_path', 'pg_catalog', false)",
    "SELECT PG_TERMINATE_BACKEND(pg_backend_pid())",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock_shared(1)",
    "SELECT Get_Lock('x', 0)",
    "SELECT RELEASE_ALL_LOCKS()",
]


async def test_a_statement_that_is_not_about_own_data_is_refused_and_undoes_the_rest(
    app: Application, stage: Stage
) -> None:
    statements = [*STATEMENTS, *(OF_SQLITE if app.kind == "sqlite" else OF_SERVERS)]

    @tool(effect="idempotent")
    async def order(n: int, ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(orders(app))
        ctx.on_commit(lambda cursor: cursor.execute(statements[n]))
        return "ordered"

    loop = stage.loop(calls(*[("order", {"n": n}) for n in range(len(statements))]), "done", tools=[order])
    session_id = await loop.new_session()
    if app.kind == "sqlite":
        await app.ask("CREATE VIEW the_sessions AS SELECT session_id FROM lw_sessions")
    assert (await loop.send("go", session_id=session_id)).status == "completed"
    results = [r for r in await stage.records(loop, session_id) if isinstance(r, ToolFinished)]
    assert len(results) == len(statements)
    assert [str(r.content) for r in results if "nothing of it was stored" not in str(r.content)] == []
    assert await app.ask(ORDERS) == []


@pytest.mark.parametrize("app", [pytest.param("postgres", marks=pytest.mark.server)], indirect=True)
async def test_a_lock_that_ends_with_the_transaction_is_allowed(app: Application, stage: Stage) -> None:
    one = await finished(stage, order_tool(lambda cursor: cursor.execute("SELECT pg_advisory_xact_lock(1)")))
    assert one.status == "finished"


async def test_after_a_refusal_the_connection_does_what_it_did_before(app: Application, stage: Stage) -> None:
    loop = stage.loop(
        calls(("order", {})),
        calls(("order", {})),
        "done",
        "done again",
        tools=[order_tool(orders(app), lambda cursor: cursor.execute("COMMIT"))],
    )
    result = await loop.send("go")
    assert (await loop.send("and again", session_id=result.session_id)).status == "completed"


def slow(app: Application) -> str:
    """A statement that computes, or waits, for longer than any limit."""
    if app.kind == "sqlite":
        return "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    return "SELECT pg_sleep(30)" if app.kind == "postgres" else "SELECT sleep(30)"


async def test_a_statement_that_takes_too_long_is_ended_and_nothing_stays(app: Application, stage: Stage) -> None:
    one = await finished(stage, order_tool(orders(app), lambda cursor: cursor.execute(slow(app))))
    assert one.status == "failed"
    assert await app.ask(ORDERS) == []


async def test_work_that_is_late_without_a_statement_is_undone_with_a_typed_error(
    app: Application, stage: Stage
) -> None:
    loop = stage.loop()
    store = loop.store
    assert isinstance(store, TransactionHost)
    writer = await begin(store, "s")
    left = [0]

    def busy(cursor: TransactionCursor) -> None:
        orders(app)(cursor)
        started = time.monotonic()
        while time.monotonic() - started < store.on_commit_limit_s * 1.2:
            left[0] += 1

    with raises(OnCommitError) as caught:
        await writer.apply(RunInside("c", (busy,)))
    assert caught.error.limit_s == store.on_commit_limit_s
    assert await app.ask(ORDERS) == []
    await writer.write()


async def test_a_refused_transition_never_calls_its_work(app: Application, stage: Stage) -> None:
    store = stage.loop().store
    writer = await begin(store, "s")
    other = writer.transition(1)
    await writer.write()
    called: list[Any] = []
    late = msgspec.structs.replace(other, ops=(RunInside("c", (called.append,)),))
    with pytest.raises(Exception, match="position"):
        await store.commit(late)
    assert called == []


async def test_a_store_in_memory_says_that_it_has_no_transaction() -> None:
    store = MemoryStore()
    writer = await begin(store, "s")
    before = await head_of(store, "s")
    with pytest.raises(ConfigError, match="needs a database"):
        await writer.apply(RunInside("c", (print,)))
    assert (await head_of(store, "s")).position == before.position
    assert not isinstance(store, TransactionHost)


async def test_a_tool_on_a_store_in_memory_is_told_before_it_goes_on() -> None:
    @tool(effect="idempotent")
    async def order(ctx: ToolContext) -> str:
        """Order."""
        ctx.on_commit(print)
        raise AssertionError("must not be reached")

    async with StatefulAgentLoop(llm=ScriptedLLM([calls(("order", {})), "done"]), dsn="memory:", tools=[order]) as loop:
        result = await loop.send("go")
        messages = await loop.get_messages(result.session_id)
    assert "SQLite, PostgreSQL, MySQL or MariaDB" in str(messages)
