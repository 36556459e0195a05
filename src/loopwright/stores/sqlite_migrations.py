"""Migrations on SQLite: what a file still lacks, as the exact script, and running it.

Owns: the list of migrations, reading and writing `lw_schema`, the order of steps. Must not know: how a file is opened.
Read next: `migration.py`, then `sqlite_tables.py` for the tables as a new file gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import apsw

from . import migration
from .migration import Migration, SchemaGap, SchemaStep, SchemaWords, check_known, gap_between, left_of
from .sqlite_statements import SCHEMA_VERSION
from .sqlite_tables import DDL

_TIMERS_ARE_NAMED: Final = "SELECT 1 FROM pragma_table_info('lw_timers') WHERE name = 'agent_name'"

MIGRATIONS: Final = (
    Migration(
        version=2,
        before=(
            SchemaStep(
                "ALTER TABLE lw_schema ADD COLUMN cleaned_at REAL",
                "SELECT 1 FROM pragma_table_info('lw_schema') WHERE name = 'cleaned_at'",
            ),
            SchemaStep(
                "ALTER TABLE lw_timers ADD COLUMN paused INTEGER NOT NULL DEFAULT 0",
                "SELECT 1 FROM pragma_table_info('lw_timers') WHERE name = 'paused'",
            ),
            SchemaStep(
                "ALTER TABLE lw_artifacts ADD COLUMN created_at REAL",
                "SELECT 1 FROM pragma_table_info('lw_artifacts') WHERE name = 'created_at'",
            ),
        ),
    ),
    Migration(
        version=3,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN base_id TEXT",
                "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'base_id'",
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN base_position INTEGER",
                "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'base_position'",
            ),
        ),
    ),
    # Beside these columns there are new tables, which are made where they are missing.
    Migration(
        version=4,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN nanodollars INTEGER NOT NULL DEFAULT 0",
                "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'nanodollars'",
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN unpriced_calls INTEGER NOT NULL DEFAULT 0",
                "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'unpriced_calls'",
            ),
        ),
    ),
    # Beside these steps there are indexes and new tables, which are made where they are missing. A version before goes on
    # arming timers without a name, which are looked for as well.
    Migration(
        version=5,
        before=(
            SchemaStep("ALTER TABLE lw_timers ADD COLUMN agent_name TEXT NOT NULL DEFAULT ''", _TIMERS_ARE_NAMED),
            SchemaStep(
                "UPDATE lw_timers SET agent_name = s.agent_name FROM lw_sessions AS s WHERE s.key = lw_timers.key",
                _TIMERS_ARE_NAMED,
            ),
        ),
        after=(
            SchemaStep(
                "DROP INDEX lw_timers_due",
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'lw_timers_due')",
            ),
        ),
    ),
)
"""In order. A new version is one entry here, the same columns in `DDL`, and `SCHEMA_VERSION`."""

_WORDS: Final = SchemaWords(
    ddl=DDL,
    version=SCHEMA_VERSION,
    new=(
        "INSERT INTO lw_schema (version, created_at, cleaned_at)"
        " SELECT {version}, unixepoch('subsec'), unixepoch('subsec') WHERE NOT EXISTS (SELECT 1 FROM lw_schema)"
    ),
    migrated=(
        "INSERT OR IGNORE INTO lw_schema (version, created_at, cleaned_at)"
        " VALUES ({version}, unixepoch('subsec'), {cleaned})"
    ),
    now="unixepoch('subsec')",
    keep="a copy of the file",
)

_CLEANED: Final = "UPDATE lw_schema SET cleaned_at = unixepoch('subsec') WHERE version = ?"


def complete_ddl() -> str:
    """The idempotent script that makes the tables of this version; see `migration.complete_ddl`."""
    return migration.complete_ddl(_WORDS)


def gap_of(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> SchemaGap:
    """What is missing. Raises `StoreSchemaError` when the tables are newer than this code; nothing is changed."""
    present = {row[0] for row in _rows(connection, "SELECT name FROM sqlite_schema WHERE name LIKE 'lw%'")}
    version: int | None = None
    if "lw_schema" in present:
        version = _rows(connection, "SELECT max(version) FROM lw_schema")[0][0]
    check_known(version, _WORDS, migrations, path)
    return gap_between(
        _WORDS,
        migrations,
        path,
        present=present,
        version=version,
        is_there=lambda query: bool(_rows(connection, query)),
    )


def cleanup_of(connection: apsw.Connection, migrations: Sequence[Migration]) -> list[tuple[int, list[str]]]:
    """(version, statements) of clean-ups that were not done yet, in order."""
    open_ = {row[0] for row in _rows(connection, "SELECT version FROM lw_schema WHERE cleaned_at IS NULL")}
    return [
        (m.version, [step.statement for step in left_of(m.after, lambda query: bool(_rows(connection, query)))])
        for m in sorted(migrations, key=lambda one: one.version)
        if m.version in open_ and m.after
    ]


def clean_up(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    """Runs what `cleanup_of` says, each statement in a transaction of its own; the rest can be done by anybody later."""
    for version, statements in cleanup_of(connection, migrations):
        for statement in statements:
            _alone(connection, statement, again=lambda version=version: _is_left(connection, migrations, version))
        _alone(connection, _CLEANED, (version,))


def _is_left(connection: apsw.Connection, migrations: Sequence[Migration], version: int) -> list[str]:
    return next((left for number, left in cleanup_of(connection, migrations) if number == version), list[str]())


def _alone(connection: apsw.Connection, statement: str, values: tuple[int, ...] = (), *, again: Any = None) -> None:
    _rows(connection, "BEGIN IMMEDIATE")
    try:
        # Somebody else may have done it while this process waited for the lock.
        if again is None or statement in again():
            _rows(connection, statement, values)
        _rows(connection, "COMMIT")
    except BaseException:
        if connection.in_transaction:
            _rows(connection, "ROLLBACK")
        raise


def _rows(connection: apsw.Connection, statement: str, values: tuple[int, ...] = ()) -> list[Any]:
    execute = cast("Callable[..., Any]", connection.cursor().execute)  # pyright: ignore[reportUnknownMemberType]
    return list(execute(statement, values))
