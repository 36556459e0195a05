"""What the attempts of model calls cost, by the loop's price list.

Owns: asking the list, and saying once that it does not know a model. Must not know: prices, budgets.
Whatever calls a model for a session (rounds, folds, evaluators, children) has its usage priced here.
Read next: `ports/prices.py`, `core/pricing.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from ..core.calls import text_of
from ..model.event_types import AgentEventType
from ..model.usage import Usage
from .kernel import Kernel
from .leaving import LEAVING

_log = logging.getLogger("loopwright.prices")

_told: set[str] = set()
"""Models that this process has said it knows no price of."""


def priced(kernel: Kernel, session_id: str, usage: Usage, models: Iterable[str], *, round_index: int = 0) -> Usage:
    """`usage` of one attempt with what it cost, or with its calls counted as unpriced.

    `models`: the name that the provider answered with, then the one that was asked for; the first with a price counts.
    Unchanged without a price list, without tokens, and where the service said itself what the call cost.
    """
    if kernel.prices is None or usage.total_tokens == 0 or usage.nanodollars:
        return usage
    cost = price_of(kernel, session_id, usage, models, round_index=round_index)
    if cost is None:
        return msgspec.structs.replace(usage, unpriced_calls=max(usage.calls, 1))
    return msgspec.structs.replace(usage, nanodollars=cost)


def price_of(
    kernel: Kernel, session_id: str, usage: Usage, models: Iterable[str], *, round_index: int = 0
) -> int | None:
    """Nanodollars for these tokens; None when no price is known, which is said once for each model."""
    prices = kernel.prices
    if prices is None:
        return None
    names = list(dict.fromkeys(name for name in models if name)) or [""]
    provider, why = provider_of(kernel), ""
    for name in names:
        try:
            cost = prices.cost(usage, model=name, provider=provider, at=kernel.ambient.now())
        except (Exception, *LEAVING, asyncio.CancelledError) as error:  # noqa: BLE001 - host code fails no run
            why = f": the price list raised {type(error).__name__}: {text_of(error)[:500]}"
            continue
        if type(cost) is int and cost >= 0:
            return cost
        if cost is not None:
            why = f": the price list answered {cost!r}, which is no whole number of nanodollars"
    _tell(kernel, session_id, f"{provider}:{names[0]}" if provider else names[0], why, round_index)
    return None


def provider_of(kernel: Kernel) -> str | None:
    """The tag of the service that is asked; None when it does not say."""
    provider = getattr(kernel.llm, "provider", None)
    return provider if isinstance(provider, str) and provider else None


def _tell(kernel: Kernel, session_id: str, model: str, why: str, round_index: int) -> None:
    if model in _told:
        return
    _told.add(model)
    what = (
        f"no price for model {model or 'without a name'}{why}; its calls are counted as unpriced, and cost budgets do not"
        " bound them; give it a price with PriceTable"
    )
    _log.warning("%s", what)
    kernel.emit(session_id, AgentEventType.STATUS_CHANGED, "price_unknown", what, round_index=round_index)
