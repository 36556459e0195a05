"""How tables of an older version become those of this one: numbered steps forward, never back.

Owns: what a migration is, which steps of a list are still to be done, and the exact script of what a database lacks. Must
not know: any database; facts about one are given to it.
Read next: `sqlite_migrations.py` and `server_schema.py`, which ask for the facts and run the script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final

from msgspec import Struct

from ..model.errors import StoreSchemaError

_CREATES: Final = re.compile(r"CREATE (?:VIRTUAL )?(\w+) IF NOT EXISTS (\w+)")


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


class SchemaWords(Struct, frozen=True, kw_only=True):
    """How a kind of database makes tables and notes their version."""

    ddl: str
    """Tables, indexes and triggers of `version`, each `CREATE … IF NOT EXISTS name …`, ended by a semicolon and a line's end."""
    version: int
    new: str
    """Notes `{version}` in tables without any; says nothing about others."""
    migrated: str
    """Notes that the tables came to `{version}`, cleaned up at `{cleaned}`."""
    now: str
    """The present time in UTC epoch seconds."""
    keep: str
    """What an operator should keep before tables in doubt are changed."""


class SchemaGap(Struct, frozen=True):
    """What a database lacks."""

    version: int | None
    """Of its tables; None when they have none."""
    names: tuple[str, ...]
    """Tables, indexes and triggers that are not there."""
    script: tuple[str, ...]
    """Statements that bring it to this version, in order; none when nothing is missing."""
    broken: str = ""
    """Why the script must not run without being asked for; "" when it may."""
    older: bool = False
    """The tables say themselves that they are of a version before the one that is wanted."""

    @property
    def ddl(self) -> str:
        """The script as text."""
        return as_script(self.script)

    def lacking(self, place: str) -> str:
        """What `SchemaPolicy.VERIFY` says of it."""
        if self.older:
            what = f"has tables of version {self.version}, which is older than this loopwright,"
        else:
            what = f"lacks {', '.join(self.names) or 'the row that says the version of its tables'}"
        return f"{place} {what} and schema is VERIFY; run `loopwright db migrate`, or this script"


def as_script(statements: Sequence[str]) -> str:
    """Statements as one text."""
    return "".join(f"{statement};\n" for statement in statements)


def statements_of(ddl: str) -> list[str]:
    """The statements of such a text."""
    return [part.strip() for part in ddl.split(";\n") if part.strip()]


def tables_of(ddl: str) -> list[str]:
    """The names of the tables that such a text makes, in order."""
    return [name for kind, name, _ in _named(ddl) if kind == "TABLE"]


def complete_ddl(words: SchemaWords) -> str:
    """The idempotent script that makes the tables of this version in a database that has none of them.

    On older tables it does no harm and is not enough: they are migrated.
    """
    return as_script([*statements_of(words.ddl), words.new.format(version=words.version)])


def newest(base: int, migrations: Sequence[Migration]) -> int:
    """The version that a list leads to from tables made at version `base`."""
    return max([base, *(migration.version for migration in migrations)])


def left_of(steps: Sequence[SchemaStep], is_there: Callable[[str], bool]) -> list[SchemaStep]:
    """Steps whose effect is not there; `is_there` asks the database."""
    return [step for step in steps if not is_there(step.applied)]


def after_version(version: int, migrations: Sequence[Migration]) -> Iterator[Migration]:
    """Migrations that tables of `version` still need, in order."""
    yield from sorted((m for m in migrations if m.version > version), key=lambda migration: migration.version)


def check_known(version: int | None, words: SchemaWords, migrations: Sequence[Migration], place: str) -> None:
    """Raises `StoreSchemaError` when the tables are newer than this code; nothing is changed."""
    known = newest(words.version, migrations)
    if version is not None and version > known:
        raise StoreSchemaError(
            f"{place} has tables of version {version}, this loopwright knows up to {known}; nothing was changed;"
            " upgrade loopwright"
        )


def gap_between(
    words: SchemaWords,
    migrations: Sequence[Migration],
    place: str,
    *,
    present: Set[str],
    version: int | None,
    is_there: Callable[[str], bool],
) -> SchemaGap:
    """What is missing in a database with the tables and indexes `present`, whose `lw_schema` says `version`."""
    named = _named(words.ddl)
    tables = [(name, text) for kind, name, text in named if kind == "TABLE" and name not in present]
    indexes = [(name, text) for kind, name, text in named if kind != "TABLE" and name not in present]
    lacking = {name for name, _ in tables}
    # The table of versions is made first, so without it there are none of this version's tables.
    is_new = version is None and named[0][1] in lacking
    script = [text for _, text in tables]
    broken = ""
    for migration in after_version(0, migrations):
        # A table that is made whole has the newest columns; whether others have them is asked of the database.
        fresh = is_new and migration.version <= words.version
        left = [] if fresh else left_of(migration.before, is_there)
        if migration.version <= words.version:
            left = [step for step in left if not any(name in step.statement for name in lacking)]
        script += [step.statement for step in left]
        if version is not None and migration.version > version:
            script.append(_migrated(words, migration))
        elif left and version is not None and not broken:
            broken = (
                f"{place} says that its tables are of version {version}, but a step of version {migration.version} is"
                f" missing ({left[0].statement}): a migration was cut off, or its change was undone;"
                f" keep {words.keep} and run `loopwright db migrate`, or this script"
            )
    script += [text for _, text in indexes]
    if version is None:
        script.append(words.new.format(version=words.version))
        script += [_migrated(words, migration) for migration in after_version(words.version, migrations)]
    older = version is not None and version < newest(words.version, migrations)
    return SchemaGap(version, tuple(name for name, _ in [*tables, *indexes]), tuple(script), broken, older)


def _migrated(words: SchemaWords, migration: Migration) -> str:
    return words.migrated.format(version=migration.version, cleaned="NULL" if migration.after else words.now)


def _named(ddl: str) -> list[tuple[str, str, str]]:
    """(TABLE, INDEX or TRIGGER, name, statement) of each CREATE … IF NOT EXISTS name …"""
    found = ((_CREATES.match(text), text) for text in statements_of(ddl))
    return [(match[1], match[2], text) for match, text in found if match]
