"""The store on PostgreSQL, which wakes its workers: a transaction that leaves work says so with NOTIFY.

Owns: the connection that listens, and what counts as heard. Must not know: who waits, what the work is.
What notifies is in `server_batch.py` and `server.py`; a notification that is lost costs a worker its pause and nothing else.
Read next: `ports/wake_source.py`.
"""

from __future__ import annotations

import asyncio
from typing import cast

from ..model.errors import StoreUnavailableError
from ..ports.store_admin import SchemaPolicy
from .postgres import PostgresConnection, PostgresDialect
from .server import ServerStore
from .server_dialect import ServerDialect


class Ear:
    """One connection that listens, made when somebody waits and made again after it was lost."""

    def __init__(self, dialect: PostgresDialect) -> None:
        self._dialect = dialect
        self._news = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._connection: PostgresConnection | None = None

    async def heard(self, timeout_s: float) -> None:
        """See `WakeSource.wait_for_work`. The first call returns once it listens: what came before was not heard."""
        if self._connection is None:
            await self._connected(timeout_s)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    async def close(self) -> None:
        """Says goodbye to the server."""
        connecting, connection = self._connecting, self._connection
        self._connecting = self._connection = None
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait([connecting])
        if connection is not None:
            await connection.close()

    def terminate(self) -> None:
        """Drops the connection at once; fit for another event loop afterwards."""
        connecting, connection = self._connecting, self._connection
        self._connecting = self._connection = None
        self._news = asyncio.Event()
        if connecting is not None and not connecting.get_loop().is_closed():
            connecting.cancel()
        if connection is not None:
            connection.terminate()

    async def _connected(self, timeout_s: float) -> None:
        """Connects in a task of its own, which goes on when nobody waits any longer."""
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._listen())
        connecting = self._connecting
        if not (await asyncio.wait([connecting], timeout=timeout_s))[0]:
            return
        if self._connecting is connecting:
            self._connecting = None
        connecting.result()

    async def _listen(self) -> None:
        try:
            connection = await self._dialect.connect(sync=False)
            try:
                channel = self._dialect.statements.CHANNEL
                await connection.listen(channel, self._news.set, lambda: self._lost(connection))
            except BaseException:
                connection.terminate()
                raise
        except self._dialect.native_faults as error:
            raise StoreUnavailableError(f"{self._dialect.place} cannot be listened to now: {error}") from error
        self._connection = connection

    def _lost(self, connection: PostgresConnection) -> None:
        """Wakes who waits: the next call connects again."""
        if self._connection is connection:
            self._connection = None
        self._news.set()


class PostgresStore(ServerStore):
    """`ServerStore` on PostgreSQL, with `WakeSource`. Takes one more connection while somebody waits for work."""

    def __init__(
        self,
        dialect: PostgresDialect,
        *,
        schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE,
        sync: bool = True,
        busy_wait_s: float = 10.0,
    ) -> None:
        # The Protocol's statements could be set, which frozen ones cannot; nobody sets them.
        super().__init__(cast("ServerDialect", dialect), schema=schema, sync=sync, busy_wait_s=busy_wait_s)
        self._ear = Ear(dialect)

    async def wait_for_work(self, timeout_s: float) -> None:
        """See `WakeSource.wait_for_work`."""
        self._binding.enter()
        await self._ear.heard(timeout_s)

    async def aclose(self) -> None:
        """See `ServerStore.aclose`."""
        await super().aclose()
        await self._ear.close()

    def abandon(self) -> None:
        """See `ServerStore.abandon`."""
        super().abandon()
        self._ear.terminate()

    def _forget(self) -> None:
        super()._forget()
        self._ear.terminate()
