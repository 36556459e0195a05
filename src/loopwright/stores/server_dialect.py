"""What a database server brings to a store: connections, statements, the meaning of its errors.

Owns: the Protocols that an adapter implements, and text that a server's text columns can hold. Must not know: any server.
Read next: `postgres.py` for an adapter, `server_batch.py` for who uses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct, structs

from ..model.errors import ConfigError, LoopwrightError

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
    renamed: dict[str, Any] = {}
    for name, value in structs.asdict(plain).items():
        texts = (value,) if isinstance(value, str) else value
        changed = tuple([text.replace(PREFIX, prefix) for text in texts])
        renamed[name] = changed[0] if isinstance(value, str) else changed
    return structs.replace(plain, **renamed)


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
    FINAL = "final"
    """Trying again would fail again."""


class Statements(Protocol):
    """The SQL of a dialect, by purpose; parameters stand in the order that `server_batch` and `server_reads` give them."""

    DDL: str
    TABLES: str
    VERSION: str
    NOTE_VERSION: str
    LOCK_SCHEMA: str
    UNLOCK_SCHEMA: str
    BEGIN: str
    COMMIT: str
    ROLLBACK: str
    BEGIN_READ: str
    COMMIT_PLAIN: str
    """See `server_plain.parameters`; empty where a server cannot do it."""
    HEADS_LOCKED: str
    GONE: str
    LEFT: str
    ITEMS: str
    WAITING_IDS: str
    CHILDREN: str
    KEYS: str
    INSERT_SESSION: str
    INSERT_RECORD: str
    MOVE_HEAD: str
    ORPHAN: str
    BURY: str
    DELETE_SESSION: str
    INSERT_ITEM: str
    TAKE_ITEM: str
    PUT_TIMER: str
    DROP_TIMER: str
    ARMED: str
    BEAT: str
    NOTIFY: str
    """Tells waiting workers, with the commit of this transaction; empty where a server cannot."""
    RELEASE: str
    FORGET_OWNER: str
    FORGET_OWNERS: str
    HEAD: str
    HEAD_AND_LEFT: str
    RECORDS: str
    WAITING: str
    ITEM_POSITION: str
    LIST: str
    INTERRUPTED: str
    DUE: str
    RENEWED: str
    OF_KINDS: str
    ARTIFACT: str
    BEGIN_ARTIFACT: str
    ARTIFACT_STATE: str
    ARTIFACT_ROW: str
    FINISH_ARTIFACT: str
    ARTIFACT_ROWS: str
    UNSWEPT: str
    SWEEP: tuple[str, ...]
    SWEPT: str
    LEFT_OVER: tuple[str, ...]
    GAPS: str
    HEADS_ASTRAY: str


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
