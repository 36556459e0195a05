"""A copy of a SQLite file as of one moment, while others write.

Owns: copying, checking the copy, putting it in its place whole or not at all. Must not know: event loops, sessions.
Read next: `sqlite_space.py`.
"""

from __future__ import annotations

import os

import apsw

from ..model.errors import ConfigError, StoreCorruptError
from . import sqlite_statements as sql
from .sqlite_faults import NATIVE_FAULTS, translate
from .sqlite_schema import DatabaseFile, shut, statements


def back_up(file: DatabaseFile, target: str, *, replace: bool) -> int:
    """See `StoreUpkeep.backup`. Blocks its thread."""
    _refuse(file, target, replace=replace)
    partial = f"{target}.{os.getpid()}.partial"
    try:
        _copy(file, partial)
        size = os.stat(partial).st_size
        _put_in_place(partial, target, replace=replace)
    except NATIVE_FAULTS as error:
        raise translate(error, partial) from error
    finally:
        for name in (partial, f"{partial}-journal", f"{partial}-wal", f"{partial}-shm"):
            if os.path.exists(name):
                os.unlink(name)
    return size


def _refuse(file: DatabaseFile, target: str, *, replace: bool) -> None:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise ConfigError(f"folder {folder} does not exist; create it, or give another path")
    if os.path.isdir(target):
        raise ConfigError(f"{target} is a folder; give the path of a file in it")
    if os.path.exists(target) and os.path.samefile(file.path, target):
        raise ConfigError(f"{target} is the store itself; give another path")
    if os.path.exists(f"{target}-wal"):
        raise ConfigError(
            f"there is a log {target}-wal, so a database {target} is in use or was not closed; give another path"
        )
    if os.path.exists(target) and not replace:
        raise _taken(target)


def _taken(target: str) -> ConfigError:
    return ConfigError(f"{target} exists and is not overwritten; give another path, or say that it may be (--force)")


def _copy(file: DatabaseFile, partial: str) -> None:
    source = file.connect()
    try:
        copy = apsw.Connection(partial, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        try:
            # In one step, which reads one snapshot: writers go on, and the copy need not begin anew behind them.
            with copy.backup("main", source, "main") as backup:
                file.retrying(lambda: backup.step(-1))
            execute = statements(copy)
            # One file without a log beside it, in which nobody holds a lease.
            execute("BEGIN")
            execute(sql.FORGET_LEASES)
            execute(sql.FORGET_ALL_OWNERS)
            execute("COMMIT")
            copy.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            damage = [line for (line,) in execute("PRAGMA quick_check") if line != "ok"]
            if damage:
                raise StoreCorruptError(
                    f"the copy of {file.path} is damaged ({damage[0]}) and was dropped; look at the store with"
                    " `loopwright db check`"
                )
        finally:
            shut(copy)
    finally:
        shut(source)
    handle = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(partial: str, target: str, *, replace: bool) -> None:
    if replace:
        os.replace(partial, target)
    else:
        try:
            os.link(partial, target)
        except FileExistsError as error:
            raise _taken(target) from error
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
