"""A future schema of servers, as a test may have it: two versions after the present one, given as a value.

Run as a program it prepares a database for them: `python -m tests.contract.stores.later_server_schema DSN POLICY`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from loopwright.ports.schema_policy import SchemaPolicy
from loopwright.stores.migration import Migration, SchemaStep
from loopwright.stores.mysql import MysqlDialect
from loopwright.stores.postgres import PostgresDialect
from loopwright.stores.postgres_statements import PostgresStatements
from loopwright.stores.server_dialect import ServerConnection, ServerDialect
from loopwright.stores.server_schema import ServerSchema

VERSION = PostgresStatements().SCHEMA.version
SO_FAR = list(range(1, VERSION + 1))
NEXT, LAST = VERSION + 1, VERSION + 2


def dialect_of(dsn: str) -> ServerDialect:
    """The server behind an address."""
    return PostgresDialect(dsn) if dsn.startswith("postgresql:") else MysqlDialect(dsn)


def later(dsn: str) -> tuple[Migration, ...]:
    """All migrations of the future on that server."""
    here = "current_schema()" if dsn.startswith("postgresql:") else "DATABASE()"
    table = f"SELECT 1 FROM information_schema.tables WHERE table_schema = {here} AND table_name = "
    column = f"SELECT 1 FROM information_schema.columns WHERE table_schema = {here} AND column_name = "
    return (
        *dialect_of(dsn).statements.MIGRATIONS,
        Migration(
            version=NEXT,
            before=(
                SchemaStep(
                    "ALTER TABLE lw_sessions ADD COLUMN colour VARCHAR(9) NOT NULL DEFAULT 'none'", f"{column}'colour'"
                ),
                SchemaStep("ALTER TABLE lw_sessions ADD COLUMN shape VARCHAR(9)", f"{column}'shape'"),
            ),
            after=(
                SchemaStep(
                    "UPDATE lw_sessions SET shape = 'round' WHERE shape IS NULL",
                    "SELECT 1 FROM lw_schema WHERE NOT EXISTS (SELECT 1 FROM lw_sessions WHERE shape IS NULL)",
                ),
                SchemaStep("CREATE TABLE lw_tidied (n INT)", f"{table}'lw_tidied'"),
            ),
        ),
        Migration(version=LAST, before=(SchemaStep("CREATE TABLE lw_notes (n INT)", f"{table}'lw_notes'"),)),
    )


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[ServerConnection]:
    """A connection of the store's own kind; nothing was looked at."""
    connection = await dialect_of(dsn).connect(sync=False)
    try:
        yield connection
    finally:
        await connection.close()


async def rows(dsn: str, statement: str, *values: Any) -> list[list[Any]]:
    """The rows of a statement."""
    async with connected(dsn) as connection:
        return [list(row) for row in await connection.rows(statement, *values)]


async def run(dsn: str, script: str) -> None:
    """Runs a script as an operator would."""
    async with connected(dsn) as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                await connection.run(statement)


async def prepared(dsn: str, policy: SchemaPolicy, migrations: Sequence[Migration] | None = None) -> ServerSchema:
    """The database, prepared for the future."""
    schema = ServerSchema(dialect_of(dsn), policy, later(dsn) if migrations is None else migrations)
    async with connected(dsn) as connection:
        await schema.prepare(connection)
    return schema


if __name__ == "__main__":
    asyncio.run(prepared(sys.argv[1], SchemaPolicy(sys.argv[2])))
