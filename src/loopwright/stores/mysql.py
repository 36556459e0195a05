"""MySQL 8 and MariaDB from 10.6 on, through asyncmy (extra `mysql`).

Owns: the DSN, the driver, what its errors mean. Must not know: sessions, batches.
Read next: `server.py` for the store, `mysql_text.py` for how values travel, `mysql_statements.py` for its SQL.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import ssl
import struct
from collections.abc import Sequence
from typing import Any, Final

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
from .mysql_statements import MysqlStatements
from .mysql_text import filled, filled_many
from .server_address import server_address
from .server_dialect import PREFIX, Remedy, name_part, prefixed, text_out
from .server_socket import close_without_loop

# Its types say Any where it matters. Imported by name, so that the one place that needs it says so.
asyncmy: Any = importlib.import_module("asyncmy")
errors: Any = importlib.import_module("asyncmy.errors")

log = logging.getLogger("loopwright.stores")

DEFAULT_PORT: Final = 3306
CONNECT_S: Final = 5.0
CLOSE_S: Final = 2.0
LOCK_WAIT_S: Final = 10
OLDEST: Final = {"MariaDB": (10, 6), "MySQL": (8, 0)}

_SETUP: Final = (
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin;"
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',"
    f" innodb_lock_wait_timeout = {LOCK_WAIT_S}, sql_select_limit = 18446744073709551615, sql_big_selects = 1,"
    " sql_safe_updates = 0, sql_auto_is_null = 0, unique_checks = 1, foreign_key_checks = 1, completion_type = 0;"
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
)
_ASK: Final = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@max_allowed_packet"

_LOST: Final = frozenset({
    1040,  # too many connections
    1053,  # server shutdown in progress
    1077, 1079, 1080,  # shutdown
    1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184,  # the network
    1203, 1226,  # too many connections of this user
    1927,  # connection was killed
    2002, 2003, 2006, 2013, 2014, 2027, 2055,
    4031,  # disconnected for being idle
})  # fmt: skip
_AGAIN: Final = frozenset({
    1020,  # record has changed since last read
    1213,  # deadlock
    1317,  # query was interrupted
})  # fmt: skip
_TAKEN: Final = frozenset({
    1062,  # duplicate key
    1205,  # lock wait timeout
    1969, 3024,  # the administrator's limit on a statement's time: a quieter moment may be enough
    3572,  # lock not available
})  # fmt: skip


_GARBLED: Final = (struct.error, LookupError, ValueError, AssertionError)
"""What the driver raises when it reads something that is no greeting of a MySQL server."""


class MysqlConnection:
    """One asyncmy connection behind the port."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.largest = 0
        """The longest text of a statement that the server takes, in bytes; 0 as long as it is not known."""

    async def rows(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        """See `ServerConnection.rows`."""
        found = await self._sent(filled(statement, values))
        return [[text_out(value) if type(value) is str else value for value in row] for row in found]

    async def run(self, statement: str, *values: Any) -> None:
        """See `ServerConnection.run`."""
        await self._sent(filled(statement, values))

    async def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """See `ServerConnection.run_many`; one round trip for each megabyte."""
        for text in filled_many(statement, rows, self.largest):
            await self._sent(text)

    async def foreign(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """See `ServerConnection.foreign`; marks are `%s`."""
        async with self._connection.cursor() as cursor:
            text = cursor.mogrify(statement, tuple(values)) if values else statement
            self._check_size(len(text.encode()))
            await cursor.execute(text)
            return [tuple(row) for row in await cursor.fetchall() or ()], cursor.rowcount

    async def close(self) -> None:
        """See `ServerConnection.close`."""
        try:
            await asyncio.wait_for(self._connection.ensure_closed(), CLOSE_S)
        except (errors.MySQLError, OSError, TimeoutError):
            self.terminate()

    def terminate(self) -> None:
        """See `ServerConnection.terminate`."""
        transport = getattr(self._connection, "_transport", None)
        try:
            self._connection.close()
        except RuntimeError:
            close_without_loop(transport)

    async def _sent(self, text: bytes) -> Sequence[Sequence[Any]]:
        """The rows of the first statement in `text`; the answers of all are waited for."""
        self._check_size(len(text))
        async with self._connection.cursor() as cursor:
            await cursor.execute(text)
            found: Sequence[Sequence[Any]] = await cursor.fetchall()
            while await cursor.nextset():
                pass
        return found

    def _check_size(self, size: int) -> None:
        if 0 < self.largest <= size:
            raise StoreError(
                f"a value needs a statement of {size} bytes, and the server takes {self.largest};"
                " nothing was written; raise max_allowed_packet on the server"
            )


class MysqlDialect:
    """One database, one prefix of table names.

    `mysql://user:password@host:port/database?prefix=lw_`; `unix_socket=/path` instead of host and port, `ssl=true` for a
    connection with a checked certificate.
    """

    def __init__(self, dsn: str) -> None:
        address = server_address(dsn)
        query = dict(address.query)
        prefix, self._socket = query.pop("prefix", PREFIX), query.pop("unix_socket", None)
        encrypted = query.pop("ssl", "false").lower()
        name_part("prefix", prefix)
        if query or encrypted not in {"true", "false"}:
            odd = ", ".join(sorted(query)) or "another value of ssl"
            raise ConfigError(f"a MySQL DSN takes prefix, unix_socket and ssl=true or ssl=false, not {odd}")
        (host, port), *others = address.places
        if others:
            raise ConfigError("a MySQL DSN names one host")
        self._ssl = ssl.create_default_context() if encrypted == "true" else None
        self._host, self._port = host or "127.0.0.1", port or DEFAULT_PORT
        self._user, self._password = address.user or "root", address.password
        self._database = address.database
        where = self._socket or address.shown("127.0.0.1", DEFAULT_PORT)
        self._place = f"mysql://{where}/{self._database}"
        self._identity = f"{self._place}?prefix={prefix}"
        self._statements = prefixed(MysqlStatements(), prefix)
        self._warned = False

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
        return "mariadb-dump or mysqldump"

    @property
    def statements(self) -> MysqlStatements:
        """See `ServerDialect.statements`."""
        return self._statements

    @property
    def native_faults(self) -> tuple[type[BaseException], ...]:
        """See `ServerDialect.native_faults`."""
        return (errors.MySQLError, OSError, EOFError, TimeoutError)

    async def connect(self, *, sync: bool) -> MysqlConnection:
        """See `ServerDialect.connect`. Whether commits reach the disk is a setting of the whole server."""
        # The driver's own limit ends with the network connection: what answers may say nothing, or half a greeting.
        async with asyncio.timeout(CONNECT_S):
            connection = MysqlConnection(await self._greeted())
            try:
                await connection.run(_SETUP)
                ((version, flushed, connection.largest),) = await connection.rows(_ASK)
                self._check(str(version), synced=flushed == 1 or not sync)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def fault(self, error: BaseException) -> Remedy:
        """See `ServerDialect.fault`."""
        if isinstance(error, OSError | EOFError | TimeoutError | errors.InterfaceError | errors.InternalError):
            return Remedy.LOST
        if isinstance(error.__cause__, ssl.SSLError):
            return Remedy.FINAL
        code = _code(error)
        if code in _AGAIN:
            return Remedy.AGAIN
        if code in _TAKEN:
            return Remedy.TAKEN
        return Remedy.LOST if code in _LOST else Remedy.FINAL

    def translate(self, error: BaseException) -> LoopwrightError:
        """See `ServerDialect.translate`."""
        place = self._place
        match _code(error):
            case 1044 | 1045 | 1129 | 1130 | 1251 | 1698 | 1820 | 1862 | 3118 | 4151:
                return StoreError(
                    f"{place} refuses this user: {error}; check user, password and rights on the database"
                )
            case 1049:
                return StoreSchemaError(f"{place}: {error}; create it first")
            case 1142 | 1143 | 1227:
                return StoreReadOnlyError(
                    f"{place}: {error}; grant this user the rights on our tables, or let their owner"
                    " run the DDL and open with schema VERIFY"
                )
            case 1290 | 1792 | 1836:
                return StoreReadOnlyError(f"{place} only reads ({error}); name the primary server in the DSN")
            case 1021 | 1114:
                return StoreFullError(f"no space left on {place}; nothing was written; free space and resume")
            case 1054 | 1146:
                return StoreSchemaError(
                    f"the tables of {place} do not fit this version ({error}); `loopwright db migrate` finds what is missing",
                    ddl=complete_ddl(self._statements.SCHEMA),
                )
            case 1153:
                return StoreError(f"{place}: {error}; nothing was written; raise max_allowed_packet on the server")
            case 126 | 127 | 1034 | 1194 | 1195 | 1712 | 1877:
                return StoreCorruptError(f"{place} is damaged ({error}); nothing was changed; restore a backup")
            case 1264 | 1366 | 1406:
                return UsageError(f"a value cannot be stored in {place}: {error}; nothing was written")
            case _ if isinstance(error.__cause__, ssl.SSLError):
                return StoreError(f"{place}: {error}; check ssl in the DSN, the server's TLS and its certificate")
            case _ if isinstance(error, OSError):
                return StoreUnavailableError(f"{place} cannot be reached: {error}")
            case _:
                return StoreError(f"{place}: {type(error).__name__}: {error}")

    async def _greeted(self) -> Any:
        try:
            return await asyncmy.connect(
                host=self._host,
                port=self._port,
                unix_socket=self._socket,
                user=self._user,
                password=self._password,
                database=self._database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=CONNECT_S,
                program_name="loopwright",
                ssl=self._ssl,
            )
        except _GARBLED as error:
            raise ConnectionError(f"what answers there is no MySQL server ({type(error).__name__}: {error})") from error

    def _check(self, version: str, *, synced: bool) -> None:
        kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
        numbers = re.findall(r"\d+", version.removeprefix("5.5.5-"))
        if tuple(map(int, numbers[:2])) < OLDEST[kind]:
            raise ConfigError(f"{self._place} is {kind} {version}; this store needs MySQL 8.0 or MariaDB 10.6 or newer")
        if not synced and not self._warned:
            self._warned = True
            log.warning(
                "%s has innodb_flush_log_at_trx_commit other than 1: a power failure may lose the newest commits",
                self._place,
            )


def _code(error: BaseException) -> int:
    """The server's or driver's number of an error; 0 when it has none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0
