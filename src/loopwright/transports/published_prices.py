"""The list prices of known providers, from the package `genai-prices` (extra `prices`).

Owns: our tags of providers in the words of that list, our token classes in its own. Must not know: any price. The list
is that of the installed version and is never updated over the network from here: `pip install -U genai-prices` does it.
Source: genai-prices 0.2.3. Read next: `price_table.py`, for prices of one's own.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from ..model.usage import NANODOLLARS, Usage
from .vendors import canonical_vendor

try:
    import genai_prices
except ImportError as error:
    raise ImportError('published prices need the extra: pip install "loopwright[prices]"') from error

_THEIR_NAMES: Final = {"openai-responses": "openai", "together": "together-ai"}
"""Where the list calls a provider by another name."""


class PublishedPrices:
    """A `Prices` over the list prices of providers as of the time of the call; concurrency: any.

    A host's own contract, a gateway or a fine-tuned model may cost something else: put a
    `PriceTable({...}, otherwise="auto")` before it. Loading this module takes about 0.2 s.
    A provider that the list does not have is "not known", also where its models have names that the list has: what runs
    on a server of one's own does not cost what its vendor asks for.
    """

    def cost(self, usage: Usage, *, model: str, provider: str | None, at: float) -> int | None:
        """See `Prices.cost`."""
        tag = canonical_vendor(provider or "")
        used = genai_prices.Usage(
            input_tokens=max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens),
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        try:
            found = genai_prices.calc_price(
                used,
                model,
                provider_id=_THEIR_NAMES.get(tag, tag) or None,
                genai_request_timestamp=datetime.fromtimestamp(at, UTC),
            )
        except (LookupError, ValueError):
            return None
        return math.ceil(found.total_price * NANODOLLARS)
