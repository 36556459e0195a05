"""Money where things go wrong: lost connections, edited tables."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
from tests.contract.stores.server_cuts import cut_all
from tests.servers.asking import ask
from tests.waiting import next_turn

from loopwright import open_store
from loopwright.ports.ledger import BudgetAccount
from loopwright.ports.store import SettleMoney
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_kit import Writer, begin
from loopwright.testing.store_ledger_promises import hold

WRITERS = 6
TURNS = 25


async def spending(writer: Writer) -> None:
    """Holds and settles in one transition a turn, as a run that makes one model call after the other."""
    sid = writer.session_id
    for turn in range(TURNS):
        await writer.apply(SettleMoney(f"{sid}.{turn - 1}", 3), hold(f"{sid}.{turn}", 10, team=10**6, person=10**6))
    await writer.apply(SettleMoney(f"{sid}.{TURNS - 1}", 3))


async def test_connections_that_are_cut_neither_lose_nor_double_money(either: str) -> None:
    stores = [open_store(either), open_store(either)]
    writers = [await begin(stores[n % 2], f"s{n}") for n in range(WRITERS)]
    working = asyncio.gather(*[spending(writer) for writer in writers])
    cuts, written = 0, 0
    while not working.done():
        if (now := sum(writer.position for writer in writers)) > written + WRITERS * 2:
            await cut_all(either)
            cuts, written = cuts + 1, now
        await next_turn()
    await working
    assert cuts >= 3
    assert await stores[0].budget("team") == BudgetAccount("team", 3 * TURNS * WRITERS)
    assert list(await stores[0].check()) == []
    await asyncio.gather(*[store.aclose() for store in stores])


async def test_the_check_finds_an_account_that_does_not_fit_its_holds(either: str) -> None:
    store = open_store(either)
    await (await begin(store)).apply(hold("h", 5, team=10, person=10))
    await ask(either, "UPDATE lw_budgets SET held = 7 WHERE budget_key = 'team'")
    (found,) = await store.check()
    assert "'team' holds 7" in found.what
    assert "are 5" in found.what
    await store.aclose()


def test_the_check_of_a_file_finds_an_account_that_does_not_fit_its_holds(tmp_path: Path) -> None:
    async def verify() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await (await begin(store)).apply(hold("h", 5, team=10, person=10))
        other = apsw.Connection(str(tmp_path / "store.db"))
        other.execute("DELETE FROM lw_holds").fetchall()
        other.close()
        assert ["holds 5 nanodollars, and its open holds are 0" in one.what for one in await store.check()] == [
            True
        ] * 2
        await store.aclose()

    asyncio.run(verify())
