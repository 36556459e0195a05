"""Token usage of model calls.

Owns: the one usage value and its arithmetic. Must not know: prices, providers.
Read next: `records.py`.
"""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one model call, or a sum over calls."""

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
    """True when any of the figures was estimated because a provider did not report it."""

    @property
    def total_tokens(self) -> int:
        """Input plus output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Sum of both; estimated when either was."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            self.estimated or other.estimated,
        )


NO_USAGE = Usage()
