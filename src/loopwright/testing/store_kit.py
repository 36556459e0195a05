"""What the promises of a store are written with: clients of one data, values, a writer, waiting with a deadline.

Owns: test values and the life of clients. Must not know: any store.
Read next: `store_suite.py`.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

from msgspec import Struct

from ..ports.ambient import RealAmbient
from ..ports.store import (
    Acquire,
    ClaimQuery,
    Committed,
    EncodedRecord,
    Head,
    HeadChange,
    InboxItem,
    Lease,
    NewSession,
    Op,
    Transition,
)
from ..ports.store_admin import SessionStore

P = ParamSpec("P")
E = TypeVar("E", bound=Exception)

DEADLINE_S: Final = 20.0
"""How long a promise may take to come true on a loaded machine."""

AMBIENT: Final = RealAmbient()

TOKEN: Final = b"0123456789abcdef"

RUNNING: Final = HeadChange(status="running")
IDLE: Final = HeadChange(status="idle")


def record(text: str = "hello", *, kind: str = "user_message_added", at: float = 10.0) -> EncodedRecord:
    """A small record."""
    return EncodedRecord(kind, 1, at, f'{{"text":"{text}"}}'.encode())


def records(count: int) -> tuple[EncodedRecord, ...]:
    """Several records that differ."""
    return tuple(record(f"record {n}") for n in range(count))


def item(item_id: str = "item-1", *, at: float = 11.0, body: bytes = b'{"text":"hi"}') -> InboxItem:
    """An inbox item."""
    return InboxItem(item_id, "message", body, at)


def new_session(session_id: str = "s", **fields: Any) -> NewSession:
    """A session of agent "default" with one record, made at time 1."""
    given: dict[str, Any] = {"agent_name": "default", "records": (record("created"),), "at": 1.0}
    return NewSession(session_id=session_id, **(given | fields))


def work(*agent_names: str, now: float = 0.0, **fields: Any) -> ClaimQuery:
    """What can be claimed of these agents; of "default" when none is named."""
    given: dict[str, Any] = {"agent_names": agent_names or ("default",), "max_format": 1, "now": now}
    return ClaimQuery(**(given | fields))


class Caught(Struct):
    """The error that a `raises` block ended with."""

    error: Any = None


@contextmanager
def raises(kind: type[E]) -> Generator[Caught, None, None]:
    """The block must raise exactly this kind of error."""
    caught = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
        return
    raise AssertionError(f"{kind.__name__} was promised and nothing was raised")


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits for a condition to come true; fails after `DEADLINE_S`."""
    deadline = AMBIENT.monotonic() + DEADLINE_S
    while not await condition():
        if AMBIENT.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S:g} s: {what}")
        await AMBIENT.sleep(0.01)


async def ticks(count: int = 1) -> None:
    """Lets every other task run, `count` times."""
    for _ in range(count):
        await asyncio.wait({asyncio.ensure_future(_nothing())})


async def _nothing() -> None:
    return


class Writer:
    """A session with a lease on it, and where its journal stands."""

    def __init__(self, store: SessionStore, session_id: str, lease: Lease, committed: Committed) -> None:
        self.store = store
        self.session_id = session_id
        self.lease = lease
        self.committed = committed

    @property
    def position(self) -> int:
        """Where the next record goes."""
        return self.committed.position

    def transition(self, count: int = 1, **fields: Any) -> Transition:
        """The next transition of this writer, not offered yet."""
        given: dict[str, Any] = {"records": records(count), "expect": self.position, "lease": self.lease}
        return Transition(session_id=self.session_id, **(given | fields))

    async def write(self, count: int = 1, **fields: Any) -> Committed:
        """Commits `count` records."""
        self.committed = await self.store.commit(self.transition(count, **fields))
        return self.committed

    async def apply(self, *ops: Op) -> Committed:
        """Commits one record with operations."""
        return await self.write(ops=ops)


async def acquire(
    store: SessionStore, session_id: str = "s", *, token: bytes = TOKEN, ttl_s: float = 30.0, **fields: Any
) -> Writer:
    """Takes the lease where the journal stands, with one record, and sets the status to running."""
    head = await head_of(store, session_id)
    given: dict[str, Any] = {"expect": head.position, "records": (record("sent"),), "head": RUNNING}
    committed = await store.commit(Transition(session_id=session_id, lease=Acquire(token, ttl_s), **(given | fields)))
    return Writer(store, session_id, Lease(committed.epoch, token), committed)


async def begin(store: SessionStore, session_id: str = "s", **fields: Any) -> Writer:
    """A new session, acquired."""
    await store.create(new_session(session_id))
    return await acquire(store, session_id, **fields)


async def head_of(store: SessionStore, session_id: str = "s") -> Head:
    """The session's head."""
    return (await store.lookup(session_id)).head


async def texts(store: SessionStore, session_id: str = "s") -> list[bytes]:
    """The bodies of the whole journal; fails when positions have gaps."""
    found = await store.read(session_id)
    assert [one.position for one in found] == list(range(len(found))), "positions have gaps"
    return [one.body for one in found]


class StoreKit:
    """Clients of one data, each a store object as another process would have it."""

    def __init__(
        self, place: Path, make: Callable[[Path], SessionStore], reopen: Callable[[Path], SessionStore]
    ) -> None:
        self._place = place
        self._make = make
        self._reopen = reopen
        self._opened: list[SessionStore] = []

    def open(self) -> SessionStore:
        """One more client; the first one makes the data."""
        store = (self._reopen if self._opened else self._make)(self._place)
        self._opened.append(store)
        return store

    @contextmanager
    def folder(self) -> Generator[Path, None, None]:
        """An empty folder for what the test makes beside the data."""
        with tempfile.TemporaryDirectory(prefix="store-suite-") as folder:
            yield Path(folder)

    async def aclose(self) -> None:
        """Closes every client, in reverse order."""
        for store in reversed(self._opened):
            await store.aclose()


class StoreMaker:
    """What a suite needs to be told about a store: how to open one. Subclass `StoreSuite`, not this."""

    adds_bytes: ClassVar[bool] = False
    """True for a store that keeps more bytes than it is given, as one that encrypts does: then its figures say more."""

    fork_chain: ClassVar[int] = 1_100
    """How many forks of forks a store that forks is given; a store that only wraps another one needs fewer."""

    def make_store(self, place: Path) -> SessionStore:
        """A store object on the data at `place`, a folder of the test's own; made when there is none."""
        raise NotImplementedError("a store suite says here how its store is opened")

    def reopen(self, place: Path) -> SessionStore:
        """A second store object on the same data, as another process would open it."""
        return self.make_store(place)

    @contextmanager
    def place(self) -> Generator[Path, None, None]:
        """Where the data of one test lives."""
        with tempfile.TemporaryDirectory(prefix="store-suite-") as folder:
            yield Path(folder)


def promise(
    body: Callable[Concatenate[Any, StoreKit, P], Awaitable[None]],
) -> Callable[Concatenate[Any, P], None]:
    """Makes a test of an async promise: a fresh data, an event loop of its own, every client closed afterwards."""

    async def kept(suite: StoreMaker, *args: P.args, **kwargs: P.kwargs) -> None:
        with suite.place() as place:
            kit = StoreKit(place, suite.make_store, suite.reopen)
            try:
                await asyncio.wait_for(body(suite, kit, *args, **kwargs), DEADLINE_S * 2)
            finally:
                await kit.aclose()

    def test(suite: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(kept(suite, *args, **kwargs))

    # Named like the body, but without a way back to it: a test runner would take the kit for a fixture.
    functools.update_wrapper(test, body)
    del test.__dict__["__wrapped__"]
    return test
