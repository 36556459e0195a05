"""Money held in memory: accounts, open holds, and what a transition would make of them.

Owns: holding and settling in plain Python. Must not know: event loops, files, sessions beyond their ids.
Read next: `memory_rules.py`; `sqlite_money.py`, which does the same with statements.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec import Struct

from ..ports.ledger import BudgetAccount
from ..ports.store import HoldMoney
from .budget_guard import check_amount, check_caps, keys_of


class OpenHold(Struct, frozen=True):
    """Money set aside."""

    session_id: str
    nanodollars: int
    at: float
    """When its session was updated last, in UTC epoch seconds."""
    keys: tuple[str, ...]
    """The accounts that it is held in."""


@dataclass
class MoneyData:
    """All accounts and open holds."""

    accounts: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Key → (spent, held)."""
    holds: dict[str, OpenHold] = field(default_factory=dict[str, OpenHold])

    def account(self, key: str) -> BudgetAccount:
        """See `Ledger.budget`."""
        spent, held = self.accounts.get(key, (0, 0))
        return BudgetAccount(key, spent, held, sum(key in one.keys for one in self.holds.values()))

    def listed(self, after: str, limit: int) -> tuple[BudgetAccount, ...]:
        """See `Ledger.budgets`."""
        keys = sorted(key for key, money in self.accounts.items() if key > after and any(money))
        return tuple([self.account(key) for key in keys[:limit]])


class MoneyDraft:
    """Changes of accounts and holds, made beside the data until they are posted."""

    def __init__(self, data: MoneyData) -> None:
        self._data = data
        self._accounts: dict[str, tuple[int, int]] = {}
        self._holds: dict[str, OpenHold | None] = {}

    def hold(self, op: HoldMoney, session_id: str, at: float) -> None:
        """See `HoldMoney`."""
        check_amount(op.nanodollars)
        if self._open(op.hold_id) is not None:
            return
        check_caps(op, self._account)
        one = self._holds[op.hold_id] = OpenHold(session_id, op.nanodollars, at, keys_of(op))
        self._add(one.keys, 0, op.nanodollars)

    def settle(self, hold_id: str, nanodollars: int) -> None:
        """See `SettleMoney`."""
        check_amount(nanodollars)
        one = self._open(hold_id)
        if one is not None:
            self._holds[hold_id] = None
            self._add(one.keys, nanodollars, -one.nanodollars)

    def spend_of(self, session_ids: Collection[str]) -> None:
        """What these sessions hold counts as spent: they go."""
        ids = [hold_id for hold_id in {**self._data.holds, **self._holds} if self._is_of(hold_id, session_ids)]
        for hold_id in ids:
            if (one := self._open(hold_id)) is not None:
                self.settle(hold_id, one.nanodollars)

    def post(self) -> None:
        """Makes the changes."""
        self._data.accounts.update(self._accounts)
        for hold_id, one in self._holds.items():
            if one is None:
                self._data.holds.pop(hold_id, None)
            else:
                self._data.holds[hold_id] = one

    def _open(self, hold_id: str) -> OpenHold | None:
        return self._holds[hold_id] if hold_id in self._holds else self._data.holds.get(hold_id)

    def _is_of(self, hold_id: str, session_ids: Collection[str]) -> bool:
        one = self._open(hold_id)
        return one is not None and one.session_id in session_ids

    def _account(self, key: str) -> tuple[int, int]:
        return self._accounts.get(key) or self._data.accounts.get(key, (0, 0))

    def _add(self, keys: Collection[str], spent: int, held: int) -> None:
        for key in keys:
            before = self._account(key)
            self._accounts[key] = (before[0] + spent, before[1] + held)


def spend_of(data: MoneyData, session_ids: Collection[str]) -> None:
    """What these sessions hold counts as spent: they went."""
    draft = MoneyDraft(data)
    draft.spend_of(session_ids)
    draft.post()
