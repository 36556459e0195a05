"""The seam to price lists.

Owns: the one question that is asked of them. Must not know: any price.
Read next: `core/pricing.py` for the rule, `transports/price_table.py` and `transports/published_prices.py` for implementers.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..model.usage import Usage


@runtime_checkable
class Prices(Protocol):
    """What model calls cost.

    Asked once for each attempt that used tokens, and before calls that a cost budget bounds. What it raises is logged
    and taken as "not known": a price list never fails a run.
    """

    def cost(self, usage: Usage, *, model: str, provider: str | None, at: float) -> int | None:
        """Nanodollars (1e-9 US dollars) for the tokens of one call; None when the price is not known.

        `model` is the name that the provider answered with, or that was asked for; `provider` the tag of the service
        ("openai", "anthropic" …), None when nobody says; `at` UTC epoch seconds, since prices change. Never negative.
        Answers at once: it is called on the event loop, and must not do I/O.
        """
        ...
