"""What a test asks a server itself, beside the store: statements over a connection of their own, and other addresses.

Owns: the one way from the tests to a server's SQL, and changing parts of a DSN. Must not know: stores, who runs the server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlsplit

import asyncmy
import asyncpg

CONNECT_S = 10


async def ask(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Runs statements, each for itself, on one connection that ends then; the rows of the last one."""
    if dsn.startswith("postgresql:"):
        return await _ask_postgres(dsn, statements)
    return await _ask_mysql(dsn, statements)


async def _ask_postgres(dsn: str, statements: tuple[str, ...]) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(dsn, timeout=CONNECT_S, ssl=False)
    rows: list[Any] = []
    try:
        for statement in statements:
            rows = await connection.fetch(statement)
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


async def _ask_mysql(dsn: str, statements: tuple[str, ...]) -> list[tuple[Any, ...]]:
    parts = urlsplit(dsn)
    connection = await asyncmy.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=parts.path[1:] or None,
        autocommit=True,
        connect_timeout=CONNECT_S,
    )
    rows: list[Any] = []
    try:
        async with connection.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
                rows = list(await cursor.fetchall())
    finally:
        connection.close()
    return rows


def changed(
    dsn: str, *, user: str = "", password: str = "", host: str = "", port: int = 0, database: str = "", query: str = ""
) -> str:
    """The address with these parts in the place of its own; without a password where none is given."""
    parts = urlsplit(dsn)
    secret = f":{quote(password, safe='')}" if password else ""
    where = f"{host or parts.hostname}:{port or parts.port}"
    name = database or parts.path[1:]
    return f"{parts.scheme}://{user or parts.username}{secret}@{where}/{name}{'?' + query if query else ''}"


def name_of(dsn: str) -> str:
    """The database of an address."""
    return urlsplit(dsn).path[1:]
