"""What stands against a hold of money: one rule for every store that reads accounts before it writes.

Owns: caps, accounts of a hold, the range of amounts. Must not know: where accounts are kept, how they are locked.
Read next: `memory_money.py`, `sqlite_money.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model.errors import BudgetRefusedError, InvariantError
from ..ports.store import MOST_MONEY, HoldMoney


def keys_of(op: HoldMoney) -> tuple[str, ...]:
    """The accounts that it holds money in, each once."""
    return tuple(dict.fromkeys(cap.key for cap in op.caps))


def check_caps(op: HoldMoney, account: Callable[[str], tuple[int, int]]) -> None:
    """Raises `BudgetRefusedError` for the first cap that would be exceeded; `account` says what is spent and held."""
    for cap in op.caps:
        spent, held = account(cap.key)
        if spent + held + op.nanodollars > cap.limit:
            raise BudgetRefusedError(cap.key, limit=cap.limit, spent=spent, held=held, asked=op.nanodollars)


def check_amount(nanodollars: int) -> None:
    """Raises `InvariantError` for an amount that is no amount."""
    if not 0 <= nanodollars <= MOST_MONEY:
        raise InvariantError(f"{nanodollars} nanodollars are less than nothing, or too many; nothing was written")


def budget_problem(key: str, held: int, open_: int) -> tuple[str, str]:
    """(what, todo) of a finding: an account that holds `held`, and whose open holds come to `open_`."""
    return (
        f"budget {key!r} holds {held} nanodollars, and its open holds are {open_}",
        f"restore a backup, or set held of this row of lw_budgets to {open_} while nobody writes",
    )
