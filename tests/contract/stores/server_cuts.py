"""Cutting every connection that this library has to a server."""

from __future__ import annotations

import asyncmy
from tests.servers.asking import ask, changed, name_of


async def cut_all(dsn: str) -> None:
    """Ends the sessions of this library in the database of `dsn`, wherever they are in what they do."""
    await (_cut_postgres if dsn.startswith("postgresql:") else _cut_mysql)(dsn)


async def _cut_postgres(dsn: str) -> None:
    await ask(
        dsn,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'loopwright' AND datname = current_database()",
    )


async def _cut_mysql(dsn: str) -> None:
    # In another database, so that it is not among those.
    admin = changed(dsn, database="mysql")
    for (number,) in await ask(admin, f"SELECT id FROM information_schema.processlist WHERE db = '{name_of(dsn)}'"):
        try:
            await ask(admin, f"KILL CONNECTION {number}")
        except asyncmy.errors.MySQLError:
            pass  # it is gone by itself
