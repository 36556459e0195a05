"""What model calls used: tokens, and what they cost where a price was known.

Owns: the one usage value, its arithmetic, the unit of money. Must not know: prices, providers.
Read next: `records.py`, `core/pricing.py` for where a cost comes from.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Final

from msgspec import Struct

NANODOLLARS: Final = 1_000_000_000
"""How many make one US dollar. Money is counted in whole ones: sums of them are exact."""

MOST_OF_ONE_CALL: Final = 10**15
"""Tokens or nanodollars (a million US dollars) beyond which a figure is nobody's; sums of thousands of them fit into 64 bits."""


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens and cost of one model call, or a sum over calls."""

    input_tokens: int = 0
    """All input tokens, cached ones included."""
    output_tokens: int = 0
    """All output tokens, reasoning included."""
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider read from its cache."""
    cache_write_tokens: int = 0
    """Part of `input_tokens` that the provider wrote to its cache."""
    reasoning_tokens: int = 0
    """Part of `output_tokens` spent on reasoning, where the provider says so."""
    calls: int = 0
    """How many requests this stands for; failed and cancelled attempts count."""
    estimated: bool = False
    """True when any of the figures was estimated because a provider did not report it; the cost is then an estimate, too."""
    nanodollars: int = 0
    """What the calls with a known price cost, in billionths of a US dollar."""
    unpriced_calls: int = 0
    """Calls that used tokens at a price that was not known: what they cost is not in `nanodollars`.
    0 in a loop without prices, where nothing is counted."""

    @property
    def cost_usd(self) -> float:
        """`nanodollars` in US dollars."""
        return self.nanodollars / NANODOLLARS

    @property
    def total_tokens(self) -> int:
        """Input plus output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        """Sum of both; estimated when either was."""
        if self is NO_USAGE:  # nearly always: the first reply of a send
            return other
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            self.estimated or other.estimated,
            self.nanodollars + other.nanodollars,
            self.unpriced_calls + other.unpriced_calls,
        )


NO_USAGE = Usage()

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "calls",
    "nanodollars",
    "unpriced_calls",
)
"""Tokens before money: `odd_figure` names what makes the most of a usage worthless."""


def odd_figure(usage: object) -> str:
    """The first figure in the usage of one call that cannot be: of another type, negative or too large; "" when all can.

    "usage" for what is no `Usage` at all.
    """
    if usage is NO_USAGE:  # the provider said nothing, as most local ones do
        return ""
    if not isinstance(usage, Usage):
        return "usage"
    given: object = usage.estimated  # hosts' services are not always type-checked
    if given is not True and given is not False:
        return "estimated"
    for name in _COUNTS:
        value = getattr(usage, name)
        if type(value) is not int or not 0 <= value <= MOST_OF_ONE_CALL:
            return name
    return ""
