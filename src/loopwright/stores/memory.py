"""The store without a disk: the model of correctness that every other store is compared with.

Owns: the promises of `ports/store.py` in plain Python, data in this process by name. Must not know: SQL, files.
Read next: `memory_rules.py`, where a transition is applied, then `sqlite.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..late import Late
from ..model.errors import ConfigError, StoreUnavailableError
from ..ports.artifact import Artifact
from ..ports.ledger import BudgetAccount
from ..ports.store import (
    Claimable,
    ClaimQuery,
    Committed,
    DueTimer,
    Enqueued,
    Head,
    InboxItem,
    Lookup,
    NewSession,
    Op,
    SessionQuery,
    StoredRecord,
    Transition,
)
from ..ports.store_admin import StoreProblem, UncertainCall
from ..ports.store_transfer import Inventory, SessionImage
from ..ports.store_upkeep import Reclaimed, StoreFigures
from . import ownership
from .binding import LoopBinding
from .effect_ledger import LEDGER_KINDS, uncertain_calls
from .memory_artifacts import MemoryArtifacts
from .memory_data import SharedData
from .memory_rules import MemoryRules
from .memory_whole import MemoryWhole

if TYPE_CHECKING:
    from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
    from ..ports.memory_index import MemoryEntry, MemoryHit
    from . import memory_boards, memory_entries
else:
    memory_boards = Late("loopwright.stores.memory_boards")
    memory_entries = Late("loopwright.stores.memory_entries")

T = TypeVar("T")

_named: Final[dict[str, SharedData]] = {}


_IN_A_THREAD: Final = 256 * 1024
"""Bytes of an artifact from which on its digest is not made on the event loop."""


class MemoryStore:
    """Sessions of this process. Stores of one name share their data until the process ends; without a name it is private."""

    def __init__(self, name: str = "") -> None:
        self._owner = ownership.new_owner()
        self._data = _named.setdefault(name, SharedData()) if name else SharedData()
        self._identity = f"memory:{name or self._owner}"
        self._rules = MemoryRules(self._data, self._owner)
        self._artifacts = MemoryArtifacts(self._data)
        self._whole = MemoryWhole(self._data)
        self._offered: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._binding = LoopBinding(f"store {self._identity}", self._offered.clear)

    @property
    def identity(self) -> str:
        """The name of the data."""
        return self._identity

    @property
    def owner(self) -> str:
        """Process id and a random part."""
        return self._owner

    def create(self, session: NewSession) -> Awaitable[Head]:
        """See `Store.create`."""
        return self._offer(lambda: self._rules.create(session))

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        """See `Store.commit`."""
        return self._offer(lambda: self._rules.commit(transition))

    def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Awaitable[Sequence[StoredRecord]]:
        """See `Store.read`."""
        return self._offer(lambda: self._rules.read(session_id, after, limit))

    def lookup(self, session_id: str, *, item_id: str | None = None) -> Awaitable[Lookup]:
        """See `Store.lookup`."""
        return self._offer(lambda: self._rules.lookup(session_id, item_id))

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        """See `Store.enqueue`."""
        return self._offer(lambda: self._rules.enqueue(session_id, item, ops))

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        """See `Store.claim`."""
        return self._offer(lambda: self._rules.claim(query))

    async def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """See `Store.renew`."""
        self._binding.check()
        with self._data.lock:
            return self._rules.renew(session_ids, ttl_s)

    def list(self, query: SessionQuery) -> Awaitable[Sequence[Head]]:
        """See `Store.list`."""
        return self._offer(lambda: self._rules.list(query))

    async def put_artifact(
        self, session_id: str, data: bytes, media_type: str, *, digest: str | None = None
    ) -> Artifact:
        """See `ArtifactStore.put_artifact`."""
        name = digest or await _digest(data)
        return await self._offer(lambda: self._artifacts.put_artifact(session_id, bytes(data), media_type, name))

    def read_artifact(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> Awaitable[bytes]:
        """See `ArtifactStore.read_artifact`."""
        return self._offer(lambda: self._artifacts.read_artifact(artifact_id, offset, limit))

    def artifact(self, artifact_id: str) -> Awaitable[Artifact | None]:
        """See `ArtifactStore.artifact`."""
        return self._offer(lambda: self._artifacts.artifact(artifact_id))

    def budget(self, key: str) -> Awaitable[BudgetAccount]:
        """See `Ledger.budget`."""
        return self._offer(lambda: self._data.money.account(key))

    def budgets(self, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[BudgetAccount]]:
        """See `Ledger.budgets`."""
        return self._offer(lambda: self._data.money.listed(after, limit))

    def put_memory(self, entry: MemoryEntry, *, keep: int | None = None) -> Awaitable[None]:
        """See `MemoryIndex.put_memory`."""
        return self._offer(lambda: memory_entries.put(self._data, entry, keep))

    def drop_memory(self, namespace: str, memory_id: str) -> Awaitable[bool]:
        """See `MemoryIndex.drop_memory`."""
        return self._offer(lambda: memory_entries.drop(self._data, namespace, memory_id))

    def search_memories(self, namespace: str, query: str, limit: int = 10) -> Awaitable[Sequence[MemoryHit]]:
        """See `MemoryIndex.search_memories`. Looks through all entries of the namespace."""
        return self._offer(lambda: memory_entries.search(self._data, namespace, query, limit))

    def list_memories(
        self, namespace: str, *, limit: int = 100, behind: MemoryEntry | None = None
    ) -> Awaitable[Sequence[MemoryEntry]]:
        """See `MemoryIndex.list_memories`."""
        return self._offer(lambda: memory_entries.newest(self._data, namespace, limit, behind))

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.post_entry`."""
        return self._offer(lambda: memory_boards.posted(self._data, post, policy))

    def read_board(self, board_id: str, *, kind: str | None = None, after: int = 0) -> Awaitable[Sequence[BoardEntry]]:
        """See `Board.read_board`."""
        return self._offer(lambda: memory_boards.read(self._data, board_id, kind, after))

    def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.update_entry`."""
        return self._offer(lambda: memory_boards.updated(self._data, change, policy))

    def remove_entry(self, board_id: str, entry_id: int, *, version: int | None = None) -> Awaitable[bool]:
        """See `Board.remove_entry`."""
        return self._offer(lambda: memory_boards.removed(self._data, board_id, entry_id, version))

    def drop_board(self, board_id: str) -> Awaitable[int]:
        """See `Board.drop_board`."""
        return self._offer(lambda: memory_boards.drop(self._data, board_id))

    def ddl(self) -> str:
        """Nothing: there are no tables."""
        return ""

    def check(self) -> Awaitable[Sequence[StoreProblem]]:
        """See `StoreAdmin.check`; memory has no damage to find."""
        return self._offer(lambda: ())

    def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> Awaitable[int]:
        """See `StoreAdmin.delete`."""
        return self._offer(lambda: self._rules.delete(session_id, cascade, copy_to_forks))

    def timers(self, session_id: str) -> Awaitable[Sequence[DueTimer]]:
        """See `StoreAdmin.timers`."""
        return self._offer(lambda: self._rules.timers(session_id))

    def uncertain_calls(self) -> Awaitable[Sequence[UncertainCall]]:
        """See `StoreAdmin.uncertain_calls`."""
        return self._offer(lambda: uncertain_calls(self._rules.records_of_kinds(LEDGER_KINDS)))

    def figures(self) -> Awaitable[StoreFigures]:
        """See `StoreUpkeep.figures`; there is no file, and so no size of it."""
        return self._offer(self._whole.figures)

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """See `StoreUpkeep.session_sizes`."""
        return self._offer(self._whole.session_sizes)

    def sweep_artifacts(self, older_than: float) -> Awaitable[int]:
        """See `StoreUpkeep.sweep_artifacts`."""
        return self._offer(lambda: self._whole.sweep_artifacts(older_than))

    def vacuum(self) -> Awaitable[Reclaimed]:
        """Nothing: the interpreter takes back what is free."""
        return self._offer(lambda: Reclaimed(0, 0))

    def checkpoint(self) -> Awaitable[Reclaimed]:
        """Nothing: there is no log."""
        return self._offer(lambda: Reclaimed(0, 0))

    async def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> int:
        """Raises `ConfigError`: there is no file."""
        self._binding.enter()
        raise ConfigError("a store in memory has no file to copy; export its sessions (`loopwright db export`)")

    def inventory(self, session_id: str) -> Awaitable[Inventory]:
        """See `StoreTransfer.inventory`."""
        return self._offer(lambda: self._whole.inventory(session_id, self._rules.lookup(session_id, None)))

    def restore(self, image: SessionImage) -> Awaitable[Head]:
        """See `StoreTransfer.restore`."""
        return self._offer(lambda: self._whole.restore(image))

    async def aclose(self) -> None:
        """Finishes what was offered and gives up this owner's leases; safe to call twice."""
        if self._binding.closed:
            return
        self._binding.enter()
        self._flush()
        self._binding.closed = True
        with self._data.lock:
            self._rules.release_all()

    def abandon(self) -> None:
        """Closes as a killed process would; offered calls fail."""
        self._binding.closed = True
        ownership.abandon(self._owner)
        offered = self._offered.copy()
        self._offered.clear()
        for _, future in offered:
            if not future.done():
                future.set_exception(StoreUnavailableError(f"store {self._identity} was abandoned"))

    def _offer(self, action: Callable[[], T]) -> asyncio.Future[T]:
        # Applied at the end of the tick, like every store does it, so that no caller comes to rely on an await that
        # does not let other tasks run.
        loop = self._binding.enter()
        future: asyncio.Future[T] = loop.create_future()
        if not self._offered:
            loop.call_soon(self._flush)
        self._offered.append((action, future))
        return future

    def _flush(self) -> None:
        offered = self._offered.copy()
        self._offered.clear()
        with self._data.lock:
            for action, future in offered:
                if future.done():
                    continue
                try:
                    future.set_result(action())
                except Exception as error:  # noqa: BLE001 - not swallowed: it is raised where the call is awaited
                    future.set_exception(error)


async def _digest(data: bytes) -> str:
    if len(data) < _IN_A_THREAD:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
