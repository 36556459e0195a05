"""Promises of a store about money: held before it is spent, never beyond a limit, never counted twice, never lost.

Owns: tests of `HoldMoney`, `SettleMoney` and `Ledger`. Must not know: any store.
Read next: `ports/ledger.py`, `store_suite.py`.
"""

from __future__ import annotations

import asyncio

from msgspec import structs

from ..model.errors import BudgetRefusedError, InvariantError, SessionFencedError, SessionNotFoundError
from ..ports.ledger import BudgetAccount
from ..ports.store import (
    MOST_MONEY,
    BudgetCap,
    CreateSession,
    DropSession,
    HoldMoney,
    Lease,
    MarkItem,
    PutItem,
    PutTimer,
    SettleMoney,
)
from ..ports.store_admin import SessionStore
from .store_kit import (
    IDLE,
    TOKEN,
    StoreKit,
    Writer,
    acquire,
    begin,
    head_of,
    item,
    new_session,
    promise,
    raises,
    texts,
    work,
)


def hold(hold_id: str, amount: int, **limits: int) -> HoldMoney:
    """Money set aside in the accounts named, each with its limit."""
    return HoldMoney(hold_id, amount, tuple([BudgetCap(key, limit) for key, limit in limits.items()]))


async def account(store: SessionStore, key: str = "team") -> tuple[int, int, int]:
    """(spent, held, holds) of an account."""
    found = await store.budget(key)
    assert found.key == key
    return found.spent, found.held, found.holds


async def tries(writer: Writer, op: HoldMoney) -> bool:
    """False when it was refused."""
    try:
        await writer.apply(op)
    except BudgetRefusedError:
        return False
    return True


class HoldPromises:
    """A hold rides with its transition, and both are there or neither."""

    @promise
    async def test_money_is_held_in_all_accounts_and_spent_when_it_is_settled(self, kit: StoreKit) -> None:
        """Every client sees it. What was held and not spent is free again; what was spent beyond it counts as well."""
        writer, other = await begin(kit.open()), kit.open()
        assert await other.budget("team") == BudgetAccount("team")
        await writer.apply(hold("h1", 60, team=100, person=70))
        assert await account(other) == await account(other, "person") == (0, 60, 1)
        await writer.apply(hold("h2", 40, team=100))
        assert await account(other) == (0, 100, 2)
        await writer.apply(SettleMoney("h1", 55))
        assert (await account(other), await account(other, "person")) == ((55, 40, 1), (55, 0, 0))
        await writer.apply(SettleMoney("h2", 90))
        assert await account(other) == (145, 0, 0)
        assert list(await other.check()) == []

    @promise
    async def test_a_hold_may_reach_a_limit_and_not_exceed_it(self, kit: StoreKit) -> None:
        """The limit is the one that this hold brings; the error says how things stand."""
        store = kit.open()
        writer, other = await begin(store), await begin(store, "other")
        await writer.apply(hold("h1", 30, team=100))
        await writer.apply(SettleMoney("h1", 30), hold("h2", 20, team=100))
        with raises(BudgetRefusedError) as caught:
            await other.apply(hold("h3", 51, team=100))
        found = caught.error
        assert (found.key, found.limit, found.spent, found.held, found.asked) == ("team", 100, 30, 20, 51)
        await other.apply(hold("h3", 50, team=100))
        assert not await tries(other, hold("h4", 1, team=100))
        assert await tries(other, hold("h4", 1, team=101))
        assert await tries(other, hold("free", 0, team=101))
        assert await tries(other, HoldMoney("without accounts", 10**12, ()))
        assert await account(store) == (30, 71, 4)

    @promise
    async def test_nothing_is_held_when_one_of_several_accounts_refuses(self, kit: StoreKit) -> None:
        """Whichever it is."""
        writer = await begin(kit.open())
        for limits in ({"a": 9, "b": 99}, {"b": 99, "a": 9}):
            with raises(BudgetRefusedError) as caught:
                await writer.apply(hold("h", 10, **limits))
            assert caught.error.key == "a"
        assert await account(writer.store, "a") == await account(writer.store, "b") == (0, 0, 0)
        assert list(await writer.store.budgets()) == []

    @promise
    async def test_a_refused_hold_leaves_no_trace_of_any_part(self, kit: StoreKit) -> None:
        """What stands before it in the same transition has to be undone, other money too."""
        store = kit.open()
        writer = await begin(store)
        await store.create(new_session("other"))
        await writer.apply(hold("old", 5, team=100))
        before = await store.lookup("s")
        good = (
            MarkItem("marked"),
            PutItem("other", item("for-other")),
            PutTimer("t", 1.0, b"{}"),
            CreateSession(new_session("child")),
            SettleMoney("old", 5),
            hold("new", 10, team=100, person=100),
        )
        with raises(BudgetRefusedError):
            await writer.write(2, ops=(*good, hold("too much", 86, team=100)), head=IDLE)
        after = await store.lookup("s")
        assert structs.replace(after.head, expires_in_s=0) == structs.replace(before.head, expires_in_s=0)
        assert (await store.lookup("s", item_id="marked")).item_position is None
        assert (await head_of(store, "other")).inbox_seq == 0
        assert (await store.claim(work(now=5.0))).timers == ()
        with raises(SessionNotFoundError):
            await store.lookup("child")
        assert (await account(store), await account(store, "person")) == ((0, 5, 1), (0, 0, 0))
        await writer.write(2, ops=(*good, hold("not too much", 85, team=100)))
        assert await account(store) == (5, 95, 2)

    @promise
    async def test_one_refused_hold_of_a_tick_does_not_touch_the_others(self, kit: StoreKit) -> None:
        """They may share a transaction, not a fate."""
        store = kit.open()
        writers = [await begin(store, f"s{n}") for n in range(6)]
        amounts = (40, 70, 30, 31, 30, 29)
        offered = [
            writer.transition(2, ops=(MarkItem("x"), hold(writer.session_id, amount, team=100)))
            for writer, amount in zip(writers, amounts, strict=True)
        ]
        offered[2] = structs.replace(offered[2], lease=Lease(99, TOKEN))
        outcomes = await asyncio.gather(*(store.commit(one) for one in offered), return_exceptions=True)
        kinds = [type(one).__name__ for one in outcomes]
        refused = "BudgetRefusedError"
        assert kinds == ["Committed", refused, "SessionFencedError", "Committed", refused, "Committed"]
        assert [len(await texts(store, f"s{n}")) for n in range(6)] == [4, 2, 2, 4, 2, 4]
        assert await account(store) == (0, 100, 3)

    @promise
    async def test_the_fence_comes_before_the_money(self, kit: StoreKit) -> None:
        """Who lost the lease is not told about budgets, and holds nothing."""
        writer = await begin(kit.open())
        with raises(SessionFencedError):
            await writer.write(ops=(hold("h", 10, team=1),), lease=Lease(7, TOKEN))
        assert await account(writer.store) == (0, 0, 0)

    @promise
    async def test_a_hold_that_is_open_is_not_made_again(self, kit: StoreKit) -> None:
        """A transition that is tried again asks for the same; it is not refused for the room that it takes itself."""
        store, other = kit.open(), kit.open()
        writer, second = await begin(store), await begin(other, "other")
        await writer.apply(hold("h", 60, team=100))
        await writer.apply(hold("h", 60, team=100))
        await second.apply(hold("h", 70, team=100, person=1))
        assert (await account(store), await account(store, "person")) == ((0, 60, 1), (0, 0, 0))
        await second.apply(hold("twice", 1, team=100), hold("twice", 1, team=100))
        assert await account(store) == (0, 61, 2)


class LedgerPromises:
    """What is held is spent or given back once, whoever goes; accounts say so."""

    @promise
    async def test_a_settled_hold_is_settled_once(self, kit: StoreKit) -> None:
        """One that is not open is nothing, also when it never was."""
        writer = await begin(kit.open())
        await writer.apply(hold("h", 60, team=100))
        await writer.apply(SettleMoney("h", 10), SettleMoney("h", 10))
        await writer.apply(SettleMoney("h", 10), SettleMoney("never", 99))
        assert await account(writer.store) == (10, 0, 0)
        await writer.apply(hold("back", 90, team=100), SettleMoney("back", 0))
        assert await account(writer.store) == (10, 0, 0)
        assert await tries(writer, hold("h", 90, team=100))

    @promise
    async def test_an_account_named_twice_counts_once_and_its_hardest_limit(self, kit: StoreKit) -> None:
        """A session may be in a budget for two reasons."""
        writer = await begin(kit.open())
        caps = (BudgetCap("team", 100), BudgetCap("team", 50))
        assert not await tries(writer, HoldMoney("h", 51, caps))
        assert await tries(writer, HoldMoney("h", 50, caps))
        assert await account(writer.store) == (0, 50, 1)
        await writer.apply(SettleMoney("h", 7))
        assert await account(writer.store) == (7, 0, 0)

    @promise
    async def test_many_sessions_at_once_never_exceed_a_limit(self, kit: StoreKit) -> None:
        """64 of them from two clients, with accounts named in both orders: nobody waits for ever, and no room is lost."""
        clients = [kit.open(), kit.open()]
        writers = [await begin(clients[n % 2], f"s{n}") for n in range(64)]

        def asked(n: int, turn: int) -> HoldMoney:
            limits = {"a": 300, "b": 1000} if n % 4 < 2 else {"b": 1000, "a": 300}
            return hold(f"{n}.{turn}", 7, **limits)

        done = await asyncio.gather(*(tries(writer, asked(n, 0)) for n, writer in enumerate(writers)))
        assert sum(done) == 300 // 7
        assert await account(clients[0], "a") == await account(clients[1], "b") == (0, 294, 42)

        async def go_on(n: int, writer: Writer, holds: bool) -> int:
            if holds:
                await writer.apply(SettleMoney(f"{n}.0", 1))
            made = 0
            for turn in (1, 2):
                if await tries(writer, asked(n, turn)):
                    made += 1
                    spent, held, _ = await account(writer.store, "a")
                    assert spent + held <= 300, "more than the limit"
                    await writer.apply(SettleMoney(f"{n}.{turn}", 1))
            return made

        made = await asyncio.gather(*(go_on(n, one, done[n]) for n, one in enumerate(writers)))
        assert await account(clients[0], "a") == await account(clients[1], "b") == (42 + sum(made), 0, 0)
        assert list(await clients[0].check()) == []

    @promise
    async def test_what_a_deleted_session_held_counts_as_spent(self, kit: StoreKit) -> None:
        """Nobody can say any more that it was not. Its children go with it; a dropped child as well."""
        store = kit.open()
        writer = await begin(store)
        await store.create(new_session("linked", parent_id="s"))
        await store.create(new_session("short", parent_id="s", lifecycle="ephemeral"))
        await store.create(new_session("stays", parent_id="s", lifecycle="detached"))
        for n, child in enumerate(("linked", "short", "stays"), 1):
            await (await acquire(store, child)).apply(hold(child, n, team=100))
        await writer.apply(hold("own", 10, team=100, person=100))
        await writer.apply(DropSession("short"), SettleMoney("short", 1), hold("after", 1, team=100))
        assert await account(store) == (2, 15, 4)
        assert await store.delete("s") == 2
        assert (await account(store), await account(store, "person")) == ((14, 3, 1), (10, 0, 0))
        assert list(await store.check()) == []

    @promise
    async def test_totals_outlive_every_client(self, kit: StoreKit) -> None:
        """One that closes and one that is killed."""
        first = await begin(kit.open())
        await first.apply(hold("h1", 60, team=100))
        await first.write(ops=(SettleMoney("h1", 50),), sync=True, release=True)
        await first.store.aclose()
        second = await begin(kit.open(), "second")
        await second.write(ops=(hold("h2", 20, team=100),), sync=True)
        second.store.abandon()
        store = kit.open()
        assert await account(store) == (50, 20, 1)
        third = await begin(store, "third")
        assert not await tries(third, hold("h3", 31, team=100))
        await third.apply(SettleMoney("h2", 20))
        assert await account(store) == (70, 0, 0)

    @promise
    async def test_accounts_are_listed_by_their_keys(self, kit: StoreKit) -> None:
        """In pages; empty ones are left out, odd names are not."""
        writer = await begin(kit.open())
        keys = ("", "a", "b", "b ", "with 'quotes' and %", "ü", "漢字")
        for n, key in enumerate(keys):
            await writer.apply(HoldMoney(f"h{n}", 10 + n, (BudgetCap(key, 100),)))
        await writer.apply(HoldMoney("gone", 5, (BudgetCap("empty", 9),)))
        await writer.apply(SettleMoney("gone", 0), SettleMoney("h2", 2))
        listed = await writer.store.budgets()
        assert [one.key for one in listed] == list(keys[1:])
        assert listed[1] == await writer.store.budget("b") == BudgetAccount("b", 2, 0, 0)
        assert await account(writer.store, "") == (0, 10, 1)
        page = await writer.store.budgets(limit=2)
        assert [one.key for one in page] == ["a", "b"]
        assert [one.key for one in await writer.store.budgets(after="b", limit=2)] == list(keys[3:5])

    @promise
    async def test_amounts_have_a_range(self, kit: StoreKit) -> None:
        """The largest one fits; nothing negative, nothing beyond."""
        writer = await begin(kit.open())
        for wrong in (-1, MOST_MONEY + 1):
            for op in (hold("h", wrong, team=10**19), SettleMoney("h", wrong)):
                with raises(InvariantError):
                    await writer.apply(op)
        await writer.apply(hold("h", MOST_MONEY, team=10**19))
        await writer.apply(SettleMoney("h", MOST_MONEY))
        assert await account(writer.store) == (MOST_MONEY, 0, 0)

    @promise
    async def test_money_needs_a_lease(self, kit: StoreKit) -> None:
        """It does not ride with an inbox item, which anybody may send."""
        store = kit.open()
        await store.create(new_session())
        for op in (hold("h", 1, team=100), SettleMoney("h", 1)):
            with raises(InvariantError):
                await store.enqueue("s", item(), (op,))
        assert (await head_of(store)).inbox_seq == 0
