"""What a claim reads: what is open and due, whatever else is there. Counted by the databases themselves, not timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
from tests.contract.stores.later_server_schema import connected
from tests.servers.asking import ask

from loopwright import open_store
from loopwright.ports.store import PutTimer
from loopwright.stores.mysql_statements import MysqlStatements
from loopwright.stores.postgres_statements import PostgresStatements
from loopwright.stores.server_dialect import ServerConnection, Statements
from loopwright.stores.server_reads import ServerReads
from loopwright.stores.sqlite import SqliteStore
from loopwright.stores.sqlite_claims import LeftBehind, claimable
from loopwright.stores.sqlite_schema import statements
from loopwright.stores.sqlite_statements import HOLDERS, INTERRUPTED_AND_LEFT
from loopwright.testing.store_kit import IDLE, begin, item, new_session, work

MANY = 3000
"""Sessions at rest, each with a timer far away, one that is paused and an item that was taken; as many of another agent,
with timers that are due and timers that come first."""

FEW_ROWS = 60
"""More than what is open and due, less than what is there."""


async def some_work(store: Any) -> None:
    """One session of each kind that a claim answers, and a timer that is due."""
    await (await begin(store, "running")).write(release=True)
    await store.create(new_session("asked"))
    await store.enqueue("asked", item(), (PutTimer("due", 1.0, b"{}"),))
    await store.create(new_session("waiting", status="waiting"))
    await store.enqueue("waiting", item(), (PutTimer("later", 500.0, b"{}"),))


def steps_of(path: Path, timers_only: bool) -> int:
    """What SQLite's machine does for one claim."""
    connection = apsw.Connection(str(path))
    counted = [0]

    def count() -> bool:
        counted[0] += 1
        return False

    execute = statements(connection)
    connection.set_progress_handler(count, 1)
    found = claimable(execute, work(now=9.0, timers_only=timers_only), LeftBehind())
    connection.set_progress_handler(None)
    assert (len(found.interrupted), len(found.timers), found.next_timer_at) == (0 if timers_only else 2, 1, 500.0)
    connection.close()
    return counted[0]


async def test_a_claim_on_a_file_costs_the_same_whatever_rests_in_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await some_work(store)
    await store.aclose()
    before = steps_of(tmp_path / "s.db", timers_only=False), steps_of(tmp_path / "s.db", timers_only=True)
    rest = apsw.Connection(str(tmp_path / "s.db"))
    rest.execute(
        "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n LIMIT ?)"
        " INSERT INTO lw_sessions (key, session_id, position, updated_at, min_format, agent_name, kind, lifecycle, title,"
        " created_at) SELECT i, 's' || i, 0, 0, 1, iif(i % 2, 'default', 'other'), 'agent', 'linked', '', 0 FROM n",
        (2 * MANY,),
    ).fetchall()
    for statement in timers_at_rest("key"):
        rest.execute(statement).fetchall()
    rest.execute(
        "INSERT INTO lw_inbox (key, item_id, seq, kind, at, position) SELECT key, 'x', 1, 'm', 0, 1 FROM lw_sessions"
    )
    rest.close()
    after = steps_of(tmp_path / "s.db", timers_only=False), steps_of(tmp_path / "s.db", timers_only=True)
    assert after[0] <= before[0] + 50
    assert after[1] <= before[1] + 50
    assert after[1] < after[0]


async def test_what_an_older_version_left_without_a_heartbeat_is_found(tmp_path: Path) -> None:
    """Its owners could go though a transition that was to release a lease was refused."""
    store = SqliteStore(tmp_path / "s.db")
    await store.create(new_session("s", status="running"))
    await store.aclose()
    older = apsw.Connection(str(tmp_path / "s.db"))
    older.execute("INSERT INTO lw_schema (version, created_at, cleaned_at) VALUES (4, 0, 0)")
    older.execute("UPDATE lw_sessions SET owner = 'nobody', token = x'00'")
    older.close()
    store = SqliteStore(tmp_path / "s.db")
    for _ in range(2):
        assert (await store.claim(work("other"))).interrupted == ()
        assert [head.session_id for head in (await store.claim(work())).interrupted] == ["s"]
    await store.aclose()


async def test_heads_are_looked_through_once_for_an_owner_that_left_nothing(tmp_path: Path) -> None:
    store, gone = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    writer = await begin(gone)
    await writer.write(head=IDLE, release=True)
    gone.abandon()
    asked: list[str] = []
    execute = statements(apsw.Connection(str(tmp_path / "s.db")))

    def noted(statement: str, *values: Any) -> Any:
        asked.append(statement)
        return execute(statement, *values)

    left_behind = LeftBehind()
    for _ in range(3):
        for agent in ("default", "other"):
            assert claimable(noted, work(agent), left_behind).interrupted == ()
    assert asked.count(HOLDERS) == 2
    assert INTERRUPTED_AND_LEFT not in asked
    await store.aclose()


def timers_at_rest(key: str) -> list[str]:
    """Statements that arm timers with which the agent "default" has nothing to do now: of its own and of another agent."""
    armed = (("default", 1e9, 0), ("default", 1, 1), ("default", 100, 1), ("other", 1, 0), ("other", 100, 0))
    return [
        f"INSERT INTO lw_timers ({key}, timer_id, due_at, body, paused, agent_name)"
        f" SELECT {key}, 't{n}', {due_at:.0f}, '', {paused}, agent_name FROM lw_sessions WHERE agent_name = '{agent}'"
        for n, (agent, due_at, paused) in enumerate(armed)
    ]


REST = (
    "INSERT INTO lw_sessions (session_id, position, min_format, agent_name, kind, lifecycle, title, updated_at, created_at)"
    " SELECT concat('{agent}', n), 0, 1, '{agent}', 'agent', 'linked', '', 0, 0 FROM {numbers}"
)
ITEMS = (
    "INSERT INTO lw_inbox ({key}, item_id, seq, kind, at, position) SELECT {key}, 'x', 1, 'm', 0, 1 FROM lw_sessions"
)


async def filled_with_rest(dsn: str, *, key: str, numbers: str) -> None:
    store = open_store(dsn)
    await some_work(store)
    await store.aclose()
    sessions = [REST.format(agent=agent, numbers=numbers) for agent in ("default", "other")]
    await ask(dsn, *sessions, *timers_at_rest(key), ITEMS.format(key=key))


async def claimed(connection: ServerConnection, sql: Statements) -> None:
    found = await ServerReads(connection, sql).claimable(work(now=9.0))
    assert {head.session_id for head in found.interrupted} == {"running", "asked"}
    assert ([one.timer_id for one in found.timers], found.next_timer_at) == (["due"], 500.0)


async def test_a_claim_on_mariadb_reads_no_more_rows_than_it_needs(mariadb: str) -> None:
    await filled_with_rest(mariadb, key="`key`", numbers=f"(SELECT seq AS n FROM seq_1_to_{MANY}) AS numbers")
    async with connected(mariadb) as connection:
        first = await _handler_reads(connection)
        before = await _handler_reads(connection)
        await claimed(connection, MysqlStatements())
        asking = before - first  # reads rows as well
        assert await _handler_reads(connection) - before - asking < FEW_ROWS


async def _handler_reads(connection: ServerConnection) -> int:
    rows = await connection.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(row[1]) for row in rows)


async def test_a_claim_on_postgresql_reads_no_more_rows_than_it_needs(postgres: str) -> None:
    numbers = f"generate_series(1, {MANY}) AS numbers (n)"
    await filled_with_rest(postgres, key="key", numbers=numbers)
    await ask(postgres, "ANALYZE lw_sessions", "ANALYZE lw_timers", "ANALYZE lw_inbox")
    sql = PostgresStatements()
    async with connected(postgres) as connection:
        await claimed(connection, sql)
        names = ["default"]
        for statement, values in (
            (sql.INTERRUPTED, (names, [], 1, 50)),
            *((sql.DUE, (name, 9.0, 1, names, 50)) for name in ("default", "")),
            *((sql.NEXT_DUE, (name, 9.0, 1, names)) for name in ("default", "")),
        ):
            ((plan,),) = await connection.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values)
            assert _rows_read(json.loads(plan)[0]["Plan"]) < FEW_ROWS, plan


def _rows_read(node: dict[str, Any]) -> float:
    """Rows that were looked at, those that a filter took away included."""
    own = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return own * node["Actual Loops"] + sum(map(_rows_read, node.get("Plans", [])))
