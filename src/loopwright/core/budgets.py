"""Budgets of money: what to reserve ahead of a call, and what is left.

Owns: the estimate of a call, the room under several limits. Must not know: stores, prices of any model, what happens
when there is no room (`engine/`). All amounts are nanodollars.
Read next: `pricing.py`, `ports/ledger.py` for budgets that several runs share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ..model.usage import Usage
from .state import State

USUAL_REPLY_TOKENS: Final = 4096
"""Output that is reserved for where neither send nor settings limit it."""


class MoneyLimit(Struct, frozen=True):
    """One limit that a call falls under."""

    name: str
    """As a person knows it: "run", "session", or the key of a shared budget."""
    limit: int
    spent: int
    held: int = 0
    """Reserved by calls that are under way."""

    @property
    def left(self) -> int:
        """What may still be reserved; never negative."""
        return max(self.limit - self.spent - self.held, 0)


def expected_usage(window_tokens: int, *, ratio: float = 1.0, max_output_tokens: int | None = None) -> Usage:
    """The most that one call is expected to use, for the price list to say what it costs.

    `window_tokens`: the estimate for everything that is sent. `ratio`: how many tokens the model counts for one of ours,
    as calibrated; without one, 1. Nothing is taken as cached: the reservation is for a cache that is gone.
    """
    given = math.ceil(window_tokens * max(ratio, 0.0)) if math.isfinite(ratio) else window_tokens
    output = USUAL_REPLY_TOKENS if max_output_tokens is None else max_output_tokens
    return Usage(input_tokens=max(given, 0), output_tokens=max(output, 0), calls=1, estimated=True)


def limits_of(state: State, session_budget: int | None, beside: frozenset[str] = frozenset()) -> list[MoneyLimit]:
    """The limits of the open send and of its session. `beside`: reservations that do not count for the send."""
    context, limits = state.facts.context, list[MoneyLimit]()
    holds = {} if context is None else context.holds
    if (send := state.active) is not None and (budget := send.start.run_cost_budget) is not None:
        held = sum(hold.nanodollars for hold_id, hold in holds.items() if hold_id not in beside)
        limits.append(MoneyLimit("run", budget, send.usage.nanodollars, held))
    if session_budget is not None:
        held = sum(hold.nanodollars for hold in holds.values())
        limits.append(MoneyLimit("session", session_budget, state.facts.usage.nanodollars, held))
    return limits


def refusing(limits: Iterable[MoneyLimit], asked: int | None) -> MoneyLimit | None:
    """The first limit that has no room for `asked` more; None when the call may begin.

    `asked` is None when the price is not known: such a call can be stopped only by a limit that is used up already.
    """
    for one in limits:
        if one.spent + one.held + (asked or 0) > one.limit or (asked is None and one.left == 0):
            return one
    return None
