"""How tables of an older version become those of this one: numbered steps forward, never back.

Owns: what a migration is, and which steps of a list are still to be done. Must not know: any database.
Read next: `sqlite_migrations.py`, which runs them on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct


class SchemaStep(Struct, frozen=True):
    """One statement, with the question whether its effect is there already."""

    statement: str
    applied: str
    """A query that answers a row when nothing is left to do: a step may be interrupted, or done twice."""


class Migration(Struct, frozen=True, kw_only=True):
    """What leads from the version before to this one.

    `before` runs under the write lock before code of this version touches anything. It only adds, and what it adds has a
    default, so that processes of the version before go on working beside it. `after` cleans up what only they needed; it
    may run at any later time, and is never run without being asked for.
    """

    version: int
    before: tuple[SchemaStep, ...] = ()
    after: tuple[SchemaStep, ...] = ()


def newest(base: int, migrations: Sequence[Migration]) -> int:
    """The version that a list leads to from tables made at version `base`."""
    return max([base, *(migration.version for migration in migrations)])


def left_of(steps: Sequence[SchemaStep], is_there: Callable[[str], bool]) -> list[SchemaStep]:
    """Steps whose effect is not there; `is_there` asks the database."""
    return [step for step in steps if not is_there(step.applied)]


def after_version(version: int, migrations: Sequence[Migration]) -> Iterator[Migration]:
    """Migrations that tables of `version` still need, in order."""
    yield from sorted((m for m in migrations if m.version > version), key=lambda migration: migration.version)
