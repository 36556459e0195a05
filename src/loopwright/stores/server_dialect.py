"""What a database server brings to a store: connections, statements, the meaning of its errors.

Owns: the Protocols that an adapter implements, and text that a server's text columns can hold. Must not know: any server.
Read next: `postgres.py` for an adapter, `server_batch.py` for who uses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from ..model.errors import ConfigError, LoopwrightError
from .migration import Migration, SchemaWords

S = TypeVar("S", bound=Struct)

PREFIX: Final = "lw_"
"""What the names of all tables begin with, unless a DSN says otherwise."""

_NAME: Final = re.compile("[a-z_][a-z0-9_]{0,40}")
_ODD: Final = re.compile("[\x00\x1a\ud800-\udfff]")
_MARKED: Final = re.compile("\x1a([0-9a-f]{4})")


def text_in(value: str) -> str:
    """The text as a server takes it: NUL and lone surrogates, which none takes, are written as U+001A and four hex digits."""
    return _ODD.sub(lambda found: f"\x1a{ord(found[0]):04x}", value) if _ODD.search(value) else value


def text_out(value: str) -> str:
    """What `text_in` was given."""
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), value) if "\x1a" in value else value


def name_part(what: str, value: str) -> str:
    """A prefix or schema of a DSN, which stands unquoted in every statement. Raises `ConfigError`."""
    if not _NAME.fullmatch(value):
        raise ConfigError(f"{what} {value!r} must be lower-case letters, digits and underscores")
    return value


def prefixed(plain: S, prefix: str) -> S:
    """The statements with tables whose names begin with `prefix`."""
    if prefix == PREFIX:
        return plain
    renamed: S = _renamed(plain, prefix)
    return renamed


def _renamed(value: Any, prefix: str) -> Any:
    match value:
        case str():
            return value.replace(PREFIX, prefix)
        case tuple():
            return tuple([_renamed(one, prefix) for one in value])  # pyright: ignore[reportUnknownVariableType]
        case Struct():
            return type(value)(**{name: _renamed(getattr(value, name), prefix) for name in value.__struct_fields__})
        case _:
            return value


class ServerConnection(Protocol):
    """One connection, used by one task at a time. Parameters and rows hold int, float, str, bytes, None and lists of str or int;
    text goes through `text_in` and `text_out`. A cancelled call leaves a connection that only `terminate` may be called on."""

    async def rows(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        """All rows of a statement."""
        ...

    async def run(self, statement: str, *values: Any) -> None:
        """A statement without rows; without values also a script of several."""
        ...

    async def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for each of `rows`, in as few round trips as the protocol allows."""
        ...

    async def foreign(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """One statement of somebody else, with marks and values as the driver has them and nothing escaped by us: all its
        rows, and how many it changed or else answered."""
        ...

    async def close(self) -> None:
        """Says goodbye to the server; bounded in time."""
        ...

    def terminate(self) -> None:
        """Drops the connection at once, whatever is under way."""
        ...


class Remedy(Enum):
    """What may be done after an error."""

    LOST = "lost"
    """The connection is gone, or the server refuses new ones for now: connect again."""
    AGAIN = "again"
    """The transaction lost against another one and was rolled back: try again."""
    TAKEN = "taken"
    """A key or a lock is somebody else's: tried again where it is about our own rows."""
    FINAL = "final"
    """Trying again would fail again."""


class MemoryStatements(Struct, frozen=True, kw_only=True):
    """The SQL of memories."""

    PUT: str
    """Namespace, id, time, body, vector, names of words between spaces."""
    THERE: str
    """Locks it."""
    DROP: str
    TRIM: str
    """Namespace, and how many entries are newer than what goes, less one."""
    NEWEST: str
    """Namespace, time and id of the entry before, limit."""
    SEARCH: str
    """Namespace, its name as a word, names of words between spaces, limit: entries with any of them, more or less the best."""


class BoardStatements(Struct, frozen=True, kw_only=True):
    """The SQL of boards."""

    ADD: str
    """A board that is not there yet; locks one that is."""
    LOCKED: str
    COUNT: str
    ROWS: str
    """Board, entry id, key: all rows, with the body of the one that has this id or key."""
    READ: str
    INSERT: str
    CHANGE: str
    REMOVE: str
    DROP: str


class Statements(Protocol):
    """The SQL of a dialect, by purpose; parameters stand in the order that `server_batch` and `server_reads` give them."""

    SCHEMA: SchemaWords
    MIGRATIONS: tuple[Migration, ...]
    TABLES: str
    """The names of all our tables and indexes that are there, or more."""
    VERSION: str
    UNCLEANED: str
    CLEANED: str
    LOCK_SCHEMA: str
    UNLOCK_SCHEMA: str
    BEGIN: str
    BEGIN_DURABLE: str
    """Its commit reaches the disk, whatever the connection is set to."""
    COMMIT: str
    ROLLBACK: str
    BEGIN_READ: str
    WORK_BEGIN: str
    """Bounds each statement of a tool's work by `server_work.LIMIT_S`."""
    WORK_DONE: str
    """After work that went well: what the database would only check at the commit is checked now."""
    WORK_OVER: str
    """Undoes `WORK_BEGIN`, also after a failure; empty where the end of the transaction does."""
    COMMIT_PLAIN: str
    """See `server_plain.parameters`; empty where a server cannot do it."""
    HEADS_LOCKED: str
    GONE: str
    LEFT: str
    ITEMS: str
    WAITING_IDS: str
    CHILDREN: str
    READERS: str
    """Who reads the journals of these sessions or holds their artifacts as well."""
    KEYS: str
    INSERT_SESSION: str
    INSERT_RECORD: str
    MOVE_HEAD: str
    ORPHAN: str
    REBASE: str
    COPY_RECORDS: str
    SHARE_ARTIFACTS: str
    HEIRS: str
    PASS_ON: str
    DROP_SHARE: str
    BURY: str
    DELETE_SESSION: str
    INSERT_ITEM: str
    TAKE_ITEM: str
    PUT_TIMER: str
    DROP_TIMER: str
    ARMED: str
    HOLDS_LOCKED: str
    HOLDS_OF_LOCKED: str
    """The holds of these sessions."""
    HOLD_CAPS: str
    ADD_BUDGET: str
    BUDGETS_LOCKED: str
    SET_BUDGET: str
    INSERT_HOLD: str
    INSERT_HOLD_CAP: str
    DROP_HOLDS: str
    DROP_HOLD_CAPS: str
    BEAT: str
    NOTIFY: str
    """Tells waiting workers, with the commit of this transaction; empty where a server cannot."""
    RELEASE: str
    FORGET_OWNER: str
    FORGET_OWNERS: str
    HEAD: str
    CHAIN: str
    """A session and the links below it that have positions from one on; not more links than servers follow at once."""
    HEAD_AND_LEFT: str
    RECORDS: str
    WAITING: str
    ITEM_POSITION: str
    LIST: str
    INTERRUPTED: str
    DUE: str
    """Timers that are due and not paused, of those with which one name stands."""
    NEXT_DUE: str
    RENEWED: str
    BUDGET: str
    BUDGETS: str
    OF_KINDS: str
    ARTIFACT: str
    BEGIN_ARTIFACT: str
    ARTIFACT_STATE: str
    ARTIFACTS_ASTRAY: str
    IS_ARTIFACT_ASTRAY: str
    REOPEN_ARTIFACT: str
    DROP_ROWS_FROM: str
    ARTIFACT_ROW: str
    FINISH_ARTIFACT: str
    ARTIFACT_ROWS: str
    UNSWEPT: str
    SWEEP: tuple[str, ...]
    SWEPT: str
    LEFT_OVER: tuple[str, ...]
    GAPS: str
    FORKS_ASTRAY: str
    HEADS_ASTRAY: str
    BUDGETS_ASTRAY: str
    STRAYS: str
    FIGURES: str
    DISK: str
    """Bytes of our tables on disk, and how many of them are known to be free."""
    SIZES: str
    STAMP_ARTIFACTS: str
    OLD_ARTIFACTS: str
    NAMING_ARTIFACTS: str
    REFERS: str
    HIDE_ARTIFACT: str
    HIDDEN_LOCKED: str
    SWEEP_HIDDEN_ROWS: str
    ARTIFACT_ROW_LEFT: str
    SWEEP_HIDDEN: str
    VACUUM: tuple[str, ...]
    """Each a statement outside of transactions, while others read and write."""
    KNOWN_ITEMS: str
    TIMERS: str
    ARTIFACTS_OF: str
    OWNERS_OF: str
    RESTORE_TIMER: str
    MEMORIES: MemoryStatements
    BOARDS: BoardStatements


class ServerDialect(Protocol):
    """One kind of server at one address."""

    @property
    def place(self) -> str:
        """The address as a person knows it, without a password."""
        ...

    @property
    def identity(self) -> str:
        """Equal for two dialect objects exactly when they reach the same tables, as far as their DSNs say."""
        ...

    @property
    def dump_program(self) -> str:
        """What copies a database of this kind."""
        ...

    @property
    def statements(self) -> Statements:
        """The SQL, with table names as they are here."""
        ...

    @property
    def native_faults(self) -> tuple[type[BaseException], ...]:
        """What its driver raises."""
        ...

    async def connect(self, *, sync: bool) -> ServerConnection:
        """A new connection, set up; `sync` says whether its commits reach the disk before they are acknowledged."""
        ...

    def fault(self, error: BaseException) -> Remedy:
        """What may be done after this native fault."""
        ...

    def translate(self, error: BaseException) -> LoopwrightError:
        """The error to raise instead, saying what to do."""
        ...
