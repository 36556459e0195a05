"""Cutting every connection that this library has to a server."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncmy
import asyncpg


async def cut_all(dsn: str) -> None:
    """Ends the sessions of this library in the database of `dsn`, wherever they are in what they do."""
    await (_cut_postgres if dsn.startswith("postgresql:") else _cut_mysql)(dsn)


async def _cut_postgres(dsn: str) -> None:
    admin = await asyncpg.connect(dsn)
    try:
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'loopwright' AND datname = current_database()"
        )
    finally:
        await admin.close()


async def _cut_mysql(dsn: str) -> None:
    parts = urlsplit(dsn)
    database = parts.path.strip("/")
    # In no database, so that it is not among those.
    admin = await asyncmy.connect(host=parts.hostname, port=parts.port, user=parts.username, autocommit=True)
    try:
        async with admin.cursor() as cursor:
            await cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (database,))
            for (number,) in await cursor.fetchall():
                try:
                    await cursor.execute(f"KILL CONNECTION {number}")
                except asyncmy.errors.MySQLError:
                    pass  # it is gone by itself
    finally:
        admin.close()
