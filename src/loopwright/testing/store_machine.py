"""Random sequences of calls from several clients: a store must answer what the in-memory model answers.

    TestMyStore = store_machine(lambda place: MyStore(place / "data")).TestCase

Owns: the rules of the machine and the comparison. Must not know: any store but the model. Needs hypothesis.
Read next: `stores/memory_rules.py`, the model.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ..model.errors import LoopwrightError
from ..model.usage import Usage
from ..ports.store import (
    Acquire,
    BudgetCap,
    CreateSession,
    DropSession,
    DropTimer,
    EncodedRecord,
    HeadChange,
    HoldMoney,
    InboxItem,
    Lease,
    MarkItem,
    NewSession,
    Op,
    PutItem,
    PutTimer,
    SessionQuery,
    SettleMoney,
    TakeItems,
    Transition,
)
from ..ports.store_admin import SessionStore
from ..stores.memory import MemoryStore
from .store_kit import item, new_session, record, work

Answer: TypeAlias = Any
"""What a call answered, or the code of the error it raised, without what differs between any two stores."""

CLIENTS = 3
TTL_S = 1000.0


def _item(item_id: str, at: float) -> InboxItem:
    return item(item_id, at=at)


def _session(name: str, parent: str | None, lifecycle: str, at: float) -> NewSession:
    return new_session(name, parent_id=parent, lifecycle=lifecycle, at=at)


def _taking(item_ids: list[str]) -> TakeItems:
    return TakeItems(tuple(item_ids))


def _holding(hold_id: str, amount: int, limits: list[tuple[str, int]]) -> HoldMoney:
    return HoldMoney(hold_id, amount, tuple([BudgetCap(*one) for one in limits]))


def _record(text: str, at: float) -> EncodedRecord:
    return record(text, at=at)


sessions = st.sampled_from(["a", "b", "c", "d"])
items = st.sampled_from(["i1", "i2", "i3", "i4"])
timers = st.sampled_from(["t1", "t2"])
holds = st.sampled_from(["h1", "h2", "h3"])
budget_keys = st.sampled_from(["k1", "k2"])
times = st.integers(1, 50).map(float)
clients = st.integers(0, CLIENTS - 1)
tokens = st.sampled_from([b"token-one", b"token-two"])

puts: st.SearchStrategy[Op] = st.one_of(
    st.builds(PutItem, sessions, st.builds(_item, items, times)),
    st.builds(PutTimer, timers, times, st.binary(max_size=5)),
    st.builds(DropTimer, timers, st.one_of(st.none(), times)),
)
child_sessions = st.builds(
    _session,
    sessions,
    st.one_of(st.none(), sessions),
    st.sampled_from(["ephemeral", "linked", "detached"]),
    times,
)
money: st.SearchStrategy[Op] = st.one_of(
    st.builds(
        _holding, holds, st.integers(0, 9), st.lists(st.tuples(budget_keys, st.sampled_from([5, 15, 99])), max_size=3)
    ),
    st.builds(SettleMoney, holds, st.integers(0, 12)),
)
leased: st.SearchStrategy[Op] = st.one_of(
    puts,
    st.builds(_taking, st.lists(items, min_size=1, max_size=2)),
    st.builds(MarkItem, items),
    st.builds(CreateSession, child_sessions),
    st.builds(DropSession, sessions),
    money,
)
changes = st.builds(
    HeadChange,
    status=st.sampled_from([None, "idle", "running", "waiting"]),
    window_start=st.sampled_from([None, 0, 1]),
    sends=st.integers(0, 2),
    usage=st.builds(
        Usage,
        st.integers(0, 9),
        st.integers(0, 9),
        calls=st.integers(0, 1),
        estimated=st.booleans(),
        nanodollars=st.integers(0, 9),
        unpriced_calls=st.integers(0, 1),
    ),
    progress=st.booleans(),
    title=st.sampled_from([None, "T"]),
)
record_lists = st.lists(st.builds(_record, st.text("xyz", max_size=4), times), max_size=10)


def comparable(answer: Any, owners: Sequence[str]) -> Answer:
    """Owners by number and remaining times as "some": the parts in which two stores must not be equal."""
    text = msgspec.json.encode(answer).decode()
    for n, owner in enumerate(owners):
        text = text.replace(owner, f"owner-{n}")
    return _rounded(msgspec.json.decode(text))


def _kind(value: Any) -> str:
    return str(value.__class__.__name__)


def _rounded(value: Any) -> Any:
    kind = _kind(value)
    if kind == "dict":
        return {key: bool(part) if key == "expires_in_s" else _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if kind == "list" else value


class StoreMachine(RuleBasedStateMachine):
    """Makes every call on the model and on the store, from the same one of several clients, and compares."""

    make_store: Callable[[Path], SessionStore]

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="store-machine-")
        self._place = Path(self._folder.name)
        self._both: tuple[list[SessionStore], list[SessionStore]] = ([], [])
        self._owners: tuple[list[str], list[str]] = ([], [])
        self._epochs: dict[str, int] = {}

    @initialize()
    def open_clients(self) -> None:
        """Both sides, the same number of clients."""
        for side, stores in enumerate(self._both):
            stores += [self._open(side) for _ in range(CLIENTS)]

    @rule(client=clients, session=child_sessions)
    def create(self, client: int, session: Any) -> None:
        """`Store.create`."""
        self._compare(client, lambda store: store.create(session))

    @rule(
        client=clients,
        session_id=sessions,
        lease=st.one_of(st.builds(Acquire, tokens, st.just(TTL_S)), tokens),
        late=st.sampled_from([0, 0, 0, 0, 1]),
        records=record_lists,
        change=changes,
        shape=st.tuples(
            st.lists(leased, max_size=3), st.booleans(), st.sampled_from([None, None, 0, 1]), st.booleans()
        ),
    )
    def commit(
        self, client: int, session_id: str, lease: Any, late: int, records: Any, change: HeadChange, shape: Any
    ) -> None:
        """`Store.commit`, mostly at the right position and epoch."""
        ops, release, if_inbox, sync = shape
        held = lease if isinstance(lease, Acquire) else Lease(self._epochs.get(session_id, 1), lease)
        one = Transition(
            session_id=session_id,
            expect=self._position(session_id) + late,
            lease=held,
            records=tuple(records),
            head=change,
            ops=tuple(ops),
            release=release,
            if_inbox=if_inbox,
            sync=sync,
        )
        answer = self._compare(client, lambda store: store.commit(one))
        if isinstance(answer, dict):
            self._epochs[session_id] = answer["epoch"]

    @rule(client=clients, session_id=sessions, item_id=items, at=times, ops=st.lists(puts, max_size=2))
    def enqueue(self, client: int, session_id: str, item_id: str, at: float, ops: list[Op]) -> None:
        """`Store.enqueue`."""
        self._compare(client, lambda store: store.enqueue(session_id, item(item_id, at=at), tuple(ops)))

    @rule(client=clients, session_id=sessions, cascade=st.booleans())
    def delete(self, client: int, session_id: str, cascade: bool) -> None:
        """`StoreAdmin.delete`."""
        self._compare(client, lambda store: store.delete(session_id, cascade=cascade))

    @rule(client=clients, now=times)
    def claim(self, client: int, now: float) -> None:
        """`Store.claim`; the order of equals is nobody's promise."""
        self._compare(client, lambda store: store.claim(work(now=now)), ordered=False)

    @rule(client=clients, status=st.sampled_from([None, "idle", "running"]), parent=st.one_of(st.none(), sessions))
    def list_sessions(self, client: int, status: Any, parent: str | None) -> None:
        """`Store.list`."""
        query = SessionQuery(status=status, parent_id=parent)
        self._compare(client, lambda store: store.list(query), ordered=False)

    @rule(client=clients, session_ids=st.lists(sessions, unique=True))
    def renew(self, client: int, session_ids: list[str]) -> None:
        """`Store.renew`."""
        self._compare(client, lambda store: store.renew(session_ids, TTL_S))

    @rule(client=clients, gently=st.booleans())
    def reopen(self, client: int, gently: bool) -> None:
        """One client stops, politely or as if killed, and another one comes in its place."""
        for side, stores in enumerate(self._both):
            if gently:
                self._loop.run_until_complete(stores[client].aclose())
            else:
                stores[client].abandon()
            stores[client] = self._open(side)

    @invariant()
    def accounts_are_equal(self) -> None:
        """Money spent and held, by whomever."""
        if self._both[0]:
            self._compare(0, lambda store: store.budgets())
            self._compare(2, lambda store: store.budget("k1"))

    @invariant()
    def journals_are_equal(self) -> None:
        """Every session, read whole and looked up, is the same on both sides."""
        for session_id in ("a", "b", "c", "d") if self._both[0] else ():
            self._compare(0, functools.partial(_read, session_id))
            self._compare(1, functools.partial(_look_up, session_id))

    def teardown(self) -> None:
        """The store finds nothing wrong with itself, and closes."""
        if self._both[1]:
            assert self._answer(1, 0, lambda store: store.check()) == []
        for stores in self._both:
            for store in stores:
                self._loop.run_until_complete(store.aclose())
        self._loop.close()
        self._folder.cleanup()

    def _position(self, session_id: str) -> int:
        answer = self._answer(0, 0, lambda store: store.lookup(session_id))
        return 0 if type(answer) is str else int(answer["head"]["position"])

    def _compare(self, client: int, call: Callable[[SessionStore], Awaitable[Any]], *, ordered: bool = True) -> Answer:
        expected, got = (self._answer(side, client, call) for side in (0, 1))
        if not ordered:
            expected, got = _sorted(expected), _sorted(got)
        assert got == expected, f"the model answers {expected!r}, the store {got!r}"
        return got

    def _answer(self, side: int, client: int, call: Callable[[SessionStore], Awaitable[Any]]) -> Answer:
        stores = self._both[side]
        try:
            answer = self._loop.run_until_complete(_made(call, stores[client]))
        except LoopwrightError as error:
            return error.code
        return comparable(answer, self._owners[side])

    def _open(self, side: int) -> SessionStore:
        store = type(self).make_store(self._place) if side else MemoryStore(str(self._place))
        self._owners[side].append(store.owner)
        return store


def _read(session_id: str, store: SessionStore) -> Awaitable[Any]:
    return store.read(session_id)


def _look_up(session_id: str, store: SessionStore) -> Awaitable[Any]:
    return store.lookup(session_id, item_id="i1")


async def _made(call: Callable[[SessionStore], Awaitable[Any]], store: SessionStore) -> Any:
    return await call(store)


def _sorted(answer: Answer) -> Answer:
    kind = _kind(answer)
    if kind == "dict":
        return {key: _sorted(part) for key, part in answer.items()}
    return sorted(answer, key=repr) if kind == "list" else answer


def store_machine(make_store: Callable[[Path], SessionStore]) -> type[StoreMachine]:
    """A machine for one store; its `.TestCase` is what a test runner finds."""
    return type("StoreMachine", (StoreMachine,), {"make_store": staticmethod(make_store)})
