"""One connection to a server, made when it is needed and made again when it is lost.

Owns: connecting, trying again, one user at a time. Must not know: sessions.
Read next: `server.py`, `server_schema.py` for what the first connection looks at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from ..model.errors import LoopwrightError, StoreError, StoreUnavailableError
from ..ports.ambient import RealAmbient
from .server_dialect import Remedy, ServerConnection, ServerDialect, Statements
from .server_schema import ServerSchema

T = TypeVar("T")

FIRST_WAIT_S: Final = 0.02
LAST_WAIT_S: Final = 0.5


class ServerLine:
    """Gives its connection to one piece of work after the other."""

    def __init__(self, dialect: ServerDialect, schema: ServerSchema, *, sync: bool, patience_s: float) -> None:
        self._dialect = dialect
        self._schema = schema
        self._sync = sync
        self._patience_s = patience_s
        self._connection: ServerConnection | None = None
        self._lock = asyncio.Lock()
        self._ambient = RealAmbient()

    @property
    def was_reached(self) -> bool:
        """Whether it had a connection to tables of ours at any time."""
        return self._schema.is_prepared

    async def do(self, work: Callable[[ServerConnection], Awaitable[T]]) -> T:
        """The result of `work`, done again from its start after a lost connection or a lost race, up to the patience.

        Raises: `StoreUnavailableError` when the server stayed away, else what the dialect makes of the fault.
        """
        began, wait_s = self._ambient.monotonic(), FIRST_WAIT_S
        while True:
            try:
                async with self._lock:
                    return await self._on_connection(work)
            except self._dialect.native_faults as error:
                fault = self._dialect.fault(error)
                if fault is Remedy.FINAL:
                    raise self._dialect.translate(error) from error
                if self._ambient.monotonic() - began + wait_s > self._patience_s:
                    raise StoreUnavailableError(
                        f"{self._dialect.place} stayed away or busy for {self._patience_s:g} s"
                        f" ({type(error).__name__}: {str(error) or 'no answer'}); whether the last commit happened is known to the next read;"
                        " see that the server runs, answers at this address and has a connection left, then call again"
                    ) from error
            await self._ambient.sleep(wait_s * (0.5 + self._ambient.random()))
            wait_s = min(wait_s * 2, LAST_WAIT_S)

    async def close(self) -> None:
        """Waits for the work under way and says goodbye."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    def terminate(self) -> None:
        """Drops the connection, whatever is under way."""
        connection, self._connection = self._connection, None
        self._lock = asyncio.Lock()
        if connection is not None:
            connection.terminate()

    async def _on_connection(self, work: Callable[[ServerConnection], Awaitable[T]]) -> T:
        connection = self._connection
        if connection is None:
            connection = self._connection = await self._connected()
        try:
            return await work(connection)
        except StoreError:
            self._drop(connection)
            raise
        except LoopwrightError:
            raise
        except self._dialect.native_faults as error:
            if self._dialect.fault(error) in (Remedy.AGAIN, Remedy.TAKEN):
                await self._rolled_back(connection)
            else:
                # Also after a fault for a person to mend: most settings of a server count for new connections only, and
                # a name may lead to another server by then.
                self._drop(connection)
            raise
        except BaseException:
            self._drop(connection)  # half an answer may be on its way
            raise

    async def _connected(self) -> ServerConnection:
        connection = await self._dialect.connect(sync=self._sync)
        try:
            await self._schema.prepare(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _rolled_back(self, connection: ServerConnection) -> None:
        try:
            await connection.run(self._dialect.statements.ROLLBACK)
        except self._dialect.native_faults:
            self._drop(connection)

    def _drop(self, connection: ServerConnection) -> None:
        if self._connection is connection:
            self._connection = None
        connection.terminate()


@asynccontextmanager
async def transaction(connection: ServerConnection, begin: str, sql: Statements) -> AsyncGenerator[None]:
    """A transaction that is committed at the block's end and rolled back by an error of ours; others are the line's."""
    await connection.run(begin)
    try:
        yield
    except LoopwrightError:
        await connection.run(sql.ROLLBACK)
        raise
    await connection.run(sql.COMMIT)
