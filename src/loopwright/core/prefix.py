"""How much of a request a provider can have in its cache, and why it is less than it could be.

Owns: the comparison of a request with the one before it. Must not know: providers' caches, events, who remembers requests
(`engine/prefix_report.py`).
A cache holds beginnings: instructions and tools first, then the messages. So one changed byte ends what can be reused.
Read next: `window.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..model.messages import AssistantMessage, Message
from ..model.specs import ToolSpec
from ..model.usage import Usage
from .state import State
from .window import is_projected, send_messages, shown_tokens, tokens_of

SMALLEST = 1024
"""Tokens of the shortest prefix that the large providers keep; that a shorter one was not reused means nothing."""
INSTRUCTIONS, TOOLS, MESSAGES = "instructions", "tools", "messages"


class Sent(Struct, frozen=True):
    """The stable part of a request: what the next one is compared with."""

    model: str
    """Who answered."""
    epoch: int
    """Number of the prompt epoch; 0 without one."""
    folds: int
    prompt: str | None
    tools: Sequence[ToolSpec]
    count: int
    """Messages."""
    tokens: int
    """Our own count of them."""
    messages: tuple[Message, ...] | None = None
    """None: the first `count` of the window as it is; a window only grows until the next fold."""
    edited: frozenset[str] = frozenset()
    """Which parts a hook changed."""
    more: bool = False
    """It held more, which is shown otherwise now."""
    known: bool = True
    """False for one of an earlier epoch that the records tell of: nothing says what its instructions and tools were."""
    at: float | None = None
    """When, on the clock of this process; None for a request of another one."""


class Reuse(Struct, frozen=True):
    """What a request has in common with the one before."""

    tokens: int
    """By our own count."""
    broke: str | None


def before(state: State, now: Sent) -> Sent | None:
    """The request before, as far as the records tell: it ended right before the newest reply. None when there was none.

    What a hook changed in it nobody knows any more.
    """
    messages = state.messages
    place = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], AssistantMessage)), None)
    context = state.facts.context
    if place is None:
        return None
    epoch = now.epoch if context is None else context.replied_epoch
    same = epoch == now.epoch
    then = Sent(
        model="" if context is None else context.replied_model,
        epoch=epoch,
        folds=0 if context is None else context.replied_folds,
        prompt=now.prompt if same else None,
        tools=now.tools if same else (),
        known=same,
        count=(0 if state.note is None else 1) + place,
        tokens=max(now.tokens - tokens_of(messages[place:]), 0),
    )
    if not is_projected(state):
        return then
    last = len(state.spans) - 1
    if place >= state.spans[last][1]:
        return replace(then, messages=tuple(now.messages or ())[: place - len(messages)])
    earlier = now.tokens - tokens_of(send_messages(state, last)) - shown_tokens(state, last - 1)
    return replace(then, tokens=max(earlier, 0), more=True)


def reuse(then: Sent | None, now: Sent, state: State, *, fixed: int) -> Reuse:
    """What `now` has of the beginning of `then`, and what broke the rest. `fixed`: tokens of instructions and tools."""
    if then is None:
        return Reuse(0, "first request")
    if then.model != now.model and then.model and now.model:
        return Reuse(0, f"another model: {now.model} after {then.model}")
    changed = _changed(then, now, state)
    if changed is not None:
        return Reuse(0, changed)
    if then.folds != now.folds and then.messages is None:
        return Reuse(fixed, "fold")
    if then.more:
        return Reuse(fixed + then.tokens, "representation")
    if then.messages is None and now.messages is None:
        return Reuse(fixed + then.tokens, None)
    theirs = then.messages if then.messages is not None else _verbatim(state, then.count)
    ours = now.messages if now.messages is not None else _verbatim(state, now.count)
    same = _common(theirs, ours)
    return Reuse(fixed + tokens_of(ours[:same]), None if same == len(theirs) else _why(then, now, same))


def judged(found: Reuse, usage: Usage, total: Usage, *, reusable: int, age_s: float | None) -> str | None:
    """Why the cache did not help; also when nothing broke and a provider that is known to have one still reused nothing.

    `total`: the session's usage before. `reusable`: `found.tokens` in the model's own tokens.
    """
    if found.broke is not None or usage.estimated or usage.cached_tokens or reusable < SMALLEST:
        return found.broke
    if not total.cached_tokens and not total.cache_write_tokens:
        return None  # one that never said so may have no cache
    when = "expired" if age_s is None else f"expired after {age_s:.0f} s"
    return f"the provider reported nothing reused ({when} or evicted)"


def _changed(then: Sent, now: Sent, state: State) -> str | None:
    """What is new in instructions and tools."""
    parts = [INSTRUCTIONS] if then.prompt != now.prompt else []
    parts += [TOOLS] if tuple(then.tools) != tuple(now.tools) else []
    context = state.facts.context
    other_epoch = then.epoch != now.epoch and context is not None and context.epoch is not None
    if not parts and then.known:
        return None
    edited = [part for part in parts if part in then.edited or part in now.edited]
    if edited:
        return f"a hook changed the {' and the '.join(edited)}"
    if other_epoch and context is not None and context.epoch is not None:
        return f"epoch: {context.epoch.reason}"
    return f"the {' and the '.join(parts)} changed"


def _why(then: Sent, now: Sent, same: int) -> str:
    if then.folds != now.folds:
        return "fold"
    if MESSAGES in now.edited or MESSAGES in then.edited:
        return f"a hook changed message {same + 1}"
    return "representation"


def _verbatim(state: State, count: int) -> tuple[Message, ...]:
    """The first messages of a window that is shown verbatim."""
    note = () if state.note is None else (state.note,)
    return (*note, *state.messages[: count - len(note)])


def _common(a: Sequence[Message], b: Sequence[Message]) -> int:
    """How many messages both begin with."""
    if a == b[: len(a)]:
        return len(a)
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
