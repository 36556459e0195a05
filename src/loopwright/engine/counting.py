"""What replies and tokenizers say about the size of requests, put into the journal.

Owns: what this process learned, asking a tokenizer. Must not know: the rule (`core/calibration.py`), when folds are due.
Only sessions with a context budget come here. Each session has an average of its own, since its texts are its own; it
begins with what this loop learned of the model in other sessions, which counts like one reply.
Read next: `core/calibration.py`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from ..core.calibration import Learned, after, counted, news, raw_tokens, recorded, worth_counting
from ..core.calls import text_of
from ..core.estimate import fixed_tokens
from ..core.fold_plan import due
from ..core.window import tokens_of
from ..model.context_records import TokensCalibrated
from ..model.messages import Message
from ..model.specs import ToolSpec
from ..ports.llm import LLMRequest, LLMResponse
from ..ports.token_counter import TokenCounter
from .kernel import Kernel
from .running import RunContext
from .stopping import TimedOut, Won, race

_log = logging.getLogger("loopwright.counting")

COUNT_S = 5.0
"""How long a tokenizer may take."""


def learned(run: RunContext, budget: int, request: LLMRequest, response: LLMResponse) -> TokensCalibrated | None:
    """What a reply teaches, when it is news; to be written in the reply's commit."""
    if response.usage.estimated:
        return None
    kernel, actor, state = run.kernel, run.journal.actor, run.state
    model, real, raw = response.model, response.usage.input_tokens, _raw_of(run, request)
    known = (actor.learned or {}).get(model) or recorded(state, model) or _one(kernel.learned.get(model))
    own = after(known, real, raw, budget)
    if own is None:
        return None
    if actor.learned is None:
        actor.learned = {}
    actor.learned[model] = own
    kernel.learned[model] = after(kernel.learned.get(model), real, raw, budget) or own
    return news(state, model, own)


def _one(known: Learned | None) -> Learned | None:
    return None if known is None else Learned(known.ratio, 1)


def _raw_of(run: RunContext, request: LLMRequest) -> int:
    """Our own count of what was sent: that of the state, and what hooks and tail added."""
    state = run.state
    context = state.facts.context
    fixed = None if context is None or context.epoch is None else context.epoch.instructions
    if request.system_prompt == fixed and request.tools == run.specs():
        size = 0 if context is None else context.epoch_tokens
    else:
        size = fixed_tokens(request.system_prompt, cast("Sequence[ToolSpec]", request.tools))
    messages = cast("Sequence[Message]", request.messages)
    if len(messages) == len(window := run.window()) and messages == window:
        return raw_tokens(state) - (0 if context is None else context.epoch_tokens) + size
    return tokens_of(messages) + size


async def too_long(run: RunContext, budget: int, request: Callable[[], LLMRequest]) -> bool:
    """Asks a tokenizer about the next request where that may matter; True when it turns out to be over the budget.

    What it said is in the journal then, so that `decide` folds. Raises what a commit raises.
    """
    kernel, state, policy = run.kernel, run.state, run.kernel.limits.fold
    if policy is None or not kernel.counting or not worth_counting(state, budget):
        return False
    asked = request()
    model = asked.model or str(getattr(kernel.llm, "model", "") or "")
    real = await _count(run, kernel, asked, model)
    record = None if real is None else counted(state, model, real)
    if record is None:
        return False
    await run.journal.commit([record], progress=False)
    return due(run.state, policy, budget, hard=True) is not None


async def _asked(counter: TokenCounter, request: LLMRequest, model: str) -> int | None:
    said: Awaitable[int | None] | int | None = counter.count(request, model=model)  # hosts may write a plain one
    value = await said if inspect.isawaitable(said) else said
    if value is not None and not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"count() must answer a number or None, not {type(value).__name__}")
    return value


async def _count(run: RunContext, kernel: Kernel, request: LLMRequest, model: str) -> int | None:
    counter = None if kernel.context is None else kernel.context.token_counter
    counter = counter or (None if kernel.own_counter is None else kernel.own_counter())
    if counter is None:
        kernel.counting = False
        return None
    try:
        raced = await race(
            _asked(counter, request, model),
            run.token,
            kernel.deadlines,
            timeout_s=COUNT_S,
            grace_s=kernel.config.stop_grace_s,
        )
        if isinstance(raced, Won):
            return raced.value
        if not isinstance(raced, TimedOut):
            return None
        why = f"no answer within {COUNT_S:g} s"
    except Exception as error:  # noqa: BLE001 - a host's counter may raise anything; the estimate is used instead
        why = text_of(error)
    kernel.counting = False
    _log.warning("token counter %s is not asked again, sizes are estimated: %s", type(counter).__name__, why)
    return None
