"""Tables of an older version become those of a newer one: once, whole, also when processes start at once or die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from tests.contract.stores.later_schema import LAST, LATER, NEXT, opened

from loopwright.model.errors import LoopwrightError, StoreSchemaError
from loopwright.ports.schema_policy import SchemaPolicy
from loopwright.ports.store import ClaimQuery, PutTimer
from loopwright.stores.migration import Migration, SchemaStep, left_of, newest
from loopwright.stores.sqlite import SqliteStore
from loopwright.stores.sqlite_migrations import MIGRATIONS, cleanup_of, complete_ddl
from loopwright.stores.sqlite_statements import IS_CURRENT, SCHEMA_VERSION
from loopwright.testing.faulty_vfs import Fault, FaultyVfs
from loopwright.testing.store_kit import new_session

AUTO, VERIFY, MIGRATE = SchemaPolicy.AUTO_CREATE, SchemaPolicy.VERIFY, SchemaPolicy.MIGRATE
SO_FAR = list(range(1, SCHEMA_VERSION + 1))
SCHEMA_1 = Path(__file__).parents[2] / "history" / "schema_1.sql"
A_SESSION = (
    "INSERT INTO lw_sessions (session_id, position, updated_at, min_format, agent_name, kind, lifecycle, title, created_at)"
    " VALUES ('s', 0, 1.0, 1, 'default', 'agent', 'linked', '', 1.0)"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of version 1 with a session in it."""
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; " + SCHEMA_1.read_text("ascii")).fetchall()
    connection.execute(A_SESSION)
    connection.close()
    return path


def rows(path: Path, query: str) -> list[object]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(query))
    finally:
        connection.close()


def versions(path: Path) -> list[object]:
    return [row[0] for row in rows(path, "SELECT version FROM lw_schema ORDER BY version")]  # type: ignore[index]


def test_the_list_leads_to_the_version_that_new_files_get() -> None:
    assert newest(1, MIGRATIONS) == SCHEMA_VERSION
    assert [one.version for one in MIGRATIONS] == list(range(2, SCHEMA_VERSION + 1))


def test_steps_that_are_done_are_left_out() -> None:
    steps = (SchemaStep("a", "is a"), SchemaStep("b", "is b"))
    assert left_of(steps, lambda query: query == "is a") == [steps[1]]
    assert newest(3, (Migration(version=2),)) == 3


def test_a_migrated_file_has_the_same_columns_as_a_new_one(old: Path, tmp_path: Path) -> None:
    SqliteStore(old).abandon()
    SqliteStore(tmp_path / "new.db").abandon()
    columns = (
        'SELECT t.name, c.name, c.type, c."notnull", c.dflt_value FROM sqlite_schema AS t, pragma_table_info(t.name) AS c'
        " WHERE t.type = 'table' AND t.name LIKE 'lw%' ORDER BY 1, 2"
    )
    assert rows(old, columns) == rows(tmp_path / "new.db", columns)


def test_a_whole_file_is_seen_at_a_glance_and_anything_missing_is_not_overlooked(old: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    SqliteStore(path).abandon()
    ours = apsw.Connection(str(path))
    assert list(ours.execute(IS_CURRENT)), "a new file"
    # What a full-text index makes for itself nobody else can make.
    objects = list(
        ours.execute(
            "SELECT type, name FROM sqlite_schema WHERE name LIKE 'lw%' AND name NOT LIKE 'lw_memories_text_%' ORDER BY type"
        )
    )
    migrated = [
        ("column", "lw_schema.cleaned_at"),
        ("column", "lw_timers.paused"),
        ("column", "lw_artifacts.created_at"),
        ("column", "lw_sessions.base_id"),
        ("column", "lw_sessions.base_position"),
        ("column", "lw_sessions.nanodollars"),
        ("column", "lw_sessions.unpriced_calls"),
        ("column", "lw_timers.agent_name"),
    ]
    added = [step for one in MIGRATIONS for step in one.before if "ADD COLUMN" in step.statement]
    assert len(migrated) == len(added), "each migrated column has its case here"
    for kind, name in [*objects, *migrated, ("version", "1"), ("version", "9")]:
        ours.execute("BEGIN")
        if name == "lw_sessions.base_id":  # it is part of an index, which would be missed first
            ours.execute("DROP INDEX lw_sessions_base; CREATE INDEX lw_sessions_base ON lw_sessions (title)")
        if name in ("lw_timers.paused", "lw_timers.agent_name"):
            ours.execute("DROP INDEX lw_timers_agent; CREATE INDEX lw_timers_agent ON lw_timers (due_at)")
        if kind == "column":
            ours.execute("ALTER TABLE {} DROP COLUMN {}".format(*name.split(".")))
        elif kind == "version":
            ours.execute("UPDATE lw_schema SET version = " + str(name))
        else:
            ours.execute(f"DROP {kind} {name}")
        assert not seen_as_current(ours), (kind, name)
        ours.execute("ROLLBACK")
    assert seen_as_current(ours)
    ours.close()
    version_1 = apsw.Connection(str(old))
    assert not seen_as_current(version_1)
    version_1.close()


def seen_as_current(connection: apsw.Connection) -> bool:
    try:
        return bool(list(connection.execute(IS_CURRENT)))
    except apsw.SQLError:
        return False


def test_opening_runs_what_must_come_first_and_leaves_the_clean_up(old: Path) -> None:
    connection = opened(old, AUTO)
    assert [version for version, _ in cleanup_of(connection, LATER)] == [5, NEXT]
    connection.close()
    assert versions(old) == [*SO_FAR, NEXT, LAST]
    assert rows(old, "SELECT colour, shape FROM lw_sessions") == [("none", None)]
    opened(old, VERIFY).close()


def test_migrating_cleans_up_once(old: Path) -> None:
    opened(old, AUTO).close()
    connection = opened(old, MIGRATE)
    assert cleanup_of(connection, LATER) == []
    connection.execute("UPDATE lw_sessions SET shape = NULL")
    connection.close()
    opened(old, MIGRATE).close()
    assert rows(old, "SELECT shape FROM lw_sessions") == [(None,)]
    assert rows(old, "SELECT count(*) FROM lw_tidied") == [(0,)]


def test_processes_of_the_version_before_go_on_beside_a_migration(old: Path) -> None:
    async def verify() -> None:
        store = SqliteStore(old)
        await store.create(new_session("before"))
        opened(old, AUTO).close()
        await store.create(new_session("after"))
        assert (await store.lookup("after")).head.position == 1
        await store.aclose()

    asyncio.run(verify())


async def test_timers_from_before_a_migration_and_those_that_the_version_before_arms_beside_it_fire(
    tmp_path: Path,
) -> None:
    path, older = tmp_path / "old.db", "INSERT INTO lw_timers (key, timer_id, due_at, body) VALUES (1, '{}', {}, x'')"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; " + SCHEMA_1.with_name("schema_4.sql").read_text("ascii")).fetchall()
    connection.execute(A_SESSION)
    connection.execute(older.format("before", 5.0))
    SqliteStore(path).abandon()
    assert rows(path, "SELECT agent_name FROM lw_timers") == [("default",)]
    for timer_id, due_at in (("beside", 4.0), ("later", 12.0), ("last", 20.0)):
        connection.execute(older.format(timer_id, due_at))
    connection.close()
    store = SqliteStore(path)
    for agents, limit, due, later in (
        (("default", "other"), 50, ["beside", "before"], 12.0),
        (("default", "other"), 1, ["beside"], 12.0),
        (("other",), 50, [], None),
    ):
        found = await store.claim(ClaimQuery(agent_names=agents, max_format=1, now=9.0, limit=limit))
        assert ([timer.timer_id for timer in found.timers], found.next_timer_at) == (due, later)
    await store.enqueue("s", None, (PutTimer("later", 11.0, b"moved"),))
    assert rows(path, "SELECT agent_name FROM lw_timers WHERE timer_id = 'later'") == [("default",)]
    await store.aclose()


def test_verify_gives_exactly_the_statements_that_are_missing_and_they_work(old: Path) -> None:
    with pytest.raises(StoreSchemaError, match="version 1") as missing:
        opened(old, VERIFY)
    assert versions(old) == [1]
    script = missing.value.ddl
    assert script.count("CREATE TABLE") == 8, "tables that are there are not in it"
    assert (
        script.index("ADD COLUMN cleaned_at")
        < script.index("base_id")
        < script.index("colour")
        < script.index("lw_notes")
    )
    connection = apsw.Connection(str(old))
    connection.execute(script).fetchall()
    connection.close()
    opened(old, VERIFY).close()


def test_the_complete_script_does_no_harm_to_older_tables(old: Path) -> None:
    connection = apsw.Connection(str(old))
    with pytest.raises(apsw.SQLError):  # version 1 has no column for the clean-up
        connection.execute(complete_ddl()).fetchall()
    connection.close()
    SqliteStore(old).abandon()
    connection = apsw.Connection(str(old))
    for _ in range(2):
        connection.execute(complete_ddl()).fetchall()
    connection.close()
    assert versions(old) == SO_FAR


def test_processes_that_start_at_once_migrate_once(old: Path) -> None:
    command = [sys.executable, "-m", "tests.contract.stores.later_schema", str(old)]
    started = [
        subprocess.Popen([*command, policy], stderr=subprocess.PIPE, cwd=Path(__file__).parents[3])
        for policy in (AUTO, AUTO, MIGRATE, MIGRATE)
    ]
    for process in started:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    assert versions(old) == [*SO_FAR, NEXT, LAST]
    assert rows(old, "SELECT version FROM lw_schema WHERE cleaned_at IS NULL") == [(1,)]


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.IO_ERROR, Fault.FULL])
def test_a_migration_that_stops_at_any_operation_is_finished_by_the_next_process(old: Path, fault: Fault) -> None:
    counting = FaultyVfs()
    counting.armed = True
    whole = old.read_bytes()
    opened(old, MIGRATE, vfs=counting.vfs_name).close()
    assert counting.count > 5
    for point in range(1, counting.count + 1):
        for beside in old.parent.glob("old.db*"):
            beside.unlink()
        old.write_bytes(whole)
        vfs = FaultyVfs(fault, point)
        vfs.armed = True
        try:
            opened(old, MIGRATE, vfs=vfs.vfs_name).close()
        except LoopwrightError:
            pass
        except apsw.Error:  # at the closing
            pass
        done = versions(old)
        assert done in ([1], [*SO_FAR, NEXT, LAST]), "versions come together or not at all"
        opened(old, MIGRATE).close()
        assert versions(old) == [*SO_FAR, NEXT, LAST]
        assert rows(old, "SELECT shape FROM lw_sessions") == [("round",)]


def test_a_migration_of_which_some_steps_are_done_goes_on_with_the_others(old: Path) -> None:
    connection = apsw.Connection(str(old))
    connection.execute("ALTER TABLE lw_timers ADD COLUMN paused INTEGER NOT NULL DEFAULT 0")
    connection.close()
    SqliteStore(old).abandon()
    assert versions(old) == SO_FAR


@pytest.mark.parametrize("policy", [AUTO, VERIFY])
def test_tables_that_are_not_of_the_version_they_say_are_refused_until_an_operator_says_so(
    old: Path, policy: SchemaPolicy
) -> None:
    opened(old, AUTO).close()
    connection = apsw.Connection(str(old))
    connection.execute("ALTER TABLE lw_artifacts DROP COLUMN created_at")
    connection.close()
    with pytest.raises(StoreSchemaError, match="keep a copy of the file and run `loopwright db migrate`") as refused:
        opened(old, policy)
    assert refused.value.ddl == "ALTER TABLE lw_artifacts ADD COLUMN created_at REAL;\n"
    opened(old, MIGRATE).close()
    opened(old, policy).close()


def test_a_file_of_the_future_is_refused_by_this_version_and_untouched(old: Path) -> None:
    opened(old, AUTO).close()
    before = old.read_bytes()
    for policy in SchemaPolicy:
        with pytest.raises(StoreSchemaError, match="upgrade loopwright"):
            SqliteStore(old, schema=policy)
    assert old.read_bytes() == before
