"""What is MariaDB's own: odd text, several servers' settings, values that do not fit."""

from __future__ import annotations

import math

import pytest
from tests.contract.stores.fault_stage import first_error
from tests.servers.asking import ask, changed, name_of

from loopwright import open_store
from loopwright.model.errors import (
    ConfigError,
    StoreError,
    StoreReadOnlyError,
    UsageError,
)
from loopwright.ports.store import EncodedRecord
from loopwright.stores.mysql import MysqlDialect
from loopwright.stores.mysql_statements import MysqlStatements
from loopwright.stores.mysql_text import filled, filled_many, literal
from loopwright.testing.store_kit import begin, item, new_session


async def test_a_user_without_rights_is_told_apart_from_damage(mariadb: str) -> None:
    database = name_of(mariadb)
    user = f"poor_{database[-8:]}"
    store = open_store(mariadb)
    await store.create(new_session("made by its owner"))
    await store.aclose()
    await ask(mariadb, f"CREATE USER {user}", f"GRANT SELECT ON {database}.* TO {user}")
    try:
        error = await first_error(changed(mariadb, user=user))
        assert isinstance(error, StoreReadOnlyError)
        assert "grant" in str(error)
    finally:
        await ask(mariadb, f"DROP USER {user}")


async def test_text_that_the_server_would_take_for_other_text_stays_apart(mariadb: str) -> None:
    """Case, accents, spaces at the end, four-byte characters, what text columns do not take, and long ids."""
    names = [
        "a",
        "A",
        "á",
        "a ",
        "a  ",
        " a",
        "😀",
        "😁",
        "a\\",
        "a'",
        "a\x00b\ud800c\x1ad\x1a0000",
        "x" * 200,
        "😀" * 200,
    ]
    store = open_store(mariadb)
    for name in names:
        await store.create(new_session(name, title=name))
        await store.enqueue(name, item(name))
    for name in names:
        found = await store.lookup(name, item_id=name)
        assert (found.head.session_id, found.head.title, found.waiting[0].item_id) == (name, name, name)
    await store.aclose()


async def test_a_record_larger_than_the_server_takes_is_refused_and_the_store_goes_on(mariadb: str) -> None:
    store = open_store(mariadb)
    writer = await begin(store)
    huge = EncodedRecord("fact", 1, 1.0, b"'" * 9_000_000)
    with pytest.raises(StoreError, match="max_allowed_packet"):
        await store.commit(writer.transition(records=(huge,)))
    assert (await writer.write()).position == 3
    await store.aclose()


async def test_due_timers_are_found_by_their_time_and_not_by_looking_at_every_session(mariadb: str) -> None:
    store = open_store(mariadb)
    await store.create(new_session("s0"))
    await store.aclose()
    await ask(
        mariadb,
        "INSERT INTO lw_sessions (session_id, position, min_format, agent_name, kind, lifecycle, title, updated_at,"
        " created_at) SELECT concat('s', seq), 0, 1, 'agent', 'agent', 'linked', '', 0, 0 FROM seq_1_to_2000",
    )
    timers = "SELECT s.`key`, concat('t', n.seq), n.seq, '', 'agent' FROM lw_sessions AS s JOIN seq_1_to_5 AS n"
    await ask(mariadb, f"INSERT INTO lw_timers (`key`, timer_id, due_at, body, agent_name) {timers}")
    await ask(mariadb, "ANALYZE TABLE lw_sessions, lw_timers")
    due = filled(MysqlStatements().DUE, ("agent", 9.0, 1, ["agent"], 50)).decode()
    first = (await ask(mariadb, f"EXPLAIN {due}"))[0]
    assert "lw_timers_agent" in first, "the server looks at every session first"
    assert "filesort" not in str(first[-1]), "the server sorts all that is due"


def test_the_oldest_servers_are_refused_and_their_names_told_apart() -> None:
    dialect = MysqlDialect("mysql://localhost/db")
    for version in ("8.0.36", "9.1.0-commercial", "10.6.0-MariaDB", "5.5.5-10.11.19-MariaDB-log", "11.4.2-MariaDB"):
        dialect._check(version, synced=True)
    for version in ("5.7.44-log", "10.5.9-MariaDB", "5.5.5-10.4.1-MariaDB"):
        with pytest.raises(ConfigError, match="or newer"):
            dialect._check(version, synced=True)


def test_values_are_written_as_the_server_reads_them() -> None:
    assert filled("SELECT $2, $1, $2", [1, "a'b\\"]) == b"SELECT 'a\\'b\\\\', 1, 'a\\'b\\\\'"
    assert filled("x IN $1[] OR $2? OR $3?", [[1, 2], None, "a"]) == b"x IN (1, 2) OR 0 OR 1"
    assert filled("x IN $1[]", [[]]) == b"x IN (NULL)"
    assert filled("($1|$2)", [[1, 2], ["a", "b"]]) == b"(SELECT 1 AS a, 'a' AS b UNION ALL SELECT 2 AS a, 'b' AS b)"
    assert [literal(value) for value in (None, 0.1, 1e300, b"\x00'")] == [
        b"NULL",
        b"0.1e0",
        b"1e+300",
        b"_binary'\x00\\''",
    ]
    for value in (math.nan, math.inf, object()):
        with pytest.raises(UsageError):
            literal(value)


def test_many_rows_are_one_insert_or_many_statements_of_bounded_size() -> None:
    assert list(filled_many("INSERT INTO t VALUES ($1)", [[1], [2]])) == [b"INSERT INTO t VALUES (1), (2)"]
    assert list(filled_many("UPDATE t SET a = $1", [[1], [2]])) == [b"UPDATE t SET a = 1;\nUPDATE t SET a = 2"]
    assert [len(text) for text in filled_many("INSERT INTO t VALUES ($1)", [[b"x" * 600_000]] * 3)] == [600_032] * 3
