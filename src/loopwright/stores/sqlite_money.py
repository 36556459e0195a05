"""Money in a SQLite file: holding, settling, reading, inside a transaction of somebody else.

Owns: the statements' order. Must not know: threads, when the transaction is committed.
Read next: `budget_guard.py`, `sqlite_writes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ports.ledger import BudgetAccount
from ..ports.store import HoldMoney
from . import sqlite_statements as sql
from .budget_guard import check_amount, check_caps, keys_of
from .sqlite_schema import Execute


def hold(execute: Execute, op: HoldMoney, session_id: str, at: float) -> None:
    """See `HoldMoney`. Raises `BudgetRefusedError`; then nothing was changed."""
    check_amount(op.nanodollars)
    if execute(sql.HOLD, (op.hold_id,)).fetchone() is not None:
        return

    def account(key: str) -> tuple[int, int]:
        found: tuple[int, int] | None = execute(sql.ACCOUNT, (key,)).fetchone()
        return found or (0, 0)

    check_caps(op, account)
    execute(sql.INSERT_HOLD, (op.hold_id, session_id, op.nanodollars, at))
    for key in keys_of(op):
        execute(sql.HOLD_IN, (key, op.nanodollars))
        execute(sql.INSERT_HOLD_CAP, (op.hold_id, key))


def settle(execute: Execute, hold_id: str, nanodollars: int) -> None:
    """See `SettleMoney`."""
    check_amount(nanodollars)
    found = execute(sql.HOLD, (hold_id,)).fetchone()
    if found is not None:
        execute(sql.SETTLE, (hold_id, found[0], nanodollars))
        execute(sql.DROP_HOLD_CAPS, (hold_id,))
        execute(sql.DROP_HOLD, (hold_id,))


def spend_of(execute: Execute, session_id: str) -> None:
    """What the session holds counts as spent: it goes."""
    for hold_id, nanodollars in execute(sql.HOLDS_OF, (session_id,)).fetchall():
        settle(execute, hold_id, nanodollars)


def budget(execute: Execute, key: str) -> BudgetAccount:
    """See `Ledger.budget`."""
    found = execute(sql.BUDGET, (key,)).fetchone()
    return BudgetAccount(key) if found is None else BudgetAccount(*found)


def budgets(execute: Execute, after: str, limit: int) -> Sequence[BudgetAccount]:
    """See `Ledger.budgets`."""
    return [BudgetAccount(*row) for row in execute(sql.BUDGETS, (after, limit)).fetchall()]
