"""What the attempts of model calls cost, by the loop's price list.

Owns: asking the list, saying once that it does not know a model, figures of a service that cannot be. Must not know:
prices, budgets.
Whatever calls a model for a session (rounds, folds, evaluators, children) has its usage priced here.
Read next: `ports/prices.py`, `core/pricing.py`.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec import Struct

from ..core.calls import text_of
from ..model.event_types import AgentEventType
from ..model.usage import MOST_OF_ONE_CALL, NO_USAGE, Usage
from .kernel import Kernel
from .leaving import LEAVING
from .model_chain import provider_of

_log = logging.getLogger("loopwright.prices")

_told: set[str] = set()
"""What this process has said: models that it knows no price of, and figures that cannot be."""


class PricedModel(Struct, frozen=True):
    """A model as a price list knows it."""

    names: tuple[str, ...]
    """The name that the provider answered with, then the one that was asked for; the first with a price counts."""
    provider: str | None
    """The tag of its service; None when nobody says."""


def priced(
    kernel: Kernel, session_id: str, usage: Usage, names: tuple[str, ...], service: object, *, round_index: int = 0
) -> Usage:
    """`usage` of one attempt with what it cost, or with its calls counted as unpriced.

    `names`: of the model, see `PricedModel`; `service` is the one that was asked.
    Unchanged without a price list, without tokens, and where the service said itself what the call cost.
    """
    if kernel.prices is None or usage.total_tokens == 0 or usage.nanodollars:
        return usage
    model = PricedModel(names, provider_of(service))
    cost, why = looked_up(kernel, usage, model)
    if cost is not None and cost > MOST_OF_ONE_CALL:
        cost, why = None, ": the price list answered more than a million dollars for one call"
    if cost is None:
        _no_price(kernel, session_id, model, why, round_index)
        return msgspec.structs.replace(usage, unpriced_calls=max(usage.calls, 1))
    return msgspec.structs.replace(usage, nanodollars=cost)


def corrected(kernel: Kernel, session_id: str, usage: Usage, odd: str, model: str, *, round_index: int = 0) -> Usage:
    """What is left of a usage whose figure `odd` cannot be, which is said once for each model and figure.

    Tokens that cannot be leave nothing: they are estimated then. Without the cost that a service said, the loop's prices count.
    """
    left, instead = NO_USAGE, "its usage is estimated"
    if odd in ("nanodollars", "unpriced_calls"):
        unpriced = 0 if kernel.prices is not None else max(usage.calls, 1)
        left = msgspec.structs.replace(usage, nanodollars=0, unpriced_calls=unpriced)
        instead = "its cost is taken from the loop's prices, or counted as unpriced"
    what = f"the service of model {model or 'without a name'} gave {odd} that cannot be; {instead}; mend the service"
    _tell(kernel, session_id, f"{odd} of {model}", "usage_odd", what, round_index)
    return left


def price_of(kernel: Kernel, session_id: str, usage: Usage, model: PricedModel, *, round_index: int = 0) -> int | None:
    """Nanodollars for these tokens; None when no price is known, which is said once for each model."""
    cost, why = looked_up(kernel, usage, model)
    if cost is None and kernel.prices is not None:
        _no_price(kernel, session_id, model, why, round_index)
    return cost


def looked_up(kernel: Kernel, usage: Usage, model: PricedModel) -> tuple[int | None, str]:
    """Nanodollars for these tokens; without a price None, and what the list did wrong if it did."""
    prices, why = kernel.prices, ""
    if prices is None:
        return None, ""
    for name in dict.fromkeys(name for name in model.names if name) or ("",):
        try:
            cost = prices.cost(usage, model=name, provider=model.provider, at=kernel.ambient.now())
            if type(cost) is int and cost >= 0:
                return cost, ""
            if cost is not None:
                why = f": the price list answered {cost!r}, which is no whole number of nanodollars"
        except (Exception, *LEAVING, asyncio.CancelledError) as error:  # noqa: BLE001 - host code fails no run
            why = f": the price list raised {type(error).__name__}: {text_of(error)[:500]}"
    return None, why


def _no_price(kernel: Kernel, session_id: str, priced: PricedModel, why: str, round_index: int) -> None:
    name = next((name for name in priced.names if name), "")
    model = f"{priced.provider}:{name}" if priced.provider else name
    what = (
        f"no price for model {model or 'without a name'}{why}; its calls are counted as unpriced, and cost budgets do not"
        " bound them; give it a price with PriceTable"
    )
    _tell(kernel, session_id, model, "price_unknown", what, round_index)


def _tell(kernel: Kernel, session_id: str, about: str, status: str, what: str, round_index: int) -> None:
    if about in _told:
        return
    _told.add(about)
    _log.warning("%s", what)
    kernel.emit(session_id, AgentEventType.STATUS_CHANGED, status, what, round_index=round_index)
