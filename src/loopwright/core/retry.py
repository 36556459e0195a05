"""When a failed model call is tried again, and after how long.

Owns: the one retry rule of the product. Must not know: clocks, sleeping, providers.
Read next: `engine/model_call.py`.
"""

from __future__ import annotations

from msgspec import Struct

from ..model.errors import ConfigError, LLMError
from .settings import type_problems


class LLMRetryPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempts and waits of one logical model call; the only retry layer there is."""

    max_attempts: int = 3
    """Requests in total, the first included."""
    backoff_initial_s: float = 0.5
    backoff_max_s: float = 8.0
    """Upper limit of our own waits; a provider's Retry-After may be longer, up to `total_timeout_s`."""
    total_timeout_s: float | None = 60.0
    """For all attempts and waits together, the call in flight included; None is unlimited."""
    retry_on: tuple[type[BaseException], ...] = ()
    """Exceptions of a host's own service that count as passing, beside typed `LLMError`s that say so."""

    def __post_init__(self) -> None:
        problems = list(type_problems(self, unchecked=frozenset({"retry_on"})).values())
        if not problems and self.max_attempts < 1:
            problems.append("max_attempts must be at least 1")
        if not problems and min(self.backoff_initial_s, self.backoff_max_s) < 0:
            problems.append("backoff_initial_s and backoff_max_s must not be negative")
        if problems:
            raise ConfigError(problems)


class Retry(Struct, frozen=True):
    """Try again after `wait_s` seconds."""

    wait_s: float


class GiveUp(Struct, frozen=True):
    """Do not try again; `exhausted` says that attempts or time ran out rather than that it cannot help."""

    exhausted: bool


def after_failure(
    policy: LLMRetryPolicy, error: BaseException, *, attempt: int, elapsed_s: float, jitter: float
) -> Retry | GiveUp:
    """What to do after attempt number `attempt` (from 1) failed; `jitter` is a random number in [0, 1).

    Waits double from `backoff_initial_s`, each between half and all of its length; Retry-After wins when longer.
    """
    if isinstance(error, LLMError):
        passing = error.retryable
    else:
        passing = isinstance(error, (TimeoutError, ConnectionError, *policy.retry_on))
    if not passing:
        return GiveUp(exhausted=False)
    if attempt >= policy.max_attempts:
        return GiveUp(exhausted=True)
    wait = min(policy.backoff_initial_s * 2 ** (attempt - 1), policy.backoff_max_s) * (0.5 + jitter / 2)
    if isinstance(error, LLMError) and error.retry_after_s is not None:
        wait = max(wait, error.retry_after_s)
    if policy.total_timeout_s is not None and elapsed_s + wait >= policy.total_timeout_s:
        return GiveUp(exhausted=True)
    return Retry(wait)
