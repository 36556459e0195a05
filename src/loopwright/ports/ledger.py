"""The seam to money: what was spent and is held in accounts that sessions share.

Owns: reading. Money is held and settled by operations of a transition (`HoldMoney`, `SettleMoney` in `store.py`). Must not
know: prices, models, who may spend how much.
Read next: `store.py`, `testing/store_ledger_promises.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct


class BudgetAccount(Struct, frozen=True, gc=False):
    """What one account has come to, in nanodollars (1e-9 USD)."""

    key: str
    spent: int = 0
    """Settled, since the account was made; it only grows."""
    held: int = 0
    """Set aside by holds that are open."""
    holds: int = 0
    """How many are open."""


class Ledger(Protocol):
    """Accounts of money, each as one consistent reading. Raises what every store call raises; see `Store`."""

    def budget(self, key: str) -> Awaitable[BudgetAccount]:
        """One account; one that nothing was ever held in has nothing in it."""
        ...

    def budgets(self, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[BudgetAccount]]:
        """Accounts with money spent or held, in the order of their keys, those with a key greater than `after`."""
        ...
