"""Where the store is: the file behind `--db`, opening it, and why that cannot be done.

Owns: the default place, that looking makes nothing, the option that other commands on the same store need.
Must not know: sessions, models. Read next: `agent_setup.py`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..late import Late
from ..model.errors import ConfigError, StoreReadOnlyError
from ..ports.sealing import SealedStore
from ..ports.store_admin import SchemaPolicy, SessionStore
from ..stores.dsn import open_store

if TYPE_CHECKING:
    from ..stores import encrypted, sqlite, static_keys
else:
    encrypted = Late("loopwright.stores.encrypted")
    sqlite = Late("loopwright.stores.sqlite")
    static_keys = Late("loopwright.stores.static_keys")

DB_VARIABLE: Final = "LOOPWRIGHT_DB"
"""Names the store where `--db` does not: a password in it stands in no list of processes and in no shell history."""

DEFAULT_DB: Final = os.path.join(".loopwright", "sessions.db")

COPY_IT: Final = (
    "looking needs a writable store, too: copy the file, with the -wal file beside it if there is one,"
    " into a folder of yours and name the copy with --db"
)


def db_option(db: str) -> str:
    """` --db …` for the lines that say what to type next; "" where nothing needs to be said. A password stands in none."""
    return "" if db in (DEFAULT_DB, os.environ.get(DB_VARIABLE)) else f" --db {shlex.quote(_masked(db, ':PASSWORD'))}"


def option_of_store(store: SessionStore) -> str:
    """` --db …` for a store that a host's function opened; a word to be replaced where only the function knows it."""
    opened = store.sealed if isinstance(store, SealedStore) else store
    if not isinstance(opened, sqlite.SqliteStore):
        return " --db STORE"
    path = os.path.relpath(opened.path)
    return db_option(opened.path if path.startswith(os.pardir) else path)


def file_of(db: str) -> Path | None:
    """The file behind `--db`; None when it is not one."""
    path = db.removeprefix("sqlite:///")
    if path in ("", ":memory:") or (path == db and ":" in db.partition("/")[0]):
        return None
    return Path(path)


def missing_file(db: str) -> Path | None:
    """The file in which the store would be, when there is none."""
    path = file_of(db)
    return None if path is None or os.path.exists(path) else path


def shown(db: str) -> str:
    """`--db` as it is shown: a path without detours, an address without its password."""
    path = file_of(db)
    return _masked(db, "") if path is None else os.path.normpath(path)


def _masked(db: str, password: str) -> str:
    """An address with another text in the place of its password, also where characters of it should have been escaped."""
    scheme, slashes, rest = db.partition("://")
    access, at, where = rest.rpartition("@")
    user, colon, _ = access.partition(":")
    masked = f"{scheme}{slashes}{user}{password if colon else ''}{at}{where}" if slashes else db
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1PASSWORD", masked)


def check_there(db: str) -> None:
    """Raises: `ConfigError` when there is no store."""
    if missing_file(db) is not None:
        path = missing_file(db)
        if path is not None and (why := why_not_made(db, path)):
            raise ConfigError(f"no store at {shown(db)}, and none can be made there: {why}; --db names another")
        raise ConfigError(f"no store at {shown(db)}; `loopwright run{db_option(db)}` makes one, --db names another")


def store_at(db: str, schema: SchemaPolicy) -> SessionStore:
    """Opens the store; errors name its file without detours. With keys in the environment it is an encrypted one."""
    seal = _encryption(os.environ)  # before anything is made
    path = file_of(db)
    store = open_store(db if path is None else os.path.realpath(path), schema=schema)
    return store if seal is None else seal(store)


def _encryption(env: Mapping[str, str]) -> Callable[[SessionStore], SessionStore] | None:
    """What makes an encrypted store of one; None without keys. Raises `ConfigError`."""
    keys = static_keys.StaticKeys.from_environment(env)
    if keys is None:
        return None
    if (plain := env.get(static_keys.PLAIN) or "refuse") not in ("refuse", "read"):
        raise ConfigError(f"{static_keys.PLAIN} is {plain!r}; it is refuse or read")
    return functools.partial(encrypted.EncryptedStore, keys=keys, plain="read" if plain == "read" else "refuse")


@asynccontextmanager
async def opened_store(db: str) -> AsyncGenerator[SessionStore]:
    """The store for looking at: neither made nor migrated.

    Raises: `ConfigError` when there is none; `StoreReadOnlyError`, which says what to do instead.
    """
    check_there(db)
    try:
        store = store_at(db, SchemaPolicy.VERIFY)
    except StoreReadOnlyError as error:
        raise StoreReadOnlyError(f"{error}; {COPY_IT}") from error
    try:
        yield store
    finally:
        await store.aclose()


def made_store(db: str) -> SessionStore:
    """The store, made when missing; of folders only that of the default store.

    Raises: `StoreReadOnlyError` when that folder cannot be made, and what `open_store` raises.
    """
    if db == DEFAULT_DB:
        folder = os.path.abspath(os.path.dirname(DEFAULT_DB))
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise StoreReadOnlyError(
                f"the store's folder {folder} cannot be made ({error.strerror}); name another store with --db"
            ) from error
    return store_at(db, SchemaPolicy.AUTO_CREATE)


def why_not_made(db: str, path: Path) -> str:
    """Why `made_store` could not make the missing file; "" when it could."""
    folder = os.path.realpath(path.parent)
    if db == DEFAULT_DB and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.exists(folder):
        return f"folder {folder} does not exist"
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"folder {folder} cannot be written"
