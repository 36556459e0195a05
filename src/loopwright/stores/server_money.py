"""Money on a server: what a batch must lock of accounts and holds, what it writes back, and reading.

Owns: the order in which rows are locked: after the heads, holds by id, then accounts by key. So no two batches wait for
each other. Must not know: any server's SQL, connections' lives, the rule of caps.
Read next: `memory_money.py` for the rules, `server_batch.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..ports.ledger import BudgetAccount
from .memory_money import MoneyData, OpenHold
from .server_dialect import ServerConnection, Statements


class BatchMoney:
    """The accounts and holds of one transaction: locked and read into `data`, written back from there."""

    def __init__(self, connection: ServerConnection, sql: Statements, data: MoneyData) -> None:
        self._connection = connection
        self._sql = sql
        self._data = data
        self._accounts: dict[str, tuple[int, int]] = {}
        self._holds: dict[str, OpenHold] = {}

    async def read(self, hold_ids: Collection[str], keys: Collection[str], going: Collection[str]) -> None:
        """Locks and reads these holds, those of the sessions that are `going`, their accounts and those of `keys`."""
        connection, sql = self._connection, self._sql
        rows: list[Sequence[Any]] = []
        if hold_ids:
            rows += await connection.rows(sql.HOLDS_LOCKED, sorted(hold_ids))
        if going:
            rows += await connection.rows(sql.HOLDS_OF_LOCKED, sorted(going))
        found = {hold_id: (session_id, nanodollars, at) for hold_id, session_id, nanodollars, at in rows}
        caps: dict[str, list[str]] = {hold_id: [] for hold_id in found}
        if found:
            for hold_id, key in await connection.rows(sql.HOLD_CAPS, sorted(found)):
                caps[hold_id].append(key)
        self._holds = {hold_id: OpenHold(*one, tuple(caps[hold_id])) for hold_id, one in found.items()}
        if keys:
            # A row that is not there cannot be locked. Made in the order in which it is locked.
            await connection.run_many(sql.ADD_BUDGET, [(key,) for key in sorted(keys)])
        if wanted := sorted({*keys, *(key for one in caps.values() for key in one)}):
            for key, spent, held in await connection.rows(sql.BUDGETS_LOCKED, wanted):
                self._accounts[key] = (spent, held)
        self._data.holds.update(self._holds)
        self._data.accounts.update(self._accounts)

    def changes(self) -> bool:
        """Whether anything is to be written."""
        return self._data.holds != self._holds or self._data.accounts != self._accounts

    async def write(self) -> None:
        """Stores what was changed in `data`."""
        connection, sql, data = self._connection, self._sql, self._data
        moved = [(*money, key) for key, money in data.accounts.items() if money != self._accounts.get(key)]
        if moved:
            await connection.run_many(sql.SET_BUDGET, moved)
        if over := [hold_id for hold_id in self._holds if hold_id not in data.holds]:
            await connection.run(sql.DROP_HOLD_CAPS, over)
            await connection.run(sql.DROP_HOLDS, over)
        if new := {hold_id: one for hold_id, one in data.holds.items() if hold_id not in self._holds}:
            rows = [(hold_id, one.session_id, one.nanodollars, one.at) for hold_id, one in new.items()]
            await connection.run_many(sql.INSERT_HOLD, rows)
            if caps := [(hold_id, key) for hold_id, one in new.items() for key in one.keys]:
                await connection.run_many(sql.INSERT_HOLD_CAP, caps)


async def budget(connection: ServerConnection, sql: Statements, key: str) -> BudgetAccount:
    """See `Ledger.budget`."""
    rows = await connection.rows(sql.BUDGET, key)
    return BudgetAccount(*rows[0]) if rows else BudgetAccount(key)


async def budgets(connection: ServerConnection, sql: Statements, after: str, limit: int) -> Sequence[BudgetAccount]:
    """See `Ledger.budgets`."""
    return [BudgetAccount(*row) for row in await connection.rows(sql.BUDGETS, after, limit)]
