"""Sessions in one SQLite file: the default store.

Owns: the public class; which call runs on the loop's connection, in the writer thread or in the reader thread.
Must not know: statements, rows, retries.
Read next: `sqlite_group.py` (group commit), `sqlite_writes.py` (the guarded statements), `sqlite_reads.py`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from ..late import Late
from ..model.errors import LoopwrightError, StoreUnavailableError
from ..ports.schema_policy import SchemaPolicy
from ..ports.settling import Settling
from ..ports.store import (
    Claimable,
    ClaimQuery,
    Committed,
    DropSession,
    DueTimer,
    Durability,
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
from . import ownership, sqlite_reads
from .binding import LoopBinding
from .sqlite_commits import CommitConnection, Offer, release
from .sqlite_faults import NATIVE_FAULTS, translate
from .sqlite_group import GroupCommit
from .sqlite_renewal import Renewal
from .sqlite_schema import DatabaseFile, Execute, prepare
from .sqlite_worker import SqliteWorker
from .sqlite_writes import SqliteWrites

if TYPE_CHECKING:
    import hashlib

    from ..ports.artifact import Artifact
    from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
    from ..ports.ledger import BudgetAccount
    from ..ports.memory_index import MemoryEntry, MemoryHit
    from ..ports.store_admin import StoreProblem, UncertainCall
    from ..ports.store_transfer import Inventory, SessionImage
    from ..ports.store_upkeep import Reclaimed, StoreFigures
    from . import (
        effect_ledger,
        slices,
        sqlite_artifacts,
        sqlite_backup,
        sqlite_boards,
        sqlite_claims,
        sqlite_memories,
        sqlite_migrations,
        sqlite_money,
        sqlite_space,
        sqlite_transfer,
        sqlite_upkeep,
        sqlite_work,
    )
else:
    hashlib = Late("hashlib")
    effect_ledger = Late("loopwright.stores.effect_ledger")
    slices = Late("loopwright.stores.slices")
    sqlite_artifacts = Late("loopwright.stores.sqlite_artifacts")
    sqlite_backup = Late("loopwright.stores.sqlite_backup")
    sqlite_boards = Late("loopwright.stores.sqlite_boards")
    sqlite_claims = Late("loopwright.stores.sqlite_claims")
    sqlite_memories = Late("loopwright.stores.sqlite_memories")
    sqlite_migrations = Late("loopwright.stores.sqlite_migrations")
    sqlite_money = Late("loopwright.stores.sqlite_money")
    sqlite_space = Late("loopwright.stores.sqlite_space")
    sqlite_transfer = Late("loopwright.stores.sqlite_transfer")
    sqlite_upkeep = Late("loopwright.stores.sqlite_upkeep")
    sqlite_work = Late("loopwright.stores.sqlite_work")

T = TypeVar("T")


class SqliteStore:
    """Durable sessions in one local file that several processes may share.

    Opening touches the file at once, so that a wrong path, a newer version or damage is an error here and not later.
    Short reads and unsynced commits run on the event loop (tens of microseconds); syncs, a file that somebody else is
    writing, and long reads run in two threads that are started when first needed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE,
        durability: Durability = "barrier",
        busy_wait_s: float = 10.0,
        vfs: str | None = None,
    ) -> None:
        absolute = os.path.join(os.getcwd(), os.fspath(path))
        self.path = absolute
        """The file."""
        self._file = DatabaseFile(absolute, durability, busy_wait_s, vfs)
        connection = prepare(self._file, schema)
        status = os.stat(absolute)
        self._identity = f"sqlite:{status.st_dev}:{status.st_ino}"
        self._owner = ownership.new_owner()
        self._own = CommitConnection(self._file, self._owner, connection)
        self._execute = self._own.execute
        self._writer = SqliteWorker("loopwright-sqlite-writer", self._file, self._connect)
        self._reader = SqliteWorker("loopwright-sqlite-reader", self._file, self._connect)
        self._renewal = Renewal(self._file, self._owner)
        self._group = GroupCommit(self._file, self._own, self._writer, self._others_are_alive)
        self._binding = LoopBinding(f"store {absolute}", self._group.forget)
        self._left_behind: sqlite_claims.LeftBehind | None = None
        self._closing = threading.Lock()

    @property
    def identity(self) -> str:
        """Device and inode: equal for two paths to one file."""
        return self._identity

    @property
    def owner(self) -> str:
        """Process id and a random part."""
        return self._owner

    @property
    def on_commit_limit_s(self) -> float:
        """See `TransactionHost`: short, because every other writer of the file waits meanwhile."""
        return sqlite_work.LIMIT_S

    def create(self, session: NewSession) -> Awaitable[Head]:
        """See `Store.create`.

        Not synced: the log is one file in order of time, so the first synced commit of the session syncs its creation
        too; until then nothing was accepted that could be lost.
        """
        size = sum(len(record.body) for record in session.records)
        return self._offer(SqliteWrites.create, (session,), sync=False, size=size, risky=False)

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        """See `Store.commit`."""
        loop = self._binding.enter()
        size = 0
        for record in transition.records:
            size += len(record.body)
        if (done := self._group.commit_at_once(transition, size)) is not None:
            return done
        future: asyncio.Future[Committed] = Settling(loop=loop)
        ops = transition.ops
        offer = Offer(SqliteWrites.commit, (transition,), future, sync=transition.sync, size=size, risky=bool(ops))
        self._group.offer(loop, offer, transition.session_id)
        if ops and any(isinstance(op, DropSession) for op in ops):
            future.add_done_callback(self._sweep_later)
        return future

    def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Awaitable[Sequence[StoredRecord]]:
        """See `Store.read`."""
        try:
            return self._here(lambda execute: sqlite_reads.short_records(execute, session_id, after, limit))
        except sqlite_reads.LongReadError:
            return self._aside(lambda execute: sqlite_reads.records(execute, session_id, after, limit))

    def lookup(self, session_id: str, *, item_id: str | None = None) -> Awaitable[Lookup]:
        """See `Store.lookup`."""
        return self._here(lambda execute: sqlite_reads.lookup(execute, session_id, item_id))

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        """See `Store.enqueue`."""
        size = 0 if item is None else len(item.body)
        return self._offer(SqliteWrites.enqueue, (session_id, item, ops), sync=True, size=size, risky=True)

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        """See `Store.claim`. In the reader thread."""
        if self._left_behind is None:
            self._left_behind = sqlite_claims.LeftBehind()
        left_behind = self._left_behind
        return self._aside(lambda execute: sqlite_claims.claimable(execute, query, left_behind))

    async def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """See `Store.renew`. From another thread than the loop's it runs there, on a connection of its own."""
        self._binding.check()
        if self._binding.is_here():
            loop = self._binding.enter()
            return await self._writer.submit(loop, lambda _: self._renewal.renew(session_ids, ttl_s))
        return self._native(lambda: self._renewal.renew_waiting(session_ids, ttl_s))

    def list(self, query: SessionQuery) -> Awaitable[Sequence[Head]]:
        """See `Store.list`. Reads all head rows, in the reader thread."""
        return self._aside(lambda execute: sqlite_reads.heads(execute, query))

    async def put_artifact(
        self, session_id: str, data: bytes, media_type: str, *, digest: str | None = None
    ) -> Artifact:
        """See `ArtifactStore.put_artifact`."""
        loop = self._binding.enter()
        size = len(data)
        name = await self._reader.submit(loop, lambda _: digest or hashlib.sha256(data).hexdigest())
        begun = await self._writer.submit(
            loop, lambda own: sqlite_artifacts.begin(own.execute, session_id, media_type, size, name)
        )
        if begun.complete:
            return begun.artifact
        # One job a row, so that commits get their turn between them.
        for n, part in slices.slices(data):
            await self._writer.submit(loop, functools.partial(sqlite_artifacts.write_slice, begun.id, n, part))
        await self._writer.submit(loop, lambda own: own.finish_artifact(begun.id))
        return begun.artifact

    def read_artifact(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> Awaitable[bytes]:
        """See `ArtifactStore.read_artifact`."""
        return self._aside(lambda execute: sqlite_artifacts.read(execute, artifact_id, offset, limit))

    def artifact(self, artifact_id: str) -> Awaitable[Artifact | None]:
        """See `ArtifactStore.artifact`."""
        return self._here(lambda execute: sqlite_artifacts.find(execute, artifact_id))

    def budget(self, key: str) -> Awaitable[BudgetAccount]:
        """See `Ledger.budget`."""
        return self._here(lambda execute: sqlite_money.budget(execute, key))

    def budgets(self, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[BudgetAccount]]:
        """See `Ledger.budgets`. In the reader thread."""
        return self._aside(lambda execute: sqlite_money.budgets(execute, after, limit))

    async def put_memory(self, entry: MemoryEntry, *, keep: int | None = None) -> None:
        """See `MemoryIndex.put_memory`."""
        loop = self._binding.enter()
        row = await self._reader.submit(loop, lambda _: sqlite_memories.MemoryRow(entry))
        await self._writer.submit(loop, functools.partial(sqlite_memories.put, row, keep))

    def drop_memory(self, namespace: str, memory_id: str) -> Awaitable[bool]:
        """See `MemoryIndex.drop_memory`."""
        job = functools.partial(sqlite_memories.drop, namespace, memory_id)
        return self._writer.submit(self._binding.enter(), job)

    def search_memories(self, namespace: str, query: str, limit: int = 10) -> Awaitable[Sequence[MemoryHit]]:
        """See `MemoryIndex.search_memories`. In the reader thread."""
        return self._aside(lambda execute: sqlite_memories.search(execute, namespace, query, limit))

    def list_memories(
        self, namespace: str, *, limit: int = 100, behind: MemoryEntry | None = None
    ) -> Awaitable[Sequence[MemoryEntry]]:
        """See `MemoryIndex.list_memories`. In the reader thread."""
        return self._aside(lambda execute: sqlite_memories.newest(execute, namespace, limit, behind))

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.post_entry`."""
        job = functools.partial(sqlite_boards.posted, post, policy)
        return self._writer.submit(self._binding.enter(), job)

    def read_board(self, board_id: str, *, kind: str | None = None, after: int = 0) -> Awaitable[Sequence[BoardEntry]]:
        """See `Board.read_board`."""
        return self._aside(lambda execute: sqlite_boards.read(execute, board_id, kind, after))

    def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.update_entry`."""
        job = functools.partial(sqlite_boards.updated, change, policy)
        return self._writer.submit(self._binding.enter(), job)

    def remove_entry(self, board_id: str, entry_id: int, *, version: int | None = None) -> Awaitable[bool]:
        """See `Board.remove_entry`."""
        job = functools.partial(sqlite_boards.removed, board_id, entry_id, version)
        return self._writer.submit(self._binding.enter(), job)

    def drop_board(self, board_id: str) -> Awaitable[int]:
        """See `Board.drop_board`."""
        return self._writer.submit(self._binding.enter(), functools.partial(sqlite_boards.drop, board_id))

    def ddl(self) -> str:
        """The complete, idempotent script that makes the tables of this version."""
        return sqlite_migrations.complete_ddl()

    def check(self) -> Awaitable[Sequence[StoreProblem]]:
        """See `StoreAdmin.check`. Reads the whole file, in the reader thread."""
        loop = self._binding.enter()
        return self._reader.submit(loop, sqlite_upkeep.problems)

    async def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> int:
        """See `StoreAdmin.delete`. What forks get is copied in the one transaction, whatever the size."""
        loop = self._binding.enter()
        count = await self._writer.submit(
            loop,
            lambda own: sqlite_upkeep.delete(own, session_id, cascade=cascade, copy_to_forks=copy_to_forks),
        )
        while await self._writer.submit(loop, sqlite_upkeep.sweep):
            pass
        return count

    def timers(self, session_id: str) -> Awaitable[Sequence[DueTimer]]:
        """See `StoreAdmin.timers`. In the reader thread."""
        return self._aside(lambda execute: sqlite_reads.timers(execute, session_id))

    def uncertain_calls(self) -> Awaitable[Sequence[UncertainCall]]:
        """See `StoreAdmin.uncertain_calls`. Reads all records of two kinds, in the reader thread."""
        return self._aside(
            lambda execute: effect_ledger.uncertain_calls(sqlite_reads.of_kinds(execute, effect_ledger.LEDGER_KINDS))
        )

    def figures(self) -> Awaitable[StoreFigures]:
        """See `StoreUpkeep.figures`. Reads the whole file, in the reader thread."""
        return self._reader.submit(self._binding.enter(), lambda own: sqlite_space.figures(own, self._file))

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """See `StoreUpkeep.session_sizes`. Reads the whole file, in the reader thread."""
        return self._aside(sqlite_space.session_sizes)

    async def sweep_artifacts(self, older_than: float) -> int:
        """See `StoreUpkeep.sweep_artifacts`. Looks through records of sessions with old artifacts, in the reader thread."""
        loop = self._binding.enter()
        await self._writer.submit(loop, sqlite_space.stamp_artifacts)
        count = 0
        for one in await self._aside(lambda execute: sqlite_space.old_artifacts(execute, older_than)):
            # One short transaction each, so that commits get their turn between them.
            if await self._writer.submit(loop, functools.partial(sqlite_space.hide_artifact, one, older_than)):
                count += 1
                while await self._writer.submit(loop, functools.partial(sqlite_space.remove_hidden, one, older_than)):
                    pass
        return count

    async def vacuum(self) -> Reclaimed:
        """See `StoreUpkeep.vacuum`. Needs as much free space again as the file has content; others wait meanwhile."""
        loop = self._binding.enter()
        while await self._writer.submit(loop, sqlite_upkeep.sweep):
            pass
        return await self._writer.submit(loop, functools.partial(sqlite_space.vacuum, self._file))

    def checkpoint(self) -> Awaitable[Reclaimed]:
        """See `StoreUpkeep.checkpoint`."""
        return self._writer.submit(self._binding.enter(), functools.partial(sqlite_space.checkpoint, self._file))

    async def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> int:
        """See `StoreUpkeep.backup`. In a thread and on a connection of its own; writers do not wait for it."""
        loop = self._binding.enter()
        path = os.path.join(os.getcwd(), os.fspath(target))
        return await loop.run_in_executor(None, lambda: sqlite_backup.back_up(self._file, path, replace=replace))

    def inventory(self, session_id: str) -> Awaitable[Inventory]:
        """See `StoreTransfer.inventory`."""
        return self._aside(lambda execute: sqlite_transfer.inventory(execute, session_id))

    def restore(self, image: SessionImage) -> Awaitable[Head]:
        """See `StoreTransfer.restore`. One transaction in the writer thread, whatever the size."""
        return self._writer.submit(self._binding.enter(), lambda own: sqlite_transfer.restore(own, image))

    async def aclose(self) -> None:
        """Finishes offered transitions, gives up this owner's leases, checkpoints and closes; safe to call twice."""
        if self._binding.closed:
            return
        loop = self._binding.enter()
        self._group.flush_to_worker()
        self._binding.closed = True
        failure: LoopwrightError | None = None
        try:
            await asyncio.shield(self._writer.submit(loop, lambda own: sqlite_upkeep.give_up(own, self._owner)))
        except LoopwrightError as error:
            # A lease that cannot be given back expires; the file is closed in any case.
            failure = error
        finally:
            # In a thread of its own, since the last connection copies the whole log into the file.
            await asyncio.shield(loop.run_in_executor(None, self._close))
        if failure is not None and not isinstance(failure, StoreUnavailableError):
            raise failure

    def abandon(self) -> None:
        """Closes as a killed process would: nothing is flushed or released; calls under way fail or are never answered."""
        self._binding.closed = True
        ownership.abandon(self._owner)
        offered = self._group.take_offered()
        with self._closing:
            for worker in (self._writer, self._reader):
                worker.kill()
            self._renewal.close(as_killed=True)
            self._own.close(as_killed=True)
        gone = StoreUnavailableError(f"store {self._file.path} was abandoned")
        release(offered, [gone] * len(offered))

    def _close(self) -> None:
        with self._closing:
            self._reader.stop()
            self._writer.stop()
            self._renewal.close()
            self._own.close_whole()

    def _offer(
        self, write: Callable[..., T], args: tuple[Any, ...], *, sync: bool, size: int, risky: bool
    ) -> asyncio.Future[T]:
        loop = self._binding.enter()
        future: asyncio.Future[T] = loop.create_future()
        self._group.offer(loop, Offer(write, args, future, sync=sync, size=size, risky=risky))
        return future

    def _here(self, read: Callable[[Execute], T]) -> asyncio.Future[T]:
        """A short read, on the loop's own connection."""
        future: asyncio.Future[T] = self._binding.enter().create_future()
        try:
            future.set_result(sqlite_reads.snapshot(self._execute, lambda: read(self._execute)))
        except apsw.BusyError:
            # Rare: another process recovers the log or closes as the last one. The reader thread can wait for it.
            return self._aside(read)
        except LoopwrightError as error:
            future.set_exception(error)
        except NATIVE_FAULTS as error:
            fault = translate(error, self._file.path)
            fault.__cause__ = error
            future.set_exception(fault)
        return future

    def _aside(self, read: Callable[[Execute], T]) -> asyncio.Future[T]:
        """A read whose length nobody knows, in the reader thread."""

        def job(own: CommitConnection) -> T:
            execute = own.execute
            return sqlite_reads.snapshot(execute, lambda: read(execute))

        return self._reader.submit(self._binding.enter(), job)

    def _sweep_later(self, committed: asyncio.Future[Committed]) -> None:
        if self._binding.closed or committed.cancelled() or committed.exception() is not None:
            return
        # Rows of dropped children; whatever is left is found by the next sweep.
        done = self._writer.submit(committed.get_loop(), sqlite_upkeep.sweep)
        done.add_done_callback(self._sweep_on)

    def _sweep_on(self, done: asyncio.Future[bool]) -> None:
        if not done.cancelled() and done.exception() is None and done.result() and not self._binding.closed:
            again = self._writer.submit(done.get_loop(), sqlite_upkeep.sweep)
            again.add_done_callback(self._sweep_on)

    def _others_are_alive(self) -> bool:
        try:
            return any(owner != self._owner for owner in sqlite_reads.Owners(self._execute).alive())
        except NATIVE_FAULTS:
            # Whatever it is, the batch that follows meets it and says so.
            return True

    def _connect(self) -> CommitConnection:
        return CommitConnection(self._file, self._owner)

    def _native(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except NATIVE_FAULTS as error:
            raise translate(error, self._file.path) from error
