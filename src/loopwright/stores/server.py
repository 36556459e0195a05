"""Sessions on a database server: the store behind every server's DSN.

Owns: the public class; what waits in line for the writing connection; connecting again. Must not know: any server's SQL.
One connection writes, in the order of the calls: what is offered while a transaction is under way forms the next one, so
many sessions share a commit as they do in a file. A second connection reads; a third one renews leases, on whatever
event loop asks.
Read next: `server_batch.py`, then `postgres.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..late import Late
from ..model.errors import LoopwrightError, StoreUnavailableError, UsageError
from ..ports.artifact import Artifact
from ..ports.settling import Settling
from ..ports.store import (
    Acquire,
    Claimable,
    ClaimQuery,
    Committed,
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
from ..ports.store_admin import SchemaPolicy, StoreProblem, UncertainCall
from . import ownership
from .binding import LoopBinding
from .derived import artifact_name, head_of
from .migration import complete_ddl
from .server_batch import (
    Batch,
    Fate,
    Needs,
    ServerOffer,
    needs_of_deletion,
    needs_of_item,
    needs_of_session,
    needs_of_transition,
)
from .server_boards import ServerBoards
from .server_dialect import ServerConnection, ServerDialect
from .server_line import ServerLine
from .server_plain import are_plain, committed, longest_lease, parameters, was_written
from .server_reads import ServerReads
from .server_schema import ServerSchema
from .slices import rows_of, slices

if TYPE_CHECKING:
    import hashlib

    from . import server_work
else:
    hashlib = Late("hashlib")
    server_work = Late("loopwright.stores.server_work")

T = TypeVar("T")

Job: TypeAlias = Callable[[ServerConnection], Awaitable[Any]]
"""Work with a connection; done again from its start when the connection was lost in it."""

Tries: TypeAlias = deque[tuple[Batch, Sequence[Any]]]
"""The try whose commit was asked for, with its outcomes; empty as long as none was."""

Marks: TypeAlias = list[bool]

LARGEST_BATCH: Final = 256
"""Writes in one transaction: more would make everybody wait for the last of them."""


class ServerStore(ServerBoards):
    """Durable sessions on a server that any number of processes and machines share.

    Connects with its first call, so that a wrong address or a missing right is an error there. A server that is away is
    waited for up to `busy_wait_s`, then it is `StoreUnavailableError`; the store stays usable.
    """

    def __init__(
        self,
        dialect: ServerDialect,
        *,
        schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE,
        sync: bool = True,
        busy_wait_s: float = 10.0,
    ) -> None:
        super().__init__(dialect, ServerSchema(dialect, schema))
        self._owner = ownership.new_owner()
        self._queue: deque[ServerOffer | tuple[Job, asyncio.Future[Any]]] = deque()
        self._binding = LoopBinding(f"store {dialect.place}", self._forget)
        self._renewing: dict[asyncio.AbstractEventLoop, ServerLine] = {}
        self._new_line = partial(ServerLine, dialect, self._schema, sync=sync, patience_s=busy_wait_s)
        self._writing, self._reading = self._new_line(), self._new_line()
        self._worker: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Task[Any]] = set()
        self._alive_until = 0.0
        self._held: set[str] = set()

    @property
    def identity(self) -> str:
        """Server, database and table prefix, as the DSN names them."""
        return self._dialect.identity

    @property
    def owner(self) -> str:
        """Process id and a random part."""
        return self._owner

    @property
    def on_commit_limit_s(self) -> float:
        """See `TransactionHost`."""
        return server_work.LIMIT_S

    def create(self, session: NewSession) -> Awaitable[Head]:
        """See `Store.create`."""
        return self._offer(session.session_id, lambda rules: rules.create(session), needs_of_session(session))

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        """See `Store.commit`."""
        if transition.release:
            self._held.discard(transition.session_id)
        elif isinstance(transition.lease, Acquire):
            self._held.add(transition.session_id)
        needs = needs_of_transition(transition)
        return self._offer(
            transition.session_id,
            lambda rules: rules.commit(transition),
            needs,
            transition.ops,
            transition=transition,
        )

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        """See `Store.enqueue`."""
        needs = needs_of_item(session_id, item, ops)
        return self._offer(session_id, lambda rules: rules.enqueue(session_id, item, ops), needs, ops)

    def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Awaitable[Sequence[StoredRecord]]:
        """See `Store.read`."""
        return self._read(lambda reads: reads.records(session_id, after, limit))

    def lookup(self, session_id: str, *, item_id: str | None = None) -> Awaitable[Lookup]:
        """See `Store.lookup`."""
        return self._read(lambda reads: reads.lookup(session_id, item_id))

    def claim(self, query: ClaimQuery) -> Awaitable[Claimable]:
        """See `Store.claim`."""
        return self._read(lambda reads: reads.claimable(query))

    def list(self, query: SessionQuery) -> Awaitable[Sequence[Head]]:
        """See `Store.list`."""
        return self._read(lambda reads: reads.heads(query))

    async def renew(self, session_ids: Sequence[str], ttl_s: float) -> dict[str, tuple[int, int]]:
        """See `Store.renew`. On a connection that belongs to the event loop which asks."""
        self._binding.check()
        loop = asyncio.get_running_loop()
        line = self._renewing.get(loop)
        if line is None:
            for closed in [other for other in self._renewing if other.is_closed()]:
                self._renewing.pop(closed).terminate()
            line = self._renewing[loop] = self._new_line()

        async def beat(connection: ServerConnection) -> dict[str, tuple[int, int]]:
            await connection.run(self._dialect.statements.BEAT, self._owner, ttl_s)
            return await ServerReads(connection, self._dialect.statements).renewed(session_ids)

        return await line.do(beat)

    async def put_artifact(
        self, session_id: str, data: bytes, media_type: str, *, digest: str | None = None
    ) -> Artifact:
        """See `ArtifactStore.put_artifact`."""
        loop = self._binding.enter()
        name = await loop.run_in_executor(None, lambda: digest or hashlib.sha256(data).hexdigest())
        made = Artifact(artifact_name(session_id, name), session_id, media_type, len(data), name)
        id_, complete = await self._job(partial(self._begin_artifact, made))
        if complete:
            return await self.artifact(made.artifact_id) or made
        statements = self._dialect.statements
        # One job a row, so that commits get their turn between them.
        for n, part in slices(data):
            await self._job(partial(_run, statements.ARTIFACT_ROW, (id_, n, part)))
        await self._job(partial(_run, statements.FINISH_ARTIFACT, (id_,)))
        return made

    def read_artifact(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> Awaitable[bytes]:
        """See `ArtifactStore.read_artifact`."""
        return self._read(lambda reads: reads.artifact_data(artifact_id, offset, limit))

    def artifact(self, artifact_id: str) -> Awaitable[Artifact | None]:
        """See `ArtifactStore.artifact`."""
        return self._read(lambda reads: reads.artifact(artifact_id))

    def ddl(self) -> str:
        """The complete, idempotent script that makes the tables of this version."""
        return complete_ddl(self._dialect.statements.SCHEMA)

    def check(self) -> Awaitable[Sequence[StoreProblem]]:
        """See `StoreAdmin.check`. Reads the numbers of all records."""
        return self._read(lambda reads: reads.problems())

    async def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> int:
        """See `StoreAdmin.delete`. What forks get is copied in the one transaction, whatever the size."""
        needs = needs_of_deletion(session_id)
        count: int = await self._offer(
            session_id, lambda rules: rules.delete(session_id, cascade, copy_to_forks), needs
        )
        await self._sweep_deleted()
        return count

    def uncertain_calls(self) -> Awaitable[Sequence[UncertainCall]]:
        """See `StoreAdmin.uncertain_calls`. Reads all records of two kinds."""
        return self._read(lambda reads: reads.uncertain())

    async def aclose(self) -> None:
        """Finishes what was offered, gives up this owner's leases and closes; safe to call twice."""
        if self._binding.closed:
            return
        wrote = self._held or self._renewing or self._worker is not None  # who wrote nothing holds nothing
        if wrote and (self._writing.was_reached or self._queue):
            try:
                await asyncio.shield(self._job(self._give_up))
            except LoopwrightError:
                pass  # leases that cannot be given back expire; the connections are closed in any case
        self._binding.closed = True
        await asyncio.gather(*self._readers, return_exceptions=True)
        await self._writing.close()
        await self._reading.close()
        for loop, line in self._renewing.items():
            if loop is asyncio.get_running_loop():
                await line.close()
            else:
                line.terminate()

    def abandon(self) -> None:
        """Closes as a killed process would: nothing is flushed or released; calls under way fail or are never answered."""
        self._binding.closed = True
        ownership.abandon(self._owner)
        for line in (self._writing, self._reading, *self._renewing.values()):
            line.terminate()
        if self._worker is not None:
            self._worker.cancel()
        gone = StoreUnavailableError(f"store {self._dialect.place} was abandoned")
        for waiting in self._queue:
            _tell(waiting.future if isinstance(waiting, ServerOffer) else waiting[1], gone)
        self._queue.clear()

    def _forget(self) -> None:
        """What belonged to an event loop that is closed by now."""
        self._queue.clear()
        self._worker = None
        self._readers.clear()
        for line in (self._writing, self._reading):
            line.terminate()

    def _offer(
        self,
        session_id: str,
        write: Callable[[Any], T],
        needs: Needs,
        ops: tuple[Op, ...] = (),
        *,
        transition: Transition | None = None,
    ) -> asyncio.Future[T]:
        loop = self._binding.enter()
        future: asyncio.Future[T] = Settling(loop=loop)
        self._put(loop, ServerOffer(session_id, write, needs, future, ops, transition=transition))
        return future

    def _job(self, job: Job) -> asyncio.Future[Any]:
        loop = self._binding.enter()
        future: asyncio.Future[Any] = Settling(loop=loop)
        self._put(loop, (job, future))
        return future

    def _put(self, loop: asyncio.AbstractEventLoop, waiting: ServerOffer | tuple[Job, asyncio.Future[Any]]) -> None:
        self._queue.append(waiting)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work(), context=contextvars.Context())

    async def _work(self) -> None:
        # What was offered in this turn of the loop is one batch.
        await asyncio.sleep(0)
        while self._queue:
            first = self._queue[0]
            if not isinstance(first, ServerOffer):
                self._queue.popleft()
                await self._answer([first[1]], partial(self._done_once, first[0]))
                continue
            batch: list[ServerOffer] = []
            while self._queue and len(batch) < LARGEST_BATCH and isinstance(one := self._queue[0], ServerOffer):
                if batch and (one.needs.alone or batch[0].needs.alone):
                    break
                batch.append(one)
                self._queue.popleft()
            await self._answer([offer.future for offer in batch], partial(self._written, batch))

    async def _answer(
        self, futures: Sequence[asyncio.Future[Any]], work: Callable[[], Awaitable[Sequence[Any]]]
    ) -> None:
        try:
            outcomes = await work()
        except LoopwrightError as error:
            outcomes = [error] * len(futures)
        except asyncio.CancelledError:
            outcomes = [StoreUnavailableError(f"store {self._dialect.place} was abandoned")] * len(futures)
        except Exception as error:  # noqa: BLE001 - a fault of ours is raised where it is awaited, and the line goes on
            outcomes = [error] * len(futures)
        for future, outcome in zip(futures, outcomes, strict=True):
            _tell(future, outcome)

    async def _done_once(self, job: Job) -> Sequence[Any]:
        return [await self._writing.do(job)]

    async def _written(self, offers: Sequence[ServerOffer]) -> Sequence[Any]:
        done: dict[str, Any] = {}
        transitions = [offer.transition for offer in offers]
        if self._dialect.statements.COMMIT_PLAIN and are_plain(transitions):
            plain = [one for one in transitions if one is not None]
            if self._alive_until - asyncio.get_running_loop().time() >= longest_lease(plain):
                done = await self._writing.do(partial(self._at_once, plain, []))
        left = [offer for offer in offers if offer.session_id not in done]
        answers = iter(await self._judged(left) if left else ())
        return [done[offer.session_id] if offer.session_id in done else next(answers) for offer in offers]

    async def _at_once(
        self, plain: Sequence[Transition], tried: Marks, connection: ServerConnection
    ) -> dict[str, Committed]:
        """By session, what one statement could write; a second try looks first what became of the one before."""
        statements = self._dialect.statements
        if not tried:
            tried.append(True)
            rows = await connection.rows(statements.COMMIT_PLAIN, *parameters(self._owner, plain))
            return {session_id: Committed(*answer) for session_id, *answer in rows}
        # Under lock: a statement whose connection was lost may still be at work.
        sent = {one.session_id: one for one in plain}
        done: dict[str, Committed] = {}
        for *row, token in await connection.rows(statements.HEADS_LOCKED, [*sent]):
            head = head_of(row, lambda _: 0.0)
            if was_written(sent[head.session_id], head, bytes(token or b"")):
                done[head.session_id] = committed(head)
        return done

    async def _judged(self, offers: Sequence[ServerOffer]) -> Sequence[Any]:
        try:
            return await self._writing.do(partial(self._transaction, offers, deque()))
        except LoopwrightError as error:
            if len(offers) == 1 or isinstance(error, StoreUnavailableError | UsageError):
                raise
        # One of them may be at fault, which must not be everybody's.
        outcomes: list[Any] = []
        for offer in offers:
            try:
                outcomes += await self._writing.do(partial(self._transaction, [offer], deque()))
            except LoopwrightError as error:
                outcomes.append(error)
        return outcomes

    async def _transaction(
        self, offers: Sequence[ServerOffer], before: Tries, connection: ServerConnection
    ) -> Sequence[Any]:
        """One try. `before` holds the try whose commit was asked for when the connection was lost."""
        statements, now = self._dialect.statements, asyncio.get_running_loop().time()
        batch = Batch(connection, statements, self._owner, self._alive_until - now)
        try:
            outcomes = await batch.judge(offers)
            if before:
                lost, answers = before[-1]  # kept until it is answered: this connection may go as well
                fate = lost.fate(batch)
                if fate is Fate.WRITTEN:
                    await connection.run(statements.ROLLBACK)
                    return answers
                if fate is Fate.UNKNOWN:
                    raise StoreUnavailableError(
                        f"the connection to {self._dialect.place} was lost in a commit, and others wrote meanwhile;"
                        " read the session again before you go on"
                    )
                before.clear()
            if not batch.changes():
                await connection.run(statements.ROLLBACK)
                return outcomes
            if self._alive_until - now >= batch.rules.beat_s:
                batch.rules.beat_s = 0.0
            await batch.write(offers, outcomes)
            if (work := offers[0].work) is not None:
                await server_work.run_inside(connection, self._dialect, work, offers[0].losses)
        except LoopwrightError:
            await connection.run(statements.ROLLBACK)
            raise
        before.append((batch, outcomes))
        await connection.run(statements.COMMIT)
        if batch.rules.beat_s:
            self._alive_until = now + batch.rules.beat_s * ownership.HEARTBEAT_SPARE
        return outcomes

    def _read(self, read: Callable[[ServerReads], Awaitable[T]]) -> Awaitable[T]:
        return self._reading_does(lambda connection: read(ServerReads(connection, self._dialect.statements)))

    def _reading_does(self, work: Callable[[ServerConnection], Awaitable[T]]) -> Awaitable[T]:
        loop = self._binding.enter()
        # A task of its own: a caller that is cancelled must not leave half an answer in the connection.
        task: asyncio.Task[T] = loop.create_task(self._reading.do(work), context=contextvars.Context())
        self._readers.add(task)
        task.add_done_callback(self._read_is_over)
        return asyncio.shield(task)

    async def _aside(self, work: Callable[[ServerConnection], Awaitable[T]]) -> T:
        self._binding.enter()
        line = self._new_line()
        try:
            return await line.do(work)
        finally:
            await line.close()

    def _read_is_over(self, task: asyncio.Task[Any]) -> None:
        self._readers.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone

    async def _begin_artifact(self, made: Artifact, connection: ServerConnection) -> tuple[int, bool]:
        statements = self._dialect.statements
        values = (made.artifact_id, made.session_id, made.media_type, made.size, made.digest)
        await connection.run(statements.BEGIN_ARTIFACT, *values)
        rows = await connection.rows(statements.ARTIFACT_STATE, made.artifact_id)
        if not rows:
            await ServerReads(connection, statements).lookup(made.session_id, None)  # says why
            raise StoreUnavailableError(f"artifact {made.artifact_id!r} could not be begun; try again")
        id_, complete = rows[0]
        if complete and await connection.rows(statements.IS_ARTIFACT_ASTRAY, id_):  # written anew, hidden meanwhile
            await connection.run(statements.REOPEN_ARTIFACT, id_, made.size)
            await connection.run(statements.DROP_ROWS_FROM, id_, len(rows_of(made.size, 0, None)))
            complete = False
        return id_, bool(complete)

    async def _sweep_deleted(self) -> None:
        while await self._job(self._sweep):
            pass

    async def _sweep(self, connection: ServerConnection) -> bool:
        """Removes one batch of rows of a deleted session; False when nothing is left to remove."""
        statements = self._dialect.statements
        found = await connection.rows(statements.UNSWEPT)
        if not found:
            return False
        session_id, key = found[0]
        left = 0
        for statement in statements.SWEEP:
            await connection.run(statement, key)
        for statement in statements.LEFT_OVER:
            left += len(await connection.rows(statement, key))
        if not left:
            await connection.run(statements.SWEPT, session_id)
        return True

    async def _give_up(self, connection: ServerConnection) -> None:
        statements = self._dialect.statements
        if self._held:
            await connection.run(statements.RELEASE, self._owner, sorted(self._held))
            if statements.NOTIFY:
                await connection.run(statements.NOTIFY)
        await connection.run(statements.FORGET_OWNER, self._owner)
        await connection.run(statements.FORGET_OWNERS)


async def _run(statement: str, values: tuple[Any, ...], connection: ServerConnection) -> None:
    await connection.run(statement, *values)


def _tell(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
        future.exception()  # read, so that the event loop does not report what nobody waits for
    else:
        future.set_result(outcome)
