"""What tokens cost: the rule, given the prices of a model.

Owns: token classes, tiers, rounding. Must not know: which model has which price, where prices come from.
Read next: `ports/prices.py`, `budgets.py` for what is reserved ahead of a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, cast

from msgspec import Struct, structs

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


def price_problems(given: object) -> list[str]:
    """Everything that keeps `given` from being prices of one model; empty when nothing does."""
    return _problems(given, TokenPrices, "")


def _problems(given: object, kind: type[TokenPrices | PriceTier], place: str) -> list[str]:
    if not isinstance(given, Mapping | kind):
        return [f"{place or 'an entry'} must be a {kind.__name__} or a mapping of its fields, not {given!r}"]
    fields = cast("Mapping[Any, Any]", given if isinstance(given, Mapping) else structs.asdict(given))
    found: list[str] = []
    for field in structs.fields(kind):
        where = f"{place}.{field.name}" if place else field.name
        if field.name not in fields:
            found += [f"{where} is missing"] if field.required else []
        elif field.name == "tiers":
            found += _tier_problems(fields["tiers"], where)
        elif (why := _figure_problem(field, fields[field.name])) is not None:
            found.append(f"{where} must be {why}, not {fields[field.name]!r}")
    known = ", ".join(kind.__struct_fields__)
    return found + [f"there is no {name!r}; known: {known}" for name in fields if name not in kind.__struct_fields__]


def _tier_problems(given: object, place: str) -> list[str]:
    if not isinstance(given, list | tuple):
        return [f"{place} must be a list of PriceTier, not {given!r}"]
    tiers = cast("list[object]", given)
    return [why for at, tier in enumerate(tiers) for why in _problems(tier, PriceTier, f"{place}[{at}]")]


def _figure_problem(field: structs.FieldInfo, value: object) -> str | None:
    if value is None and not field.required:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.name == "above_input_tokens":
        return None if is_number and isinstance(value, int) and value >= 0 else "a whole number of tokens, 0 or more"
    fine = isinstance(value, int | float) and is_number and math.isfinite(value) and value >= 0
    return None if fine else "0 or more, in US dollars for a million tokens"


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
