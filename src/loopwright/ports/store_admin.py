"""The seam to what operators do with a store, outside of runs.

Owns: opening and closing, deletion, checks. Must not know: SQL.
Read next: `store_upkeep.py`, `store_transfer.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from .artifact import ArtifactStore
from .board import Board
from .ledger import Ledger
from .memory_index import MemoryIndex
from .schema_policy import SchemaPolicy as SchemaPolicy
from .store import DueTimer, Store
from .store_transfer import StoreTransfer
from .store_upkeep import StoreUpkeep


class UncertainCall(Struct, frozen=True):
    """A `once` call that was started and whose outcome nobody knows."""

    session_id: str
    position: int
    """Where its `tool_started` record is."""
    call_id: str
    name: str
    arguments: dict[str, Any]
    idempotency_key: str
    started_at: float
    told: bool
    """True when the model was told already that it may or may not have happened."""


class StoreProblem(Struct, frozen=True):
    """One finding of `check`."""

    session_id: str | None
    what: str
    todo: str


class StoreAdmin(Protocol):
    """Opening, closing and looking after a store."""

    def ddl(self) -> str:
        """The complete, idempotent script that makes the tables of this version."""
        ...

    def check(self) -> Awaitable[Sequence[StoreProblem]]:
        """Looks for damage in tables and journals' numbering; changes nothing."""
        ...

    def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> Awaitable[int]:
        """Tombstones the session (and linked and ephemeral descendants), fencing any writer, then removes its rows.

        Returns how many sessions went. Detached children stay and lose their parent. Its id is never used again. Money
        that a session holds counts as spent: nobody can say any more that it was not.
        Raises `SessionReferencedError`, and nothing went, when forks that would stay read one of them; with
        `copy_to_forks` they get what they read of it first, records and artifacts, in the same commit.
        """
        ...

    def timers(self, session_id: str) -> Awaitable[Sequence[DueTimer]]:
        """Timers that are armed in one session, by due time; paused ones not.

        Raises `SessionNotFoundError`, `SessionGoneError`.
        """
        ...

    def uncertain_calls(self) -> Awaitable[Sequence[UncertainCall]]:
        """All started `once` calls without a known outcome, oldest first."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Finishes offered transitions, gives up this owner's leases, checkpoints and closes; safe to call twice."""
        ...

    def abandon(self) -> None:
        """Closes as a killed process would: nothing is flushed or released. For crash tests."""
        ...


class SessionStore(Store, ArtifactStore, MemoryIndex, Ledger, Board, StoreAdmin, StoreUpkeep, StoreTransfer, Protocol):
    """What `open_store` returns: everything a shipped store can do."""
