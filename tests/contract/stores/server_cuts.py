"""Cutting every connection that this library has to a server."""

from __future__ import annotations

import asyncpg


async def cut_all(dsn: str) -> None:
    """Ends the sessions of this library on the server of `dsn`, wherever they are in what they do."""
    admin = await asyncpg.connect(dsn)
    try:
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'loopwright' AND datname = current_database()"
        )
    finally:
        await admin.close()
