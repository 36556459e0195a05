"""What went wrong in SQLite, as an error of ours that says what to do.

Owns: the mapping from `apsw` errors to the error tree. Must not know: which call failed.
Read next: `sqlite_worker.py`.
"""

from __future__ import annotations

import os

import apsw

from ..model.errors import (
    InvariantError,
    LoopwrightError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
    StoreSchemaError,
    StoreUnavailableError,
    UsageError,
)

NATIVE_FAULTS = (apsw.Error, OSError, MemoryError, UnicodeError, OverflowError)
"""What a statement can raise; anything else is a fault of ours and is not translated."""


def translate(error: BaseException, path: str) -> LoopwrightError:
    """The error to raise `from error`; nothing that belonged to the failed transaction was written."""
    match error:
        case LoopwrightError():
            return error
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailableError(
                f"{path} stayed locked by another connection for longer than busy_wait_s; nothing was written;"
                " look for a process that holds a write transaction open"
            )
        case apsw.FullError():
            return StoreFullError(f"no space left for {path}; nothing was written; free space and resume")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnlyError(f"{path} cannot be written ({error}); check owner and mode of file and folder")
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError() | UnicodeDecodeError():
            return StoreCorruptError(
                f"{path} is not a database or is damaged ({error}); nothing was changed; restore a backup, or save what can"
                " be read with the sqlite3 shell's .recover"
            )
        case apsw.CantOpenError():
            return _cannot_open(error, path)
        case apsw.SQLError() | apsw.SchemaChangeError():
            return StoreSchemaError(f"the tables of {path} do not fit this version: {error}")
        case apsw.ConstraintError() | apsw.MismatchError() | apsw.MisuseError() | apsw.RangeError():
            return InvariantError(f"{path} refused a statement: {error}")
        case apsw.TooBigError() | UnicodeEncodeError() | OverflowError():
            return UsageError(f"a value cannot be stored: {error}; nothing was written")
        case _:
            return StoreUnavailableError(
                f"{path} could not be read or written ({type(error).__name__}: {error}); whether the last commit happened"
                " is known to the next read; check the disk"
            )


def _writable(folder: str) -> bool:
    """As the user that the process is now, where the system can say that."""
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _cannot_open(error: BaseException, path: str) -> LoopwrightError:
    folder = os.path.dirname(path)
    if os.path.isdir(folder) and not _writable(folder):
        return StoreReadOnlyError(
            f"folder {folder} cannot be written, and the database needs files beside it ({error})"
        )
    return StoreUnavailableError(f"{path} cannot be opened: {error}; check that folder and file exist and are yours")
