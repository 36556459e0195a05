"""The window: what of a conversation the model is shown, as a pure function of the records.

Owns: where the note stands, which sends are shown as their projection, how big it is. Must not know: how projections
and notes are made, requests.
Read next: `fold_plan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.context_records import VERBATIM, SendProjected
from ..model.messages import Message
from .estimate import message_tokens
from .state import State


def window(state: State) -> tuple[Message, ...]:
    """The messages as the model sees them: the note, earlier sends as the session represents them, the newest send verbatim.

    A send without a projection of the representation in use is shown verbatim. Pure: the same records give the same
    messages in every process, and in forks.
    """
    shown: list[Message] = [] if state.note is None else [state.note]
    for place, (start, end) in enumerate(_slices(state)):
        projection = _projection(state, place)
        shown += projection.messages if projection is not None else state.messages[start:end]
    return tuple(shown)


def window_tokens(state: State) -> int:
    """Estimated size of the window."""
    if not is_projected(state):
        return state.tokens + (0 if state.note is None else message_tokens(state.note))
    return tokens_of(window(state))


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimated size of a list of messages."""
    return sum([message_tokens(message) for message in messages])


def is_projected(state: State) -> bool:
    """True when earlier sends are not shown verbatim."""
    epoch = None if state.facts.context is None else state.facts.context.epoch
    return epoch is not None and epoch.representation != VERBATIM


def send_messages(state: State, place: int) -> list[Message]:
    """What was said in the send of `state.spans[place]`, verbatim."""
    start, end = _slices(state)[place]
    return state.messages[start:end]


def send_asides(state: State, place: int) -> frozenset[int]:
    """Which of `send_messages` the engine said, and nobody asked for."""
    start, end = _slices(state)[place]
    return frozenset([aside - start for aside in state.asides if start <= aside < end])


def shown_tokens(state: State, place: int) -> int:
    """Estimated size of a send as the window shows it."""
    projection = _projection(state, place)
    return tokens_of(projection.messages if projection is not None else send_messages(state, place))


def unprojected(state: State, representation: str, version: int) -> list[int]:
    """Labels of finished sends of the window without a projection of this kind and version."""
    finished = state.spans if state.active is None else state.spans[:-1]
    missing: list[int] = []
    for label, _ in finished:
        known = state.projections.get(label)
        if known is None or (known.representation, known.version) != (representation, version):
            missing.append(label)
    return missing


def _slices(state: State) -> list[tuple[int, int]]:
    """Begin and end of each send in `messages`; what stands before the first one, in damaged journals, goes with it."""
    starts = [start for _, start in state.spans]
    if not starts:
        return [(0, len(state.messages))]
    starts[0] = 0
    return list(zip(starts, [*starts[1:], len(state.messages)], strict=True))


def _projection(state: State, place: int) -> SendProjected | None:
    """What stands for a send; None for the newest one and those to be shown verbatim."""
    if place >= len(state.spans) - 1:
        return None
    epoch = None if state.facts.context is None else state.facts.context.epoch
    if epoch is None or epoch.representation == VERBATIM:
        return None
    known = state.projections.get(state.spans[place][0])
    same = known is not None and (known.representation, known.version) == (
        epoch.representation,
        epoch.representation_version,
    )
    return known if same else None
