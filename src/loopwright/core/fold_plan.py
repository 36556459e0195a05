"""When the oldest part of the window is folded, and how much of it.

Owns: the rule. Must not know: how a note is written (`ports/fold.py`), models, clocks.
Two limits: at `trigger_ratio` of the budget a fold is made in the background, while the session goes on; a window over the
budget is folded before the model is asked. Whole sends go, the last `keep_last_sends` stay. When those alone are more than
the budget, the budget wins: fewer are kept; and only when the newest send alone is too much do its older replies go, each
with all its results.
Read next: `engine/folding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..late import Late
from ..model.context_records import FoldTrigger
from ..model.messages import AssistantMessage, FilePart, ImagePart, TextPart, UserMessage
from .context_state import ContextFacts, wait_after
from .decide import FoldPolicy
from .estimate import message_tokens, part_tokens, text_tokens
from .state import State
from .window import send_messages, shown_tokens, tokens_of, window_tokens

if TYPE_CHECKING:
    from . import request_tail
else:
    request_tail = Late("loopwright.core.request_tail")

NOTE_SHARE = 4
"""A note may be one part in so many of the budget."""
FREE_SHARE = 8
"""One part in so many of the budget is free after a fold, so that the next reply does not need another one, and a window
of other texts may turn out larger than expected."""
ROOM_SHARE = 2
"""A send whose own replies are folded is left with at most one part in so many of the budget."""
FOLD_SHARE = 4
"""One fold takes at most so many times the budget: more would need many model calls of which none may fail, in the time
of one fold. What is left goes with the next."""
DOUBT_SHARE = 20
"""One part in so many of the budget is left free when sizes come from a learned ratio: it is a mean, and no text is."""
BATCH_SHARE = 4
"""All results of one reply together may be shown as one part in so many of the budget."""
POINTER = 100
"""Tokens of what is said about the rest of a result, estimated."""
SHORT_POINTER = 15
"""Tokens of the words that only say where a result is, estimated."""
LEAST_SHOWN = POINTER + 25
"""Tokens of a result below which only a short pointer to it is shown."""


LEAST_NOTE = 125
"""Tokens of the frame of a note and of the shortest text that is kept in it."""
HARD_WAIT = 4
"""Replies after which a fold is tried again at the latest, where the next request would be over the budget."""


class FoldPlan(Struct, frozen=True, kw_only=True):
    """What is to be folded."""

    through: int
    """Label of the oldest send that stays."""
    after: int
    rounds: int = 0
    """Replies of that send that go, with their results."""
    trigger: FoldTrigger
    tokens_before: int
    """Real tokens as far as known, of the whole request."""
    note_tokens: int
    """What the note may be at most."""


def request_tokens(state: State, reserved: int = 0) -> int:
    """Expected size of the next request in the model's own tokens: instructions, tools, window and `reserved`."""
    context = state.facts.context
    fixed = 0 if context is None else context.epoch_tokens
    return int((window_tokens(state) + fixed) * ratio_of(state)) + reserved


def ratio_of(state: State) -> float:
    """Real tokens for one of our estimate, of the model that was learned from last; 1.0 while nobody knows."""
    context = state.facts.context
    return 1.0 if context is None else context.ratios.get(context.model, 1.0)


def reserved_tokens(state: State, policy: FoldPolicy, budget: int | None) -> int:
    """What stands behind the window of the next request: memory's share, and notes and todo list as they are."""
    context = state.facts.context
    most = policy.reserved_tokens if budget is None else min(policy.reserved_tokens, budget // request_tail.TAIL_SHARE)
    if context is None or not (context.notes or context.todo):
        return most
    room = request_tail.tail_room(budget, ratio_of(state))
    lists = int(
        tokens_of(request_tail.tail((), context.notes, context.todo, policy.notes_chars, room)) * ratio_of(state)
    )
    return lists + (most if budget is None else min(most, max(budget // request_tail.TAIL_SHARE - lists, 0)))


def due(state: State, policy: FoldPolicy, budget: int, *, hard: bool) -> FoldPlan | None:
    """The fold that the size of the window asks for; None when there is room, nothing to fold, or one failed lately.

    `hard`: only one without which the next request would be over the budget.
    """
    context = state.facts.context
    if context is not None and context.fold_wait > 0 and not (hard and _waited(context) >= HARD_WAIT):
        return None
    now = request_tokens(state, reserved_tokens(state, policy, budget))
    budget = _sure(state, budget)
    if now <= (budget if hard else budget * policy.trigger_ratio):
        return None
    return planned(state, policy, budget, "budget" if now > budget else "ratio")


def planned(state: State, policy: FoldPolicy, budget: int | None, trigger: FoldTrigger) -> FoldPlan | None:
    """The fold for this trigger, whatever the window's size; None when nothing can be folded.

    `budget` None: nobody said how much the model takes, so half of what is there has to go.
    """
    before = request_tokens(state, reserved_tokens(state, policy, budget))
    limit = _sure(state, budget) if budget is not None else max(before // 2, 1)
    ratio = ratio_of(state)
    note_tokens = max(min(policy.note_tokens, int(limit / ratio) // NOTE_SHARE), 1)
    note = int(note_tokens * ratio)
    fixed = before - int(window_tokens(state) * ratio)
    sizes = [int(shown_tokens(state, place) * ratio) for place in range(len(state.spans))]
    if not sizes:
        return None
    kept = min(max(policy.keep_last_sends, 1), len(sizes))
    over = trigger in ("budget", "overflow")
    room = limit - limit // FREE_SHARE
    while over and kept > 1 and fixed + note + sum(sizes[-kept:]) > room:
        kept -= 1
    first = len(sizes) - kept
    rounds = 0
    at_once = _at_once(state, first, int(FOLD_SHARE * limit / ratio))
    if at_once == first and over and kept == 1 and fixed + note + sizes[-1] > room:
        rounds = _rounds_to_go(state, (limit // ROOM_SHARE) - fixed - note, FOLD_SHARE * limit)
    first = at_once
    if first == 0 and rounds == 0:
        return None
    if trigger in ("budget", "ratio"):
        old = 0 if state.note is None else message_tokens(state.note)
        gone = old + sum(shown_tokens(state, place) for place in range(first))
        gone += _size_of_rounds(state, rounds)
        if gone <= LEAST_NOTE:
            return None  # the note would be as long as what it stands for
        note_tokens = min(note_tokens, gone - 1)
    return FoldPlan(
        through=state.spans[first][0],
        after=0 if state.facts.context is None else state.facts.context.through,
        rounds=rounds,
        trigger=trigger,
        tokens_before=before,
        note_tokens=note_tokens,
    )


def _waited(context: ContextFacts) -> int:
    """Replies since the last fold that failed."""
    return wait_after(context.fold_failures) - context.fold_wait


def _sure(state: State, budget: int) -> int:
    """What of the budget may be used by what is only expected to be so large."""
    context = state.facts.context
    return budget if context is None or not context.ratios else budget - budget // DOUBT_SHARE


def _at_once(state: State, first: int, most: int) -> int:
    """How many of the `first` oldest sends one fold takes, `most` tokens of their own words together.

    At least one, and more than fits into a note anyway: else a large send behind a small one would never go.
    """
    size = 0
    for place in range(first):
        before, size = size, size + tokens_of(send_messages(state, place))
        if size > most and before > LEAST_NOTE:
            return place
    return first


def _rounds_to_go(state: State, room: int, most: int) -> int:
    """How many of the newest send's replies have to go so that the rest fits, `most` tokens at once; the newest stays."""
    messages = send_messages(state, len(state.spans) - 1)
    sizes: list[int] = []
    said = 0
    for message in messages:
        size = int(message_tokens(message) * ratio_of(state))
        if isinstance(message, AssistantMessage):
            sizes.append(size)
        elif isinstance(message, UserMessage):
            said += size
        elif sizes:
            sizes[-1] += size
    gone = 0
    while gone < len(sizes) - 1 and said + sum(sizes[gone:]) > room and (not gone or sum(sizes[: gone + 1]) <= most):
        gone += 1
    return gone


def _batch_room(state: State, budget: int) -> int:
    """Estimated tokens of all results of one reply: less where people's words in this send, which stay, fill the budget."""
    messages = send_messages(state, len(state.spans) - 1) if state.spans else []
    said = tokens_of([message for message in messages if isinstance(message, UserMessage)])
    context = state.facts.context
    fixed = 0 if context is None else context.epoch_tokens
    whole = int(_sure(state, budget) / ratio_of(state))
    return max(min(whole // BATCH_SHARE, (whole - fixed - said) // 2), 0)


def shown_parts(state: State, content: Sequence[TextPart | ImagePart | FilePart]) -> int:
    """How many of the parts of a result, from the first on, have room with their pictures and files; texts are cut elsewhere."""
    send = state.facts.send
    budget = None if send is None else send.start.context_budget_tokens
    if budget is None:
        return len(content)
    left = _batch_room(state, budget) // max(len(state.batch), 1)
    for place, part in enumerate(content):
        left -= 0 if isinstance(part, TextPart) else part_tokens(part)
        if left < 0:
            return place
    return len(content)


def _size_of_rounds(state: State, rounds: int) -> int:
    """Estimated size of the newest send's first replies, with their results."""
    size = replies = 0
    for message in send_messages(state, len(state.spans) - 1) if rounds else ():
        replies += isinstance(message, AssistantMessage)
        if replies > rounds:
            break
        size += message_tokens(message) if replies and not isinstance(message, UserMessage) else 0
    return size


def shown_characters(state: State, text: str, limit: int) -> int:
    """How much of a result the model sees: `limit`, or less where the results of one reply would fill the budget.

    Characters of other scripts count for more, so it is the text that says how many of them there may be. 0: there is no
    room for a part and what is said about the rest, only for where it is.
    """
    send = state.facts.send
    budget = None if send is None else send.start.context_budget_tokens
    if budget is None:
        return limit
    share = _batch_room(state, budget) // max(len(state.batch), 1)
    shown = min(len(text), limit)
    if text_tokens(text[:shown]) <= max(share, SHORT_POINTER):
        return limit
    if share < LEAST_SHOWN:
        return 0
    room = share - POINTER
    while (size := text_tokens(text[:shown]) + text_tokens(text[-shown:])) > 2 * room:
        shown = min(shown * 2 * room // size, shown - 1)
    return max(shown, 1)
