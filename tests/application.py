"""The application's own tables, in the database in which a store keeps its sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import asyncmy
import asyncpg
import pytest
from tests.servers import client

KINDS = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.server),
    pytest.param("mariadb", marks=pytest.mark.server),
]
"""The stores that carry out what tools want done with their results."""


class Application:
    """One database of an application."""

    def __init__(self, kind: str, dsn: str) -> None:
        self.kind = kind
        self.dsn = dsn

    def marks(self, count: int) -> str:
        """`count` marks for values, as this database writes them."""
        return ", ".join({"sqlite": "?", "postgres": f"${n}", "mariadb": "%s"}[self.kind] for n in range(1, count + 1))

    async def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements; each is committed."""
        rows: Sequence[Any] = ()
        if self.kind == "sqlite":
            rows = self.ask_file(*statements)
        elif self.kind == "postgres":
            server = await asyncpg.connect(self.dsn)
            for statement in statements:
                rows = await server.fetch(statement)
            await server.close()
        else:
            rows = await self._ask_mariadb(statements)
        return [tuple(row) for row in rows]

    def ask_file(self, *statements: str) -> list[tuple[Any, ...]]:
        """`ask` for SQLite, also where an event loop is not at hand."""
        rows: list[tuple[Any, ...]] = []
        connection = apsw.Connection(self.dsn)
        connection.set_busy_timeout(10_000)
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        connection.close()
        return rows

    async def _ask_mariadb(self, statements: Sequence[str]) -> Sequence[Any]:
        parts = urlsplit(self.dsn)
        server = await asyncmy.connect(
            host=parts.hostname, port=parts.port, user=parts.username, database=parts.path[1:], autocommit=True
        )
        rows: Sequence[Any] = ()
        async with server.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
                rows = await cursor.fetchall() or ()
        await server.ensure_closed()
        return rows


@contextmanager
def application(kind: str, folder: Path) -> Iterator[Application]:
    """A new one: a file in `folder`, or a database on the server that all tests share."""
    if kind == "sqlite":
        yield Application(kind, str(folder / "app.db"))
        return
    with client.shared(kind).database() as dsn:
        yield Application(kind, dsn)
