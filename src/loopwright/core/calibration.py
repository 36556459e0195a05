"""What replies teach about our token counts: real tokens for one of our estimate, per model.

Owns: the rule. Must not know: who keeps what was learned (`engine/counting.py`), tokenizers.
A ratio that turns out too small rises at once, because what is expected too small goes over the budget; one that is
too large falls with a running mean of the first replies and a moving average after that. Requests of less than `SHARE` of the budget teach nothing: a provider's fixed overhead, some hundred
tokens with tools, would be read as a property of the text. A ratio is written when it rose by a percent or fell by five.
Read next: `fold_plan.py`, which uses it.
"""

from __future__ import annotations

from msgspec import Struct

from ..model.context_records import TokensCalibrated
from .fold_plan import ratio_of
from .state import State
from .window import window_tokens

LOWEST, HIGHEST = 0.25, 4.0
"""Between these a ratio is believed."""
MEMORY = 8
"""Replies that the moving average looks back, roughly."""
RISEN, FALLEN = 0.01, 0.05
"""Changes of a ratio, as shares, that are worth a record: what is expected too small goes over the budget."""
STEEPEST = 0.25
"""What one reply may add to a ratio, as a share: a single odd report must not fold a window."""
SHARE = 16
"""A request teaches from one part in so many of the budget."""
NEAR = 0.5
"""Share of the budget from which a request is worth being counted by a tokenizer."""


class Learned(Struct, frozen=True, gc=False):
    """What is known about one model."""

    ratio: float
    samples: int
    """Replies that it was learned from; 0 when a tokenizer said it, which the first reply overrules."""


def bounded(ratio: float) -> float:
    """A ratio that can be."""
    return min(max(ratio, LOWEST), HIGHEST)


def raw_tokens(state: State) -> int:
    """Our own count, as it is, of instructions, tools and window of the next request."""
    context = state.facts.context
    return window_tokens(state) + (0 if context is None else context.epoch_tokens)


def worth_counting(state: State, budget: int) -> bool:
    """True when the next request is so near its budget that a tokenizer should count it, and no reply has told its size."""
    context = state.facts.context
    if context is not None and context.samples.get(context.model):
        return False
    return raw_tokens(state) * ratio_of(state) >= budget * NEAR


def after(known: Learned | None, real: int, raw: int, budget: int) -> Learned | None:
    """What is known after a request of `raw` tokens by our count that had `real` ones; None when it teaches nothing."""
    if real <= 0 or raw * SHARE < budget:
        return None
    seen = bounded(real / raw)
    if known is None:
        return Learned(seen, 1)
    if seen > known.ratio:
        return Learned(bounded(min(seen, known.ratio * (1 + STEEPEST))), known.samples + 1)
    weight = max(1 / (known.samples + 1), 1 / MEMORY)
    return Learned(bounded(known.ratio + weight * (seen - known.ratio)), known.samples + 1)


def recorded(state: State, model: str) -> Learned | None:
    """What the session's journal says about a model."""
    context = state.facts.context
    if context is None or model not in context.ratios:
        return None
    return Learned(context.ratios[model], context.samples.get(model, 0))


def news(state: State, model: str, learned: Learned) -> TokensCalibrated | None:
    """The record of what replies taught; None when the journal says nearly the same.

    The first of a model is always written, and one when another model answered: sizes are expected by the newest record.
    """
    known, context = recorded(state, model), state.facts.context
    same = context is not None and context.model == model
    if same and known is not None and known.samples > 0 and not _moved(learned.ratio / known.ratio):
        return None
    return TokensCalibrated(model, round(learned.ratio, 4), learned.samples)


def counted(state: State, model: str, real: int) -> TokensCalibrated | None:
    """The record of what a tokenizer counted for the next request; None when it is nearly what was expected."""
    ratio = bounded(real / max(raw_tokens(state), 1))
    if real <= 0 or not _moved(ratio / ratio_of(state)):
        return None
    return TokensCalibrated(model, round(ratio, 4), 0)


def _moved(factor: float) -> bool:
    return factor > 1 + RISEN or factor < 1 - FALLEN
