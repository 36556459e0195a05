"""The seam to looking after a store over years: figures, space, copies.

Owns: what an operator may ask of any store beside `store_admin.py`. Must not know: SQL, files' formats.
Read next: `store_transfer.py`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct


class StoreFigures(Struct, frozen=True, kw_only=True):
    """How much is stored, as of one moment."""

    records: int
    record_bytes: int
    """Of their bodies."""
    waiting_items: int
    known_items: int
    """Ids of inbox items that were taken or marked; kept for the life of their session."""
    timers: int
    """Armed ones."""
    paused_timers: int
    """Imported ones, which no worker fires."""
    artifacts: int
    artifact_bytes: int
    tombstones: int
    """Ids of deleted sessions, which are never used again."""
    forks: int = 0
    """Sessions that read the beginning of their journal from another one."""
    file_bytes: int | None = None
    """What the data takes on disk, where the store can say it."""
    free_bytes: int = 0
    """Part of it that `vacuum` would give back, as far as known."""
    log_bytes: int = 0
    """Beside it, in a log that was not yet copied into it."""
    schema_version: int | None = None
    cleanup: tuple[str, ...] = ()
    """Statements of finished migrations that `loopwright db migrate` would still run."""


class Reclaimed(Struct, frozen=True):
    """What an upkeep made of the size."""

    before: int
    """Bytes on disk, log included; 0 where the store cannot say it."""
    after: int


class StoreUpkeep(Protocol):
    """Figures, space and copies. Raises what every store call raises; see `Store`."""

    def figures(self) -> Awaitable[StoreFigures]:
        """Counts and sizes. Cost: reads all rows, though not on the event loop."""
        ...

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """Bytes that each session holds: bodies of its records and inbox items, and its artifacts.

        What a fork reads from its base is the base's.
        """
        ...

    def sweep_artifacts(self, older_than: float) -> Awaitable[int]:
        """Removes artifacts stored before `older_than` (UTC epoch seconds) that nothing of their session refers to, and
        what is left of artifacts that were never finished; answers how many.

        Something refers to an artifact when its id stands in a record, a waiting inbox item or a timer. One that is put
        again, or referred to, while this runs stays.
        """
        ...

    def vacuum(self) -> Awaitable[Reclaimed]:
        """Removes what deletions left and gives free space back to the system. Sessions go on meanwhile, perhaps waiting."""
        ...

    def checkpoint(self) -> Awaitable[Reclaimed]:
        """Copies the log into the data as far as no reader stands in the way; nothing where there is no log."""
        ...

    def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> Awaitable[int]:
        """A copy of one moment in the file `target`, while others write; answers its bytes.

        The copy opens by itself, passes `check`, and nobody holds a lease in it. It is there whole or not at all. Raises
        `ConfigError` when there is such a file and not `replace`, when somebody has it open, or when this kind of store
        has no file to copy (the error says what to use instead).
        """
        ...
