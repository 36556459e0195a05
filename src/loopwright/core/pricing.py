"""What tokens cost: the rule, given the prices of a model.

Owns: token classes, tiers, rounding. Must not know: which model has which price, where prices come from.
Read next: `ports/prices.py`, `budgets.py` for what is reserved ahead of a call.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from msgspec import Struct

from ..model.usage import NANODOLLARS, Usage

PER_TOKENS: Final = 1_000_000
"""Prices are written as US dollars for so many tokens."""


class PriceTier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of calls whose input is longer; they count for all tokens of the call, not only for those above."""

    above_input_tokens: int
    input: float
    output: float
    cached: float | None = None
    """None: as `input`."""
    cache_write: float | None = None
    """None: as `input`."""


class TokenPrices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of one model, in US dollars for a million tokens."""

    input: float
    output: float
    """Reasoning included."""
    cached: float | None = None
    """Of input that the provider read from its cache; None: as `input`."""
    cache_write: float | None = None
    """Of input that it wrote there; None: as `input`."""
    tiers: tuple[PriceTier, ...] = ()


def price_problems(prices: TokenPrices) -> list[str]:
    """What is wrong with these prices; empty when nothing is."""
    found = [
        f"{name} must be 0 or more, in US dollars for a million tokens, not {value!r}"
        for one in (prices, *prices.tiers)
        for name in ("input", "output", "cached", "cache_write")
        if (value := getattr(one, name)) is not None and not (math.isfinite(value) and value >= 0)
    ]
    below = [tier.above_input_tokens for tier in prices.tiers if tier.above_input_tokens < 0]
    return found + [f"above_input_tokens must be 0 or more, not {tokens}" for tokens in below]


def cost_of(prices: TokenPrices, usage: Usage) -> int:
    """Nanodollars for the tokens of one call, rounded up to a whole one.

    Input that was cached or written to the cache is not counted as plain input a second time.
    """
    at: TokenPrices | PriceTier = prices
    for tier in sorted(prices.tiers, key=lambda one: one.above_input_tokens):
        if usage.input_tokens > tier.above_input_tokens:
            at = tier
    plain = max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
    cached = at.input if at.cached is None else at.cached
    written = at.input if at.cache_write is None else at.cache_write
    dollars = (
        plain * _exactly(at.input)
        + usage.cached_tokens * _exactly(cached)
        + usage.cache_write_tokens * _exactly(written)
        + usage.output_tokens * _exactly(at.output)
    )
    return math.ceil(dollars * NANODOLLARS / PER_TOKENS)


def nanodollars(usd: float) -> int:
    """A sum of US dollars as whole nanodollars, to the nearest one."""
    return round(_exactly(usd) * NANODOLLARS)


def _exactly(price: float) -> Fraction:
    """The number that was written: 0.1 is a tenth here, and not the nearest binary fraction."""
    return Fraction(str(price))
