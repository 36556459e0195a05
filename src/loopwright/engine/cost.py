"""What the attempts of model calls cost, by the loop's price list.

Owns: asking the list, and saying once that it does not know a model. Must not know: prices, budgets.
Whatever calls a model for a session (rounds, folds, evaluators, children) has its usage priced here.
Read next: `ports/prices.py`, `core/pricing.py`.
"""

from __future__ import annotations

import logging

import msgspec
from msgspec import Struct

from ..model.event_types import AgentEventType
from ..model.usage import Usage
from .kernel import Kernel
from .model_chain import provider_of

_log = logging.getLogger("loopwright.prices")

_told: set[str] = set()
"""Models that this process has said it knows no price of."""


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
    cost = price_of(kernel, session_id, usage, model, round_index=round_index)
    if cost is None:
        return msgspec.structs.replace(usage, unpriced_calls=max(usage.calls, 1))
    return msgspec.structs.replace(usage, nanodollars=cost)


def price_of(kernel: Kernel, session_id: str, usage: Usage, model: PricedModel, *, round_index: int = 0) -> int | None:
    """Nanodollars for these tokens; None when no price is known, which is said once for each model."""
    cost, why = looked_up(kernel, usage, model)
    if cost is None and kernel.prices is not None:
        name = next((name for name in model.names if name), "")
        _tell(kernel, session_id, f"{model.provider}:{name}" if model.provider else name, why, round_index)
    return cost


def looked_up(kernel: Kernel, usage: Usage, model: PricedModel) -> tuple[int | None, str]:
    """Nanodollars for these tokens; without a price None, and what the list did wrong if it did."""
    prices, why = kernel.prices, ""
    if prices is None:
        return None, ""
    for name in dict.fromkeys(name for name in model.names if name) or ("",):
        try:
            cost = prices.cost(usage, model=name, provider=model.provider, at=kernel.ambient.now())
        except Exception as error:  # noqa: BLE001 - a price list is host code and fails no run
            why = f": the price list raised {type(error).__name__}: {error}"
            continue
        if type(cost) is int and cost >= 0:
            return cost, ""
        if cost is not None:
            why = f": the price list answered {cost!r}, which is no whole number of nanodollars"
    return None, why


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
