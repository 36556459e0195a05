"""A future schema, as a test may have it: two versions after the present one, given as a value.

Run as a program it opens a file with them: `python -m tests.contract.stores.later_schema FILE POLICY`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apsw

from loopwright.ports.schema_policy import SchemaPolicy
from loopwright.stores.migration import Migration, SchemaStep
from loopwright.stores.sqlite_migrations import MIGRATIONS
from loopwright.stores.sqlite_schema import DatabaseFile, prepare
from loopwright.stores.sqlite_statements import SCHEMA_VERSION

HAS_COLOUR = "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'colour'"
HAS_SHAPE = "SELECT 1 FROM pragma_table_info('lw_sessions') WHERE name = 'shape'"
HAS_NOTES = "SELECT 1 FROM sqlite_schema WHERE name = 'lw_notes'"

NEXT, LAST = SCHEMA_VERSION + 1, SCHEMA_VERSION + 2

LATER = (
    *MIGRATIONS,
    Migration(
        version=NEXT,
        before=(
            SchemaStep("ALTER TABLE lw_sessions ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'", HAS_COLOUR),
            SchemaStep("ALTER TABLE lw_sessions ADD COLUMN shape TEXT", HAS_SHAPE),
        ),
        after=(
            SchemaStep(
                "UPDATE lw_sessions SET shape = 'round' WHERE shape IS NULL",
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lw_sessions WHERE shape IS NULL)",
            ),
            SchemaStep("CREATE TABLE lw_tidied (n INTEGER)", "SELECT 1 FROM sqlite_schema WHERE name = 'lw_tidied'"),
        ),
    ),
    Migration(version=LAST, before=(SchemaStep("CREATE TABLE lw_notes (n INTEGER)", HAS_NOTES),)),
)


def opened(path: Path, policy: SchemaPolicy, *, vfs: str | None = None) -> apsw.Connection:
    """The file, prepared for the future."""
    return prepare(DatabaseFile(str(path), "barrier", 10.0, vfs, LATER), policy)


def main() -> None:
    """Opens and closes; many of these may be started at once."""
    opened(Path(sys.argv[1]), SchemaPolicy(sys.argv[2])).close()


if __name__ == "__main__":
    main()
