"""What operators do with a store on a server, and what they ask of its money: which call runs on which connection.

Owns: `StoreUpkeep`, `StoreTransfer` and `Ledger` of `ServerStore`. Must not know: SQL, any server.
Read next: `server_space.py`, `server_transfer.py`; `server.py` for the connections.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ..model.errors import ConfigError
from ..ports.ledger import BudgetAccount
from ..ports.store import DueTimer, Head
from ..ports.store_transfer import Inventory, SessionImage
from ..ports.store_upkeep import Reclaimed, StoreFigures
from . import server_money, server_space, server_transfer
from .server_dialect import ServerConnection, ServerDialect
from .server_schema import ServerSchema

T = TypeVar("T")


class ServerUpkeep(ABC):
    """Upkeep and transfer over three kinds of connection, which the store brings."""

    def __init__(self, dialect: ServerDialect, schema: ServerSchema) -> None:
        self._dialect = dialect
        self._schema = schema

    @abstractmethod
    def _reading_does(self, work: Callable[[ServerConnection], Awaitable[T]]) -> Awaitable[T]:
        """On the connection that reads."""

    @abstractmethod
    def _job(self, job: Callable[[ServerConnection], Awaitable[Any]]) -> Awaitable[Any]:
        """On the connection that writes, in line with commits; done again from its start after a lost connection."""

    @abstractmethod
    async def _aside(self, work: Callable[[ServerConnection], Awaitable[T]]) -> T:
        """On a connection of its own, for what takes long."""

    @abstractmethod
    async def _sweep_deleted(self) -> None:
        """Removes what deletions left."""

    def figures(self) -> Awaitable[StoreFigures]:
        """See `StoreUpkeep.figures`."""

        async def read(connection: ServerConnection) -> StoreFigures:
            left = [one for _, steps in await self._schema.cleanup(connection) for one in steps]
            return await server_space.figures(connection, self._dialect.statements, left)

        return self._reading_does(read)

    def timers(self, session_id: str) -> Awaitable[Sequence[DueTimer]]:
        """See `StoreAdmin.timers`."""
        return self._reading_does(
            lambda connection: server_transfer.armed(connection, self._dialect.statements, session_id)
        )

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """See `StoreUpkeep.session_sizes`."""
        return self._reading_does(lambda connection: server_space.session_sizes(connection, self._dialect.statements))

    async def sweep_artifacts(self, older_than: float) -> int:
        """See `StoreUpkeep.sweep_artifacts`. Ages are by the server's clock."""
        sql = self._dialect.statements
        await self._job(lambda connection: connection.run(sql.STAMP_ARTIFACTS))
        count = 0
        for one in await self._aside(lambda connection: server_space.spare_artifacts(connection, sql, older_than)):
            # One short transaction each, so that commits get their turn between them.
            if await self._job(partial(server_space.hide_artifact, one, older_than, sql)):
                count += 1
                while await self._job(partial(server_space.remove_hidden, one, older_than, sql)):
                    pass
        return count

    async def vacuum(self) -> Reclaimed:
        """See `StoreUpkeep.vacuum`. By the server's own command for tables that are in use."""
        await self._sweep_deleted()
        return await self._aside(partial(server_space.vacuum, self._dialect.statements))

    async def checkpoint(self) -> Reclaimed:
        """See `StoreUpkeep.checkpoint`: does nothing, since the server's log is the server's own business."""
        size = await self._reading_does(partial(server_space.size_on_disk, self._dialect.statements))
        return Reclaimed(size, size)

    async def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> int:
        """Raises `ConfigError`: the server's own tools copy it. No file is made or touched."""
        del target, replace
        raise ConfigError(
            f"{self._dialect.place} is on a server, which has no file to copy: use {self._dialect.dump_program} for the"
            " database, or `loopwright db export` for sessions"
        )

    def budget(self, key: str) -> Awaitable[BudgetAccount]:
        """See `Ledger.budget`."""
        return self._reading_does(lambda connection: server_money.budget(connection, self._dialect.statements, key))

    def budgets(self, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[BudgetAccount]]:
        """See `Ledger.budgets`."""
        sql = self._dialect.statements
        return self._reading_does(lambda connection: server_money.budgets(connection, sql, after, limit))

    def inventory(self, session_id: str) -> Awaitable[Inventory]:
        """See `StoreTransfer.inventory`."""
        sql = self._dialect.statements
        return self._reading_does(lambda connection: server_transfer.inventory(connection, sql, session_id))

    def restore(self, image: SessionImage) -> Awaitable[Head]:
        """See `StoreTransfer.restore`. One transaction, in which commits wait for it."""
        asked: list[Head] = []
        return self._job(partial(server_transfer.restore, image, asked, self._dialect.statements))
