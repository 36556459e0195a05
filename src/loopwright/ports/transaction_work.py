"""The seam for work inside the transaction that records a tool's result.

Owns: the cursor that such work gets, and the optional Protocol of a store that can do it. Must not know: any database.
Read next: `RunInside` in `store.py`, `ToolContext.on_commit` in `tool.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable


class TransactionCursor(Protocol):
    """Statements in a transaction that somebody else begins and ends; a DB-API cursor fits as well.

    Statements and values are as the database has them: marks are `?` in SQLite, `$1` in PostgreSQL, `%s` in MySQL.
    Refused: what ends the transaction, changes the schema or a setting, or touches the tables of sessions.
    A statement that fails fails the whole work, also when the error is caught. After the work the cursor is dead.
    """

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed, or else answered; MySQL counts no row that had the values already."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = ()) -> object:
        """One statement; its rows are there at once."""
        ...

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> object:
        """One statement for each of `rows`; `rowcount` is their sum."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row of the last statement, or None."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows of the last statement that were not fetched yet."""
        ...


OnCommit: TypeAlias = Callable[[TransactionCursor], object]
"""Synchronous work inside a transaction; what it answers is not used.

It may be called again when its transaction could not be committed; what the earlier calls wrote is then gone.
It runs in the event loop's thread or in another one, while others wait for the store: no event loop, no waiting, no
input or output but the cursor's. Any exception undoes the transaction; an answer to await or a generator is one.
"""


@runtime_checkable
class TransactionHost(Protocol):
    """What a store implements that carries out `RunInside`; with another one `on_commit` is refused."""

    @property
    def on_commit_limit_s(self) -> float:
        """How long all the work of one transition may take; after that it is undone."""
        ...
