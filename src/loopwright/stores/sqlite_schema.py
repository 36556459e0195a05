"""Opening the database file: connections, journal mode, tables and their version.

Owns: how a connection is set up, `SchemaPolicy`, the retry while the file is locked. Must not know: sessions.
Read next: `sqlite_tables.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import apsw
from msgspec import Struct

from ..late import Late
from ..model.errors import ConfigError, StoreReadOnlyError, StoreSchemaError
from ..ports.schema_policy import SchemaPolicy
from ..ports.store import Durability
from .sqlite_faults import NATIVE_FAULTS, translate
from .sqlite_statements import IS_CURRENT

if TYPE_CHECKING:
    from . import sqlite_migrations as migrations
    from .migration import Migration
else:
    # A file that is as this version wants it, as nearly every one is, needs no migration.
    migrations = Late("loopwright.stores.sqlite_migrations")

T = TypeVar("T")

Execute: TypeAlias = Callable[..., Any]
"""`apsw.Cursor.execute` of one cursor: the only thing that most of the store needs of a connection."""

_RETRY_MIN_S: Final = 0.0001
_RETRY_MAX_S: Final = 0.0005


class DatabaseFile(Struct, frozen=True):
    """Where the database is and how it is opened."""

    path: str
    """Absolute."""
    durability: Durability
    busy_wait_s: float
    """How long a write may wait for other writers."""
    vfs: str | None
    """Name of a registered SQLite VFS; None for the system's own."""
    migrations: tuple[Migration, ...] | None = None
    """Other steps than this version's own."""

    @property
    def steps(self) -> tuple[Migration, ...]:
        """What leads older tables to the version that is wanted."""
        return migrations.MIGRATIONS if self.migrations is None else self.migrations

    def connect(self) -> apsw.Connection:
        """A connection that neither waits nor checkpoints by itself; may be used by one thread at a time."""
        connection = self.open()
        self.set_up(connection)
        return connection

    def open(self, *, create: bool = False) -> apsw.Connection:
        """A connection as the driver makes it."""
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        return apsw.Connection(self.path, flags=flags, vfs=self.vfs, statementcachesize=200)

    def set_up(self, connection: apsw.Connection) -> None:
        """Makes it a connection as `connect` promises it."""
        # The built-in busy handler backs off to 100 ms and starves: `retrying` waits instead. Checkpoints run in the
        # writer thread: one that a commit drags along would stop the event loop for as long as the disk needs.
        connection.set_busy_timeout(0)
        connection.wal_autocheckpoint(0)
        # Even a first look can find the file locked: whoever is first after a crash recovers the log alone.
        self.retrying(lambda: self._set_up(statements(connection)))

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Runs `attempt` again, with a small jitter, while another connection holds the lock; blocks the thread."""
        deadline = time.monotonic() + self.busy_wait_s
        while True:
            try:
                return attempt()
            except (apsw.BusyError, apsw.LockedError):
                if time.monotonic() >= deadline:
                    raise
            # The clock's last digits are chance enough to part two processes, and load nothing.
            chance = time.monotonic_ns() % 1000 / 1000
            time.sleep(_RETRY_MIN_S + chance * (_RETRY_MAX_S - _RETRY_MIN_S))

    def _set_up(self, execute: Execute) -> None:
        execute(f"PRAGMA synchronous = {'FULL' if self.durability == 'full' else 'NORMAL'}")
        execute("PRAGMA trusted_schema = OFF")
        execute("PRAGMA cache_size = -8192")


def statements(connection: apsw.Connection) -> Execute:
    """A new cursor's `execute`. Reusing it spares a cursor per statement; a new execution ends the one before."""
    # The one place where rows lose their types: what a statement answers is known where the statement is used.
    return cast(Execute, connection.cursor().execute)  # pyright: ignore[reportUnknownMemberType]


def shut(connection: apsw.Connection, *, as_killed: bool = False) -> None:
    """Closes a connection; `as_killed` leaves the log as a killed process leaves it.

    The last connection copies the log into the file when it closes. Where that fails the log simply stays: nothing is
    lost, and nobody could do anything about it here.
    """
    try:
        if as_killed:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
    except (apsw.Error, OSError):
        pass


def prepare(file: DatabaseFile, policy: SchemaPolicy) -> apsw.Connection:
    """Makes sure that the file is a writable database with our tables; answers the connection by which it did, since
    opening another one would read the schema again. Raises typed errors, then nothing was changed."""
    path, folder = file.path, os.path.dirname(file.path)
    if not os.path.isdir(folder):
        raise ConfigError(f"folder {folder} does not exist; create it, or give another path")
    if os.path.isdir(path):
        example = os.path.join(path, "loopwright.db")
        raise ConfigError(f"{path} is a folder; give the path of a database file, for example {example}")
    create = policy is not SchemaPolicy.VERIFY
    if not create and not os.path.exists(path):
        raise StoreSchemaError(
            f"{path} does not exist and schema is VERIFY; create it with this script", ddl=migrations.complete_ddl()
        )
    try:
        connection = file.open(create=create)
        try:
            file.retrying(lambda: _prepare(connection, file, policy))
            file.set_up(connection)
        except BaseException:
            shut(connection, as_killed=True)
            raise
        return connection
    except NATIVE_FAULTS as error:
        raise translate(error, file.path) from error


def _prepare(connection: apsw.Connection, file: DatabaseFile, policy: SchemaPolicy) -> None:
    """Every step may find the file locked by another process that opens it: then all is done again from the start."""
    create = policy is not SchemaPolicy.VERIFY
    connection.set_busy_timeout(0)
    # A first read: whatever is wrong with the file as such shows here.
    changes = statements(connection)("PRAGMA schema_version").fetchall()[0][0]
    if connection.readonly("main"):
        raise StoreReadOnlyError(f"{file.path} cannot be written; check owner and mode of file and folder")
    if create:
        # A commit writes whole pages, the journal's last one and the head's: half of SQLite's default is cheaper for
        # records up to 4 KB and costs nothing up to 8. No auto_vacuum: its pointer map would add a page to commits that
        # allocate, and free pages are reused anyway. Both do nothing to a database that exists already but cost time.
        if not changes:
            statements(connection)("PRAGMA page_size = 2048; PRAGMA auto_vacuum = NONE")
        statements(connection)("PRAGMA journal_mode = WAL").fetchall()
    repair = policy is SchemaPolicy.MIGRATE
    if not repair and file.migrations is None and _is_current(connection):
        return
    gap = migrations.gap_of(connection, file.path, file.steps)
    if gap.script:
        if gap.broken and not repair:
            raise StoreSchemaError(gap.broken, ddl=gap.ddl)
        if not create:
            raise StoreSchemaError(gap.lacking(file.path), ddl=gap.ddl)
        _run(connection, file, repair=repair)
    if repair:
        migrations.clean_up(connection, file.steps)


def _is_current(connection: apsw.Connection) -> bool:
    """True when nothing is missing; False says only that somebody has to look closer."""
    try:
        return statements(connection)(IS_CURRENT).fetchone() is not None
    except apsw.SQLError:  # a table or column is not there
        return False


def _run(connection: apsw.Connection, file: DatabaseFile, *, repair: bool) -> None:
    statements(connection)("BEGIN IMMEDIATE")
    try:
        # Another process may have been first: what is missing is asked again under the lock.
        gap = migrations.gap_of(connection, file.path, file.steps)
        if gap.broken and not repair:
            raise StoreSchemaError(gap.broken, ddl=gap.ddl)
        for statement in gap.script:
            statements(connection)(statement).fetchall()
        statements(connection)("COMMIT")
    except BaseException:
        if connection.in_transaction:
            statements(connection)("ROLLBACK")
        raise
