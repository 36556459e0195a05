"""Migrations on SQLite: what a file still lacks, as the exact script, and running it.

Owns: the list of migrations, reading and writing `lw_schema`, the order of steps. Must not know: how a file is opened.
Read next: `migration.py`, then `sqlite_statements.py` for the tables as a new file gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import apsw
from msgspec import Struct

from ..model.errors import StoreSchemaError
from .migration import Migration, SchemaStep, after_version, left_of, newest
from .sqlite_statements import DDL, SCHEMA_VERSION

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
)
"""In order. A new version is one entry here, the same columns in `DDL`, and `SCHEMA_VERSION`."""

_NEW: Final = (
    "INSERT INTO lw_schema (version, created_at, cleaned_at)"
    " SELECT {version}, unixepoch('subsec'), unixepoch('subsec') WHERE NOT EXISTS (SELECT 1 FROM lw_schema)"
)
"""The version of new tables; says nothing about tables that are there already."""

_MIGRATED: Final = "INSERT OR IGNORE INTO lw_schema (version, created_at, cleaned_at) VALUES ({version}, unixepoch('subsec'), {cleaned})"

_CLEANED: Final = "UPDATE lw_schema SET cleaned_at = unixepoch('subsec') WHERE version = ?"


class SchemaGap(Struct, frozen=True):
    """What a file lacks."""

    version: int | None
    """Of its tables; None when they have none."""
    names: tuple[str, ...]
    """Tables and indexes that are not there."""
    script: tuple[str, ...]
    """Statements that bring the file to this version, in order; none when nothing is missing."""
    broken: str = ""
    """Why the script must not run without being asked for; "" when it may."""
    older: bool = False
    """The tables say themselves that they are of a version before the one that is wanted."""

    @property
    def ddl(self) -> str:
        """The script as text."""
        return as_script(self.script)


def as_script(statements: Sequence[str]) -> str:
    """Statements as one text."""
    return "".join(f"{statement};\n" for statement in statements)


def statements_of_ddl() -> list[str]:
    """The statements that make all tables and indexes of this version."""
    return [part.strip() for part in DDL.split(";\n") if part.strip()]


def complete_ddl() -> str:
    """The idempotent script that makes the tables of this version in a file that has none of them.

    On older tables it does no harm and is not enough: they are migrated.
    """
    return as_script([*statements_of_ddl(), _NEW.format(version=SCHEMA_VERSION)])


def gap_of(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> SchemaGap:
    """What is missing. Raises `StoreSchemaError` when the tables are newer than this code; nothing is changed."""
    present = {row[0] for row in _rows(connection, "SELECT name FROM sqlite_schema WHERE name LIKE 'lw%'")}
    wanted = newest(SCHEMA_VERSION, migrations)
    version = _version(connection, path, wanted) if "lw_schema" in present else None
    # CREATE TABLE IF NOT EXISTS name …
    named = [
        (words[1], words[5], statement) for statement in statements_of_ddl() if (words := statement.split(None, 6))
    ]
    tables = [(name, statement) for kind, name, statement in named if kind == "TABLE" and name not in present]
    indexes = [(name, statement) for kind, name, statement in named if kind == "INDEX" and name not in present]
    lacking = {name for name, _ in tables}
    script = [statement for _, statement in tables]
    broken = ""
    for migration in sorted(migrations, key=lambda one: one.version):
        # A table that is made whole has the newest columns; whether others have them is asked of the file.
        fresh = version is None and "lw_schema" in lacking and migration.version <= SCHEMA_VERSION
        left = [] if fresh else left_of(migration.before, lambda query: bool(_rows(connection, query)))
        if migration.version <= SCHEMA_VERSION:
            left = [step for step in left if not any(name in step.statement for name in lacking)]
        script += [step.statement for step in left]
        if version is not None and migration.version > version:
            cleaned = "NULL" if migration.after else "unixepoch('subsec')"
            script.append(_MIGRATED.format(version=migration.version, cleaned=cleaned))
        elif left and version is not None and not broken:
            broken = (
                f"{path} says that its tables are of version {version}, but a step of version {migration.version} is"
                f" missing ({left[0].statement}): a migration was cut off, or its change was undone;"
                " keep a copy of the file and run `loopwright db migrate`, or this script"
            )
    script += [statement for _, statement in indexes]
    if version is None:
        script.append(_NEW.format(version=SCHEMA_VERSION))
        for migration in after_version(SCHEMA_VERSION, migrations):
            cleaned = "NULL" if migration.after else "unixepoch('subsec')"
            script.append(_MIGRATED.format(version=migration.version, cleaned=cleaned))
    return SchemaGap(
        version,
        tuple(name for name, _ in [*tables, *indexes]),
        tuple(script),
        broken,
        version is not None and version < wanted,
    )


def cleanup_of(connection: apsw.Connection, migrations: Sequence[Migration]) -> list[tuple[int, list[str]]]:
    """(version, statements) of clean-ups that were not done yet, in order."""
    open_ = {row[0] for row in _rows(connection, "SELECT version FROM lw_schema WHERE cleaned_at IS NULL")}
    return [
        (m.version, [step.statement for step in left_of(m.after, lambda query: bool(_rows(connection, query)))])
        for m in sorted(migrations, key=lambda migration: migration.version)
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


def _version(connection: apsw.Connection, path: str, known: int) -> int | None:
    version: int | None = _rows(connection, "SELECT max(version) FROM lw_schema")[0][0]
    if version is not None and version > known:
        raise StoreSchemaError(
            f"{path} has tables of version {version}, this loopwright knows up to {known}; nothing was changed;"
            " upgrade loopwright"
        )
    return version


def _rows(connection: apsw.Connection, statement: str, values: tuple[int, ...] = ()) -> list[Any]:
    execute = cast("Callable[..., Any]", connection.cursor().execute)  # pyright: ignore[reportUnknownMemberType]
    return list(execute(statement, values))
