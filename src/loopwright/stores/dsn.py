"""Which store a DSN means.

Owns: the schemes and their spelling. Must not know: how any store works; a store's driver is imported when its scheme is
asked for, not before.
Read next: `sqlite.py`, `memory.py`.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from ..model.errors import ConfigError, StoreReadOnlyError
from ..ports.schema_policy import SchemaPolicy
from ..ports.store import Durability

if TYPE_CHECKING:
    from ..ports.store_admin import SessionStore

# A scheme has two letters or more, so that a drive letter stays a path.
_SCHEME: Final = r"(?s)([A-Za-z][A-Za-z0-9.+-]+):(.*)"

_ADAPTERS: Final = {
    "memory": ("loopwright.stores.memory", "MemoryStore"),
    "sqlite": ("loopwright.stores.sqlite", "SqliteStore"),
}

_SERVERS: Final = {
    "postgres": ("loopwright.stores.postgres", "PostgresDialect", "postgres"),
    "postgresql": ("loopwright.stores.postgres", "PostgresDialect", "postgres"),
    "mysql": ("loopwright.stores.mysql", "MysqlDialect", "mysql"),
    "mariadb": ("loopwright.stores.mysql", "MysqlDialect", "mysql"),
}
"""Scheme → (module, class, the extra that installs its driver)."""

_STORES: Final = {
    "postgres": ("loopwright.stores.postgres_wake", "PostgresStore"),
    "mysql": ("loopwright.stores.server", "ServerStore"),
}
"""Extra → (module, class of the store)."""

_KNOWN: Final = "a path, sqlite:///relative, sqlite:////absolute, postgresql://host/database, mysql://host/database, memory:, memory:name"


BUSY_WAIT_S: Final = 10.0
"""How long a write waits when nobody says otherwise."""


def default_path() -> str:
    """Where sessions are kept when nothing else is said; the folder is made. Raises `StoreReadOnlyError`."""
    try:
        os.makedirs(".loopwright", exist_ok=True)
    except OSError as error:
        where = os.path.join(os.getcwd(), ".loopwright")
        raise StoreReadOnlyError(
            f"{where} cannot be made ({error.strerror}); pass dsn= for a place of your own"
        ) from error
    return os.path.join(".loopwright", "sessions.db")


def open_store(
    dsn: str | os.PathLike[str],
    *,
    schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE,
    durability: Durability = "barrier",
    busy_wait_s: float = BUSY_WAIT_S,
) -> SessionStore:
    """The store behind `dsn`, opened and checked at once; close it with `await store.aclose()`.

    A bare path or `sqlite:///relative/path` or `sqlite:////absolute/path` is a file, made when missing; `memory:` is
    private to the returned object, `memory:name` is shared by that name in this process. `durability` says which commits
    reach the disk before they are acknowledged: "barrier" those that the engine marks, "full" all, "relaxed" none (a
    killed process still loses nothing, a power failure may). `busy_wait_s`: how long a write waits for other processes, and
    any call for a server that is away.
    Raises `ConfigError` for a DSN that means nothing, `StoreSchemaError`, `StoreCorruptError`, `StoreReadOnlyError`,
    `StoreUnavailableError`; nothing was changed then.
    """
    _check_settings(durability, busy_wait_s)
    text = os.fspath(dsn)
    scheme, rest = _split(text)
    if scheme == "memory":
        private: SessionStore = _adapter(scheme)(rest)
        return private
    if scheme == "sqlite":
        store: SessionStore = _adapter(scheme)(rest, schema=schema, durability=durability, busy_wait_s=busy_wait_s)
        return store
    if scheme in _SERVERS:
        dialect = _dialect(scheme, f"{scheme}:{rest}")
        module, name = _STORES[_SERVERS[scheme][2]]
        server: SessionStore = getattr(_late(module), name)(
            dialect, schema=schema, sync=durability != "relaxed", busy_wait_s=busy_wait_s
        )
        return server
    # Not the text itself: what is mistaken for a scheme may stand before a password.
    raise ConfigError(f"unknown store scheme {scheme!r}; use {_KNOWN}; for a file of that name put ./ before it")


def is_server(dsn: str) -> bool:
    """Whether the data of `dsn` is on a server, whose files and log are the server's own business."""
    return _split(dsn)[0] in _SERVERS


def _check_settings(durability: str, busy_wait_s: float) -> None:
    problems: list[str] = []
    if durability not in {"relaxed", "barrier", "full"}:
        problems.append(f"durability is {durability!r}; it is relaxed, barrier or full")
    if busy_wait_s < 0:
        problems.append(f"busy_wait_s is {busy_wait_s}; it is 0 or more seconds")
    if problems:
        raise ConfigError(problems)


def _split(text: str) -> tuple[str, str]:
    """Scheme and what it applies to; a bare path has the scheme sqlite."""
    if text in {"", "sqlite://", "sqlite:///"}:
        raise ConfigError(f"the store DSN {text!r} names no file; use {_KNOWN}")
    if text in {":memory:", "sqlite://:memory:", "sqlite:///:memory:"}:
        return "memory", ""
    # Compiling the pattern takes longer than all else here, and most paths have no colon.
    match = re.fullmatch(_SCHEME, text) if ":" in text else None
    if match is None and "://" in text:
        raise ConfigError(  # not the text itself, which may hold a password
            f"the store DSN does not begin with its scheme (a space or quote before it?); use {_KNOWN};"
            " for a file of that name put sqlite:/// before it"
        )
    if match is None:
        return "sqlite", text
    # `scheme+driver` is what other libraries write; which driver is used is not the caller's concern here.
    scheme, rest = match[1].lower().partition("+")[0], match[2]
    if scheme == "sqlite":
        if not rest.startswith("///"):
            raise ConfigError(
                "a path follows after three slashes: sqlite:///relative or sqlite:////absolute; a file has no host"
            )
        return scheme, rest[3:]
    if scheme == "memory":
        return scheme, rest.removeprefix("//")
    return scheme, rest


def _adapter(scheme: str) -> Any:
    module, name = _ADAPTERS[scheme]
    return getattr(_late(module), name)


def _dialect(scheme: str, dsn: str) -> Any:
    module, name, extra = _SERVERS[scheme]
    try:
        dialect = getattr(_late(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("loopwright"):
            raise
        raise ConfigError(
            f"{scheme}: needs {error.name}; pip install 'loopwright[{extra}]' (from a clone: pip install '.[{extra}]')"
        ) from error
    return dialect(dsn)


def _late(module: str) -> Any:
    return importlib.import_module(module)
