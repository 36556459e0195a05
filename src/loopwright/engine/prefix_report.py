"""Telling how much of each request the provider could reuse.

Owns: the event, and what is remembered of a request until the next one. Must not know: the comparison (`core/prefix.py`).
Loaded when somebody listens to `prompt_prefix`; without a listener nothing is remembered, and what the records tell is used
for the first request after that.
Read next: `core/prefix.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..core.estimate import fixed_tokens
from ..core.fold_plan import ratio_of
from ..core.prefix import INSTRUCTIONS, MESSAGES, TOOLS, Sent, before, judged, reuse
from ..core.window import is_projected, tokens_of, window_tokens
from ..model.event_types import AgentEventType
from ..model.messages import Message
from ..model.specs import ToolSpec
from ..ports.llm import LLMRequest, LLMResponse
from .running import RunContext


def told(run: RunContext, request: LLMRequest, response: LLMResponse) -> None:
    """Publishes `prompt_prefix` for a request that was answered, before its reply is in the journal."""
    state, actor = run.state, run.journal.actor
    now = _sent(run, request, response.model)
    then: Sent | None = actor.sent or before(state, now)
    actor.sent = now
    context = state.facts.context
    if context is not None and not now.edited & {INSTRUCTIONS, TOOLS}:
        fixed = context.epoch_tokens
    else:
        fixed = fixed_tokens(now.prompt, now.tools)
    found = reuse(then, now, state, fixed=fixed)
    ratio, usage = ratio_of(state), response.usage
    reusable = int(found.tokens * ratio)
    age = None if then is None or then.at is None or now.at is None else now.at - then.at
    broke = judged(found, usage, state.facts.usage, reusable=reusable, age_s=age)
    cached = None if usage.estimated else usage.cached_tokens
    run.emit(AgentEventType.PROMPT_PREFIX, int((fixed + now.tokens) * ratio), reusable, cached, broke)


def _sent(run: RunContext, request: LLMRequest, model: str) -> Sent:
    """What is to be remembered of a request: of a window that is sent as it is, only how long it is."""
    state, window = run.state, run.window()
    context = state.facts.context
    epoch = None if context is None else context.epoch
    messages = cast("tuple[Message, ...]", tuple(request.messages))
    stable = messages if request.stable is None else messages[: request.stable]
    specs = cast("Sequence[ToolSpec]", request.tools)
    edited = {
        INSTRUCTIONS: epoch is not None and request.system_prompt != epoch.instructions,
        TOOLS: tuple(specs) != tuple(run.specs()),
        MESSAGES: stable != window,
    }
    as_it_is = not edited[MESSAGES]
    return Sent(
        model=model,
        epoch=0 if epoch is None else epoch.number,
        folds=0 if context is None else context.folds,
        prompt=request.system_prompt,
        tools=specs,
        count=len(stable),
        tokens=window_tokens(state) if as_it_is else tokens_of(stable),
        messages=None if as_it_is and not is_projected(state) else stable,
        edited=frozenset([part for part, is_so in edited.items() if is_so]),
        at=run.kernel.ambient.monotonic(),
    )
