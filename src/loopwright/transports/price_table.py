"""Prices that a host writes down.

Owns: finding the entry of a model. Must not know: how a cost is computed (`core/pricing.py`).
Read next: `published_prices.py`, for prices that nobody has to write down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from ..core.pricing import TokenPrices, cost_of, price_problems
from ..late import Late
from ..model.errors import ConfigError
from ..model.usage import Usage
from ..ports.prices import Prices

if TYPE_CHECKING:
    from . import published_prices
else:
    published_prices = Late("loopwright.transports.published_prices")

_DATED: Final = re.compile(r"[-@]20\d{2}-?\d{2}-?\d{2}$")
"""How providers mark a version of a model in its name."""

_REMEMBERED: Final = 256
"""Models whose entry is not looked for again."""


class PriceTable:
    """A `Prices` over a table of models; concurrency: any.

    A key is the name of a model, with `*` for any characters, or `provider:name`: `gpt-5`, `gpt-5*`, `openai:gpt-5`,
    `ollama:*`. A name also fits the dated versions of the model (`gpt-5-2025-08-07`); capital letters count as small
    ones. Of several keys that fit, one without `*` counts before one with it, and a longer one before a shorter one.
    """

    def __init__(
        self,
        prices: Mapping[str, TokenPrices | Mapping[str, Any]],
        *,
        otherwise: Prices | Literal["auto"] | None = None,
    ) -> None:
        """`prices`: US dollars for a million tokens, as `TokenPrices` or as a mapping with its fields.

        `otherwise` is asked for models that the table does not have; "auto" are the list prices of providers.
        Raises: `ConfigError` that lists every problem; for "auto" `ImportError` that names the extra.
        """
        if not isinstance(prices, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise ConfigError(f"prices must be a mapping from models to their prices, not {type(prices).__name__}")
        given: dict[Any, Any] = dict(prices)
        problems = [f"prices of {name!r}: {problem}" for name, one in given.items() for problem in price_problems(one)]
        problems += [f"the name of a model must be text, not {name!r}" for name in given if not isinstance(name, str)]
        if otherwise is not None and otherwise != "auto" and not callable(getattr(otherwise, "cost", None)):
            problems.append(f'otherwise must be "auto" or a price list such as PriceTable({{...}}), not {otherwise!r}')
        if problems:
            raise ConfigError(problems)
        entries = {name: msgspec.convert(msgspec.to_builtins(one), TokenPrices) for name, one in given.items()}
        found = [(name, _pattern(name), entry) for name, entry in entries.items()]
        self._entries = sorted(found, key=lambda one: ("*" in one[0], -len(one[0])))
        self._otherwise = published_prices.PublishedPrices() if otherwise == "auto" else otherwise
        self._entry = lru_cache(maxsize=_REMEMBERED)(self._looked_up)

    def cost(self, usage: Usage, *, model: str, provider: str | None, at: float) -> int | None:
        """See `Prices.cost`."""
        entry = self._entry(model.lower(), (provider or "").lower())
        if entry is not None:
            return cost_of(entry, usage)
        if self._otherwise is not None:
            return self._otherwise.cost(usage, model=model, provider=provider, at=at)
        return None

    def _looked_up(self, model: str, provider: str) -> TokenPrices | None:
        # Names of local models have a colon of their own (`llama3:8b`), so both forms are held against each key.
        names = [name for plain in (model, _DATED.sub("", model)) for name in (plain, f"{provider}:{plain}")]
        fitting = (entry for _, pattern, entry in self._entries if any(pattern.fullmatch(name) for name in names))
        return next(fitting, None)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in name.lower().split("*")), re.DOTALL)
