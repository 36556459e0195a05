"""PostgreSQL, through asyncpg (extra `postgres`).

Owns: the DSN, the driver, what its errors mean. Must not know: sessions, batches.
Read next: `server.py` for the store, `postgres_statements.py` for its SQL.
"""

from __future__ import annotations

import importlib
import os
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from ..model.errors import (
    ConfigError,
    LoopwrightError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
    UsageError,
)
from .migration import complete_ddl
from .postgres_statements import PostgresStatements
from .server_address import server_address
from .server_dialect import PREFIX, Remedy, name_part, prefixed, text_in, text_out
from .server_socket import close_without_loop

# Without types of its own. Imported by name, so that the one place that needs it says so.
asyncpg: Any = importlib.import_module("asyncpg")

DEFAULT_PORT: Final = 5432
CONNECT_S: Final = 5.0
CLOSE_S: Final = 2.0
LOCK_WAIT_S: Final = 10

_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
"""Query parameters that name a file."""

_NO_TLS: Final = "rejected SSL upgrade"
"""How the driver says that what answered does not speak TLS, or is no PostgreSQL at all."""

_LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what the driver says of itself when a connection went in the middle of a pipeline
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    OSError,
)
_AGAIN: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
_TAKEN: Final = (
    asyncpg.UniqueViolationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,  # the administrator's statement_timeout: a quieter moment may be enough
)


class PostgresConnection:
    """One asyncpg connection behind the port."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        """See `ServerConnection.rows`."""
        found = await self._connection.fetch(statement, *[_value_in(value) for value in values])
        return [[text_out(value) if type(value) is str else value for value in row] for row in found]

    async def run(self, statement: str, *values: Any) -> None:
        """See `ServerConnection.run`."""
        await self._connection.execute(statement, *[_value_in(value) for value in values])

    async def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """See `ServerConnection.run_many`; pipelined, one round trip."""
        await self._connection.executemany(statement, [[_value_in(value) for value in row] for row in rows])

    async def foreign(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """See `ServerConnection.foreign`; marks are `$1`."""
        try:
            prepared = await self._connection.prepare(statement)
            rows = [tuple(row) for row in await prepared.fetch(*values)]
        except asyncpg.InterfaceError as error:
            if self._connection.is_closed():
                raise
            # Of a connection that is open the driver says so of a wrong use, such as a wrong number of values.
            raise UsageError(f"the driver refuses the statement: {error}") from error
        count = prepared.get_statusmsg().rpartition(" ")[2]
        return rows, int(count) if count.isdigit() else len(rows)

    async def listen(self, channel: str, heard: Callable[[], None], lost: Callable[[], None]) -> None:
        """Calls `heard` for each NOTIFY on the channel, and `lost` when the connection is gone."""

        def ended(_: Any) -> None:
            lost()

        def said(*_: Any) -> None:
            heard()

        self._connection.add_termination_listener(ended)
        await self._connection.add_listener(channel, said)

    async def close(self) -> None:
        """See `ServerConnection.close`."""
        try:
            await self._connection.close(timeout=CLOSE_S)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._connection.terminate()

    def terminate(self) -> None:
        """See `ServerConnection.terminate`."""
        transport = getattr(self._connection, "_transport", None)
        try:
            self._connection.terminate()
        except RuntimeError:
            close_without_loop(transport)


class PostgresDialect:
    """One database, one schema of it, one prefix of table names.

    `postgresql://user:password@host:port/database?prefix=lw_&schema=public`; other query parameters go to the driver.
    """

    def __init__(self, dsn: str) -> None:
        address = server_address(dsn)
        query = dict(address.query)
        prefix, self._schema = query.pop("prefix", PREFIX), query.pop("schema", "")
        for what, name in (("prefix", prefix), ("schema", self._schema)):
            if name:
                name_part(what, name)
        for what in _FILES:
            if what in query and not os.path.isfile(query[what]):
                raise ConfigError(f"{what} of the DSN names no file: {query[what]}")
        parts = urlsplit(dsn)
        self._dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
        where = query.get("host") or address.shown("localhost", DEFAULT_PORT)
        self._place = f"postgresql://{where}/{address.database}"
        self._identity = f"{self._place}?schema={self._schema or 'public'}&prefix={prefix}"
        self._statements = prefixed(PostgresStatements(), prefix)

    @property
    def place(self) -> str:
        """See `ServerDialect.place`."""
        return self._place

    @property
    def identity(self) -> str:
        """See `ServerDialect.identity`."""
        return self._identity

    @property
    def dump_program(self) -> str:
        """See `ServerDialect.dump_program`."""
        return "pg_dump"

    @property
    def statements(self) -> PostgresStatements:
        """See `ServerDialect.statements`."""
        return self._statements

    @property
    def native_faults(self) -> tuple[type[BaseException], ...]:
        """See `ServerDialect.native_faults`."""
        return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

    async def connect(self, *, sync: bool) -> PostgresConnection:
        """See `ServerDialect.connect`."""
        settings = {
            "application_name": "loopwright",
            "synchronous_commit": "on" if sync else "off",
            "plan_cache_mode": "force_generic_plan",
            "jit": "off",
            "default_transaction_isolation": "read committed",
            "lock_timeout": f"{LOCK_WAIT_S}s",
        }
        if self._schema:
            settings["search_path"] = self._schema
        native = await asyncpg.connect(self._dsn, timeout=CONNECT_S, server_settings=settings)
        encoding = native.get_settings().server_encoding
        if encoding != "UTF8":
            native.terminate()
            raise StoreSchemaError(
                f"{self._place} is encoded in {encoding}, which cannot hold every text; create a database with"
                " ENCODING 'UTF8' TEMPLATE template0"
            )
        return PostgresConnection(native)

    def fault(self, error: BaseException) -> Remedy:
        """See `ServerDialect.fault`."""
        if isinstance(error, _AGAIN):
            return Remedy.AGAIN
        if isinstance(error, _TAKEN):
            return Remedy.TAKEN
        if isinstance(error, asyncpg.ClientConfigurationError | ssl.SSLError) or _NO_TLS in str(error):
            return Remedy.FINAL
        return Remedy.LOST if isinstance(error, _LOST) else Remedy.FINAL

    def translate(self, error: BaseException) -> LoopwrightError:
        """See `ServerDialect.translate`."""
        place = self._place
        match error:
            case asyncpg.ClientConfigurationError():
                return ConfigError(f"{place}: {error}; change the DSN")
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return StoreError(f"{place} refuses this user: {error}; check user, password and sslmode in the DSN")
            case asyncpg.InvalidCatalogNameError() | asyncpg.InvalidSchemaNameError():
                return StoreSchemaError(f"{place}: {error}; create it first, or grant this user USAGE on the schema")
            case asyncpg.UndefinedObjectError() | asyncpg.CantChangeRuntimeParamError():
                return StoreError(
                    f"{place}: {error}; check the query parameters of the DSN (TLS is sslmode=require); PostgreSQL 12 or"
                    " newer is needed"
                )
            case asyncpg.InsufficientPrivilegeError():
                return StoreReadOnlyError(
                    f"{place}: {error}; grant this user the rights on our tables, or let their owner"
                    " run the DDL and open with schema VERIFY"
                )
            case asyncpg.ReadOnlySQLTransactionError():
                return StoreReadOnlyError(f"{place} only reads ({error}); name the primary server in the DSN")
            case asyncpg.DiskFullError():
                return StoreFullError(f"no space left on {place}; nothing was written; free space and resume")
            case asyncpg.InsufficientResourcesError():
                return StoreUnavailableError(
                    f"{place} lacks resources ({error}); nothing was written; raise its limits"
                )
            case asyncpg.UndefinedTableError() | asyncpg.UndefinedColumnError():
                return StoreSchemaError(
                    f"the tables of {place} do not fit this version, or this user may not use their schema ({error});"
                    " `loopwright db migrate` finds what is missing",
                    ddl=complete_ddl(self._statements.SCHEMA),
                )
            case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
                return StoreCorruptError(f"{place} is damaged ({error}); nothing was changed; restore a backup")
            case asyncpg.DataError() | asyncpg.ProgramLimitExceededError():
                return UsageError(f"a value cannot be stored in {place}: {error}; nothing was written")
            case ssl.SSLError():
                return StoreError(
                    f"{place}: {error}; check sslmode and sslrootcert in the DSN and the server's certificate"
                )
            case OSError() if _NO_TLS in str(error):
                return StoreError(
                    f"what answers at {place} speaks no TLS, or is no PostgreSQL server; check host, port and sslmode in"
                    " the DSN"
                )
            case OSError():
                return StoreUnavailableError(f"{place} cannot be reached: {error}")
            case _:
                return StoreError(f"{place}: {type(error).__name__}: {error}")


def _value_in(value: Any) -> Any:
    if isinstance(value, str):
        return text_in(value)
    if isinstance(value, list):
        return [_value_in(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value
