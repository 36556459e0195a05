"""Whether a failed model call goes on with the next model of a chain.

Owns: the one rule for moving on. Staying with a model is the retry rule's (`retry.py`), which is asked first.
Must not know: services, clocks, events.
Read next: `engine/model_chain.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..model.errors import (
    LLMContextOverflowError,
    LLMError,
    LLMRequestError,
    LLMRetryExhausted,
    LLMTimeout,
    LoopwrightError,
)

_ELSEWHERE_IT_MAY_WORK = frozenset((401, 402, 403, 404, 410))
"""Refusals of an account, a key or a model, not of the request."""
_NO_SUCH_MODEL = frozenset(("model_not_found", "model_decommissioned", "model_not_available"))
_NO_CREDIT = frozenset(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"))


class MoveOn(Struct, frozen=True):
    """Ask the model at `place` of the chain; `reason` is the frozen code of what made the one before give up."""

    place: int
    reason: str


def after_model(error: BaseException, *, place: int, contexts: Sequence[int | None], tokens: int) -> MoveOn | None:
    """What follows when the model at `place` gave up with `error`; None: nothing, the call has failed.

    Moves on after exhausted retries and time-outs, and when an account, a key or a model is refused; not after a
    request that the next model would refuse as well, and not after a fault of a host's service that is no `LLMError`.
    A request that is too long goes to the next model whose declared context is larger: than that of the model that
    refused it or, where that is not declared, than the `tokens` that the window has by estimate.
    `contexts`: the declared context of each model in tokens, the first model's first; None where nobody declared it.
    """
    if place + 1 >= len(contexts):
        return None
    if isinstance(error, LLMContextOverflowError):
        at_least = contexts[place] or tokens
        for later in range(place + 1, len(contexts)):
            if (contexts[later] or 0) > at_least:
                return MoveOn(later, error.code)
        return None
    return MoveOn(place + 1, _reason(error)) if _may_work_elsewhere(error) else None


def _may_work_elsewhere(error: BaseException) -> bool:
    if isinstance(error, LLMRetryExhausted | LLMTimeout):
        return True
    if not isinstance(error, LLMRequestError):
        return False
    return error.status in _ELSEWHERE_IT_MAY_WORK or error.details.get("code") in _NO_SUCH_MODEL | _NO_CREDIT


def _reason(error: BaseException) -> str:
    last = error.last_error if isinstance(error, LLMRetryExhausted) else error
    return last.code if isinstance(last, LLMError | LoopwrightError) else type(last).__name__
