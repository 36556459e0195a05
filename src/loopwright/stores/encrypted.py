"""A store whose database holds nothing readable that a person said or a tool answered.

Owns: `EncryptedStore`: what is asked of the store inside, and what has to be asked in another way since that one cannot
read bodies. Must not know: ciphers, any particular store.
Read next: `encrypted_values.py`, `encrypted_envelope.py`; what is protected and what is not: docs/encryption.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import structs

from ..model.archive_errors import SealBrokenError
from ..model.errors import (
    ConfigError,
    InvariantError,
    LoopwrightError,
    RetryLaterError,
    SessionGoneError,
    SessionNotFoundError,
    StoreCorruptError,
)
from ..ports.ambient import breathe
from ..ports.artifact import Artifact
from ..ports.sealing import SealingKeys
from ..ports.store import (
    Claimable,
    ClaimQuery,
    Committed,
    CreateSession,
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
from ..ports.store_admin import SessionStore, StoreProblem, UncertainCall
from ..ports.store_transfer import Inventory, SessionImage
from ..ports.store_upkeep import Reclaimed, StoreFigures
from ..ports.transaction_work import TransactionHost
from ..ports.wake_source import WakeSource
from .effect_ledger import LEDGER_KINDS, uncertain_calls
from .encrypted_artifacts import (
    LONGEST_START,
    SLICE_BYTES,
    SealedArtifact,
    artifact_start,
    opened_artifact,
    opened_slices,
    sealed_artifact,
)
from .encrypted_envelope import PlainPolicy, Sealer
from .encrypted_forks import Lineages, StoredLineages, lineage_among
from .encrypted_shared import EncryptedShared
from .encrypted_values import SEAL_ERRORS, Opening, Sealing

T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger(__name__)

_EVERY_SESSION: Final = 2**31
_PAGE: Final = 500
"""Records read at once where a whole journal is gone through."""


class EncryptedStore(EncryptedShared):
    """Any store, with all bodies, titles and artifacts sealed (AES-256-GCM) before it gets them.

    Keeps the promises of the store inside, and closes it with itself. A value that does not open where it stands raises
    `SealBrokenError`, one whose key is not there `SealKeyError`, a plain one `UnsealedError` unless `plain` is "read"; the
    session cannot be run then, and the others can. `list` and `claim` go on without what does not open, and `check` opens
    everything. Sizes in figures are those of what is stored. Raises `ConfigError` when the current key is not usable.
    """

    def __init__(self, inner: SessionStore, keys: SealingKeys, *, plain: PlainPolicy = "refuse") -> None:
        """`inner` belongs to this object from now on: use it through this one only."""
        super().__init__(inner, Sealer(keys, plain))
        self._seal, self._open = Sealing(self._sealer), Opening(self._sealer)
        self._lineages = StoredLineages(self._open, lambda sid, at: inner.read(sid, after=at, limit=1))
        self._left_out: set[tuple[str, str]] = set()
        if isinstance(inner, TransactionHost):  # a store of which that is not so must not look like one
            self.on_commit_limit_s = inner.on_commit_limit_s

    @property
    def identity(self) -> str:
        """That of the data below, opened with keys: what a run with keys has warm must not serve one without."""
        return f"sealed {self._inner.identity}"

    @property
    def owner(self) -> str:
        """That of the store inside."""
        return self._inner.owner

    @property
    def sealed(self) -> SessionStore:
        """See `SealedStore.sealed`."""
        return self._inner

    def create(self, session: NewSession) -> Awaitable[Head]:
        """See `Store.create`."""

        def work(bases: Lineages) -> Awaitable[Head]:
            return self._inner.create(self._seal.new_session(session, bases))

        return _then(self._with_bases((session,), work), self._open.head)

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        """See `Store.commit`."""

        def work(bases: Lineages) -> Awaitable[Committed]:
            return self._inner.commit(self._seal.transition(transition, bases))

        return self._with_bases(_made_by(transition.ops), work)

    async def read(self, session_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[StoredRecord]:
        """See `Store.read`."""
        return await self._opened(session_id, await self._inner.read(session_id, after=after, limit=limit))

    async def lookup(self, session_id: str, *, item_id: str | None = None) -> Lookup:
        """See `Store.lookup`."""
        return self._open.lookup(await self._inner.lookup(session_id, item_id=item_id))

    def enqueue(self, session_id: str, item: InboxItem | None, ops: tuple[Op, ...] = ()) -> Awaitable[Enqueued]:
        """See `Store.enqueue`."""

        def work(bases: Lineages) -> Awaitable[Enqueued]:
            sealed = self._seal.ops(session_id, ops, bases)
            said = None if item is None else self._seal.item(session_id, item)
            return self._inner.enqueue(session_id, said, sealed)

        return self._with_bases(_made_by(ops), work)

    async def claim(self, query: ClaimQuery) -> Claimable:
        """See `Store.claim`. A timer that does not open is left out, with a line in the log: it must not stop the others."""
        limit = query.limit
        while True:
            found = await self._inner.claim(structs.replace(query, limit=limit))
            timers = self._readable(found.timers)
            # Those that do not open may be the oldest ones: then there is more behind them.
            if len(timers) >= min(query.limit, len(found.timers)) or len(found.timers) < limit:
                break
            limit *= 2
        heads = [self._open.shown_head(head) for head in found.interrupted]
        return Claimable(tuple(heads[: query.limit]), tuple(timers[: query.limit]), found.next_timer_at)

    def renew(self, session_ids: Sequence[str], ttl_s: float) -> Awaitable[dict[str, tuple[int, int]]]:
        """See `Store.renew`."""
        return self._inner.renew(session_ids, ttl_s)

    async def list(self, query: SessionQuery) -> Sequence[Head]:
        """See `Store.list`. A title that does not open is left empty."""
        return [self._open.shown_head(head) for head in await self._inner.list(query)]

    async def wait_for_work(self, timeout_s: float) -> None:
        """See `WakeSource`; `RetryLaterError` when the store inside is none, and the worker goes by the clock."""
        if not isinstance(self._inner, WakeSource):
            raise RetryLaterError("this kind of store wakes nobody")
        await self._inner.wait_for_work(timeout_s)

    async def put_artifact(
        self, session_id: str, data: bytes, media_type: str, *, digest: str | None = None
    ) -> Artifact:
        """See `ArtifactStore.put_artifact`. Content that was put under an older key is stored once more."""

        def sealed() -> tuple[str, Artifact, bytes]:
            content = digest or hashlib.sha256(data).hexdigest()
            return content, *sealed_artifact(self._sealer, session_id, data, content)

        content, made, stored = await asyncio.to_thread(sealed)
        kept = await self._inner.put_artifact(session_id, stored, media_type, digest=made.digest)
        if kept.artifact_id != made.artifact_id:
            raise InvariantError(f"the store inside names artifacts in its own way: {kept.artifact_id!r}")
        return structs.replace(kept, size=len(data), digest=content)

    async def read_artifact(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ArtifactStore.read_artifact`."""
        found = await self._artifact(artifact_id)
        if found is None:
            return b""
        start = found[1]
        if start is None:
            return await self._inner.read_artifact(artifact_id, offset=offset, limit=limit)
        wanted, at, length = start.span(offset, limit)
        if not wanted:
            return b""
        stored = await self._inner.read_artifact(artifact_id, offset=at, limit=length)
        if not stored and await self._inner.artifact(artifact_id) is None:  # it went meanwhile
            return b""
        data = b"".join(opened_slices(self._sealer, start, wanted, stored))
        first = offset - wanted.start * SLICE_BYTES
        return data[first : None if limit is None else first + limit]

    async def artifact(self, artifact_id: str) -> Artifact | None:
        """See `ArtifactStore.artifact`."""
        found = await self._artifact(artifact_id)
        return found and _told(*found)

    def ddl(self) -> str:
        """See `StoreAdmin.ddl`."""
        return self._inner.ddl()

    async def check(self) -> Sequence[StoreProblem]:
        """See `StoreAdmin.check`. Opens everything but memories and boards: one finding for each session of which something does not
        open."""
        found = list(await self._inner.check())
        for head in await self._inner.list(SessionQuery(limit=_EVERY_SESSION)):
            try:
                errors = [error async for error in self._unopened(head)]
            except (SessionGoneError, SessionNotFoundError):
                continue
            except StoreCorruptError as error:  # the store inside cannot read it to its end
                errors = [error]
            if errors:
                more = f" (and {len(errors) - 1} more of its values do not open)" if len(errors) > 1 else ""
                what, _, todo = str(errors[0]).removeprefix(f"session {head.session_id!r}, ").partition("; ")
                found.append(StoreProblem(head.session_id, what + more, todo))
        return found

    def delete(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> Awaitable[int]:
        """See `StoreAdmin.delete`. Records that forks get stay sealed as those of the session that wrote them."""
        return self._inner.delete(session_id, cascade=cascade, copy_to_forks=copy_to_forks)

    async def timers(self, session_id: str) -> Sequence[DueTimer]:
        """See `StoreAdmin.timers`. One that does not open is left out, with a line in the log."""
        return self._readable(await self._inner.timers(session_id))

    async def uncertain_calls(self) -> Sequence[UncertainCall]:
        """See `StoreAdmin.uncertain_calls`. Reads all journals, since the store inside cannot tell calls apart."""
        calls: list[tuple[str, StoredRecord]] = []
        for head in await self._inner.list(SessionQuery(limit=_EVERY_SESSION)):
            sid = head.session_id
            try:
                rows = [row async for row in self._own_rows(head) if row.kind in LEDGER_KINDS]
                calls += [(sid, row) for row in await self._opened(sid, rows)]
            except (SessionGoneError, SessionNotFoundError):
                continue
        return uncertain_calls(calls)

    def figures(self) -> Awaitable[StoreFigures]:
        """See `StoreUpkeep.figures`."""
        return self._inner.figures()

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """See `StoreUpkeep.session_sizes`."""
        return self._inner.session_sizes()

    def sweep_artifacts(self, older_than: float) -> Awaitable[int]:
        """See `StoreUpkeep.sweep_artifacts`. Envelopes show the ids of the artifacts that their values name."""
        return self._inner.sweep_artifacts(older_than)

    def vacuum(self) -> Awaitable[Reclaimed]:
        """See `StoreUpkeep.vacuum`."""
        return self._inner.vacuum()

    def checkpoint(self) -> Awaitable[Reclaimed]:
        """See `StoreUpkeep.checkpoint`."""
        return self._inner.checkpoint()

    def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> Awaitable[int]:
        """See `StoreUpkeep.backup`. The copy is encrypted like the store."""
        return self._inner.backup(target, replace=replace)

    async def inventory(self, session_id: str) -> Inventory:
        """See `StoreTransfer.inventory`."""
        stored = await self._inner.inventory(session_id)
        artifacts = [await self.artifact(one.artifact_id) for one in stored.artifacts]
        return structs.replace(
            self._open.inventory(stored), artifacts=tuple([one for one in artifacts if one is not None])
        )

    async def restore(self, image: SessionImage) -> Head:
        """See `StoreTransfer.restore`."""
        held = [await self._inner.artifact(one.artifact_id) for one in image.inventory.artifacts]
        sealed = await asyncio.to_thread(
            self._sealed_image, image, {one.artifact_id: one.digest for one in held if one}
        )
        return self._open.head(await self._inner.restore(sealed))

    def opened(self, image: SessionImage) -> SessionImage:
        """See `SealedStore.opened`."""
        whole, sid = image.inventory, image.inventory.head.session_id
        rows = [StoredRecord(n, r.kind, r.version, r.at, r.body) for n, r in enumerate(image.records)]
        lineage = lineage_among(self._open, sid, rows)
        records = [
            structs.replace(r, body=self._open.record(sid, row, lineage).body)
            for r, row in zip(image.records, rows, strict=True)
        ]
        artifacts: list[Artifact] = []
        contents: list[bytes] = []
        for one, stored in zip(whole.artifacts, image.artifact_data, strict=True):
            data, digest = opened_artifact(self._sealer, sid, one.artifact_id, stored)
            artifacts.append(structs.replace(one, size=len(data), digest=digest or one.digest))
            contents.append(data)
        inventory = structs.replace(self._open.inventory(whole), artifacts=tuple(artifacts))
        return SessionImage(inventory, tuple(records), tuple(contents))

    def aclose(self) -> Awaitable[None]:
        """See `StoreAdmin.aclose`; closes the store inside."""
        return self._inner.aclose()

    def abandon(self) -> None:
        """See `StoreAdmin.abandon`."""
        self._inner.abandon()

    async def _artifact(self, artifact_id: str) -> tuple[Artifact, SealedArtifact | None] | None:
        """What is stored of it, and what its first bytes say; None for the latter when it is plain."""
        known = await self._inner.artifact(artifact_id)
        if known is None:
            return None
        stored = await self._inner.read_artifact(artifact_id, limit=LONGEST_START)
        if not stored and await self._inner.artifact(artifact_id) is None:  # it went meanwhile
            return None
        return known, artifact_start(self._sealer, known.session_id, artifact_id, stored)

    def _sealed_image(self, image: SessionImage, held: Mapping[str, str]) -> SessionImage:
        """`held` has the names of the content of artifacts that are there already, by id: those are kept, and shared."""
        whole, seal = image.inventory, self._seal
        sid = whole.head.session_id
        artifacts: list[Artifact] = []
        contents: list[bytes] = []
        for one, data in zip(whole.artifacts, image.artifact_data, strict=True):
            made, stored = sealed_artifact(self._sealer, sid, data, one.digest, one.artifact_id)
            name = held.get(one.artifact_id, made.digest)
            artifacts.append(structs.replace(made, media_type=one.media_type, digest=name))
            contents.append(stored)
        inventory = structs.replace(
            whole,
            head=structs.replace(whole.head, title=seal.title(sid, whole.head.title)),
            waiting=tuple([seal.item(sid, item) for item in whole.waiting]),
            timers=tuple([seal.timer(sid, timer) for timer in whole.timers]),
            artifacts=tuple(artifacts),
        )
        return SessionImage(inventory, seal.records(sid, 0, image.records), tuple(contents))

    def _readable(self, due: Sequence[DueTimer]) -> Sequence[DueTimer]:
        readable: list[DueTimer] = []
        for timer in due:
            try:
                readable.append(self._open.due(timer))
            except SEAL_ERRORS as error:
                if (one := (timer.session_id, timer.timer_id)) not in self._left_out:
                    self._left_out.add(one)
                    _log.warning("a timer is not fired: %s", error)
        return readable

    async def _opened(self, session_id: str, rows: Sequence[StoredRecord]) -> Sequence[StoredRecord]:
        """Records of a session, opened. Only where one does not open as the session's own is asked whether it is a fork."""
        known = self._lineages.known(session_id)
        try:
            return [self._open.record(session_id, row, known) for row in rows]
        except SealBrokenError:
            if known:
                raise
            lineage = await self._lineages.find((await self._inner.lookup(session_id)).head)
            if not lineage:
                raise
        return [self._open.record(session_id, row, lineage) for row in rows]

    def _with_bases(self, made: Sequence[NewSession], work: Callable[[Lineages], Awaitable[T]]) -> Awaitable[T]:
        """What `work` answers when it has the lineages of the bases of those new sessions that are forks; it begins at once
        when there are none."""
        bases = {one.base.session_id for one in made if one.base is not None}
        return self._after_finding(bases, work) if bases else work({})

    async def _after_finding(self, bases: Iterable[str], work: Callable[[Lineages], Awaitable[T]]) -> T:
        heads = [(await self._inner.lookup(base)).head for base in bases]
        return await work({head.session_id: await self._lineages.find(head) for head in heads})

    async def _own_rows(self, head: Head) -> AsyncIterator[StoredRecord]:
        """The records of a session as they are stored, a page at a time, without those that it reads of a base."""
        session_id = head.session_id
        after = 0 if head.base is None else head.base.position
        while rows := await self._inner.read(session_id, after=after, limit=_PAGE):
            for row in rows:
                yield row
            after += len(rows)
            await breathe()

    async def _unopened(self, head: Head) -> AsyncIterator[LoopwrightError]:
        """The error of each value of the session that does not open; what a fork reads of its base is the base's."""
        sid, opening = head.session_id, self._open
        try:
            stored = await self._inner.inventory(sid)
        except ConfigError:  # database servers do not have it in this version: then what runs need is looked at
            found = await self._inner.lookup(sid)
            stored = Inventory(found.head, found.waiting, (), (), ())
        items = [partial(opening.item, sid, one) for one in stored.waiting]
        timers = [partial(opening.timer, sid, one) for one in stored.timers]
        attempts: list[Callable[[], object]] = [partial(opening.head, stored.head), *items, *timers]
        for attempt in attempts:
            if (error := _error_of(attempt)) is not None:
                yield error
        lineage = await self._lineages.find(head)
        async for row in self._own_rows(head):
            if (error := _error_of(partial(opening.record, sid, row, lineage))) is not None:
                yield error
        for one in stored.artifacts:
            try:
                offset = 0
                # As far as there is something: the size that is stored beside it may be anything.
                while data := await self.read_artifact(one.artifact_id, offset=offset, limit=SLICE_BYTES):
                    offset += len(data)
            except (*SEAL_ERRORS, StoreCorruptError) as error:
                yield error


async def _then(work: Awaitable[T], step: Callable[[T], U]) -> U:
    """What `step` makes of the result. The work was begun before this is awaited, so calls keep their order."""
    return step(await work)


def _made_by(ops: tuple[Op, ...]) -> Sequence[NewSession]:
    return [op.session for op in ops if isinstance(op, CreateSession)]


def _told(kept: Artifact, start: SealedArtifact | None) -> Artifact:
    return kept if start is None else structs.replace(kept, size=start.size, digest=start.digest)


def _error_of(attempt: Callable[[], object]) -> LoopwrightError | None:
    try:
        attempt()
    except SEAL_ERRORS as error:
        return error
    return None
