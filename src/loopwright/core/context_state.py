"""What records of `context_records.py` make of a session's state.

Owns: `ContextFacts`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `window.py`, `fold_plan.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it reads a checkpoint.

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from ..late import Late
from ..model.context_records import (
    CostReserved,
    CostSettled,
    FoldFailed,
    FoldMade,
    NoteWritten,
    PromptEpochStarted,
    SendProjected,
    TodoWritten,
    TokensCalibrated,
)
from ..model.errors import CancellationRequested
from ..model.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from ..model.notes import Note, TodoItem
from ..model.records import Record
from ..model.usage import Usage
from .estimate import fixed_tokens, message_tokens
from .state import State

if TYPE_CHECKING:
    import bisect

    from . import note_rules
else:
    bisect = Late("bisect")
    note_rules = Late("loopwright.core.note_rules")

LONGEST_WAIT = 32
"""Replies that pass before a fold is tried again, at most."""
SUPERSEDED = "fold.superseded"
VETOED = "fold.vetoed"
_NO_FAULT = (SUPERSEDED, CancellationRequested.code)
"""Endings that say nothing of the strategy: the next fold does not wait for them."""


class ContextFacts(Struct):
    """What is known beside the conversation; part of `Facts`, so checkpoints hold it."""

    epoch: PromptEpochStarted | None = None
    epoch_tokens: int = 0
    """Estimated, of its instructions and tools."""
    replied_epoch: int = 0
    """Number of the epoch in which the newest reply came; 0 without one."""
    replied_folds: int = 0
    """`folds` as they were then."""
    replied_model: str = ""
    """Who gave it; "" when nobody said, and before there was any of these facts."""
    through: int = 0
    """Everything that started before this position is folded; 0 when nothing is."""
    folds: int = 0
    fold_failures: int = 0
    """In a row."""
    fold_wait: int = 0
    """Replies to come before a fold is tried again."""
    fold_usage: Usage = Usage()
    """Of all folds of this session, part of its usage."""
    notes: tuple[Note, ...] = ()
    """Oldest first."""
    todo: tuple[TodoItem, ...] = ()
    model: str = ""
    """Of the newest ratio."""
    ratios: dict[str, float] = field(default_factory=lambda: {})
    """By model: real tokens for one of our estimate."""
    samples: dict[str, int] = field(default_factory=lambda: {})
    holds: dict[str, CostReserved] = field(default_factory=lambda: {})
    """Reservations that were not settled, by id."""


def known_facts(stored: Any) -> ContextFacts:
    """The facts of a checkpoint. Raises `msgspec.ValidationError` when this version cannot read them."""
    return msgspec.convert(stored, ContextFacts)


def of(state: State) -> ContextFacts:
    """The state's context facts, made when there are none."""
    if state.facts.context is None:
        state.facts.context = ContextFacts()
    return state.facts.context


def refusal(state: State, record: Record) -> str | None:
    """Why a record of these kinds must not follow; None when it may."""
    if isinstance(record, PromptEpochStarted | SendProjected | FoldMade) and state.batch:
        return f"call {state.open_calls()[0].call.id!r} is not answered"
    if isinstance(record, FoldMade):
        through = 0 if state.facts.context is None else state.facts.context.through
        if record.after != through:
            return f"the window was folded up to {through} meanwhile, not to {record.after}"
        if all(position != record.through for position, _ in state.spans):
            return f"no send of the window starts at {record.through}"
    if isinstance(record, CostReserved) and record.hold_id in of(state).holds:
        return f"reservation {record.hold_id!r} is open already"
    if isinstance(record, CostSettled) and record.hold_id not in of(state).holds:
        return f"reservation {record.hold_id!r} is not open"
    return None


def _epoch(state: State, record: PromptEpochStarted, at: float) -> None:
    facts = of(state)
    facts.epoch = record
    facts.epoch_tokens = fixed_tokens(record.instructions, record.tools)


def _projected(state: State, record: SendProjected, at: float) -> None:
    if any(position == record.send for position, _ in state.spans):
        state.projections[record.send] = record
        state.has_parts = state.has_parts or _have_parts(record.messages)


def _fold_made(state: State, record: FoldMade, at: float) -> None:
    _fold_heard(state, record, at)
    facts = of(state)
    facts.through = record.through
    facts.folds += 1
    facts.fold_failures = facts.fold_wait = 0
    if (send := state.facts.send) is not None:
        if send.overflow:
            send.extra_turn = True  # the round that was refused is tried again, it is not another one
        send.overflow = ""
        send.refolded = True
    _spent_on_fold(state, record.usage)


def _fold_heard(state: State, record: FoldMade, at: float) -> None:
    """What the fold does to the window; whatever of it was never read is gone already."""
    spans = state.spans
    first = bisect.bisect_left(spans, (record.through, 0))
    cut = spans[first][1] if first < len(spans) else len(state.messages)
    end = spans[first + 1][1] if first + 1 < len(spans) else len(state.messages)
    gone, kept = state.messages[:cut], state.messages[cut:end]
    asides = {place - cut for place in state.asides if cut <= place < end}
    if record.rounds and first < len(spans) and spans[first][0] == record.through:
        kept, asides, dropped = without_rounds(kept, record.rounds, asides)
        gone = [*gone, *dropped]
    shift = end - len(kept)
    state.asides = asides | {place - shift for place in state.asides if place >= end}
    state.spans = [(position, start - shift if place else 0) for place, (position, start) in enumerate(spans[first:])]
    state.tokens -= sum([message_tokens(message) for message in gone])
    state.messages = [*kept, *state.messages[end:]]
    state.projections = {at: one for at, one in state.projections.items() if at >= record.through}
    state.has_parts = _have_parts(state.messages) or any(
        _have_parts(one.messages) for one in state.projections.values()
    )
    state.note = UserMessage(record.note)


def _have_parts(messages: Iterable[Message]) -> bool:
    return any(type(getattr(message, "content", None)) is tuple for message in messages)


def without_rounds(
    messages: list[Message], rounds: int, asides: Set[int]
) -> tuple[list[Message], set[int], list[Message]]:
    """(what stays, places in it of what the engine said, what goes) of one send without its first `rounds` replies.

    What people said stays, however old; what the engine said between the folded replies goes with them.
    """
    stay: list[Message] = []
    left: set[int] = set()
    gone: list[Message] = []
    replies = 0
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            replies += 1
        own = place in asides
        if replies > rounds or (isinstance(message, UserMessage) and not (own and replies > 0)):
            if own:
                left.add(len(stay))
            stay.append(message)
        elif isinstance(message, UserMessage | AssistantMessage | ToolResultMessage):
            gone.append(message)
    return stay, left, gone


def _fold_failed(state: State, record: FoldFailed, at: float) -> None:
    facts = of(state)
    if record.error_code == VETOED:
        facts.fold_failures = min(
            facts.fold_failures, 1
        )  # a longer wait could be over already for a fold that is needed
        facts.fold_wait = 1
    elif record.error_code not in _NO_FAULT:
        facts.fold_failures += 1
        facts.fold_wait = wait_after(facts.fold_failures)
    if record.trigger == "overflow" and state.facts.send is not None:
        state.facts.send.overflow = "hopeless"
    _spent_on_fold(state, record.usage)


def wait_after(failures: int) -> int:
    """Replies that pass after so many failures in a row before a fold is tried again."""
    return min(2 ** (failures - 1), LONGEST_WAIT) if failures else 0


def _spent_on_fold(state: State, usage: Usage) -> None:
    of(state).fold_usage += usage
    state.facts.usage += usage
    if (send := state.active) is not None:
        send.usage += usage


def _note(state: State, record: NoteWritten, at: float) -> None:
    facts = of(state)
    change = note_rules.NoteChange(record.note_id, record.content, record.pinned)
    facts.notes = note_rules.with_change(facts.notes, change)


def _todo(state: State, record: TodoWritten, at: float) -> None:
    of(state).todo = record.items


def _calibrated(state: State, record: TokensCalibrated, at: float) -> None:
    facts = of(state)
    facts.model = record.model
    facts.ratios[record.model] = record.ratio
    facts.samples[record.model] = record.samples


def _reserved(state: State, record: CostReserved, at: float) -> None:
    of(state).holds[record.hold_id] = record


def _settled(state: State, record: CostSettled, at: float) -> None:
    of(state).holds.pop(record.hold_id, None)
    state.facts.usage += record.usage
    if (send := state.active) is not None:
        send.usage += record.usage


def _nothing(state: State, record: Record, at: float) -> None:
    return


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    PromptEpochStarted: _epoch,
    SendProjected: _projected,
    FoldMade: _fold_made,
    FoldFailed: _fold_failed,
    NoteWritten: _note,
    TodoWritten: _todo,
    TokensCalibrated: _calibrated,
    CostReserved: _reserved,
    CostSettled: _settled,
}
_HEARD: dict[type, Callable[[State, Any, float], None]] = {FoldMade: _fold_heard, SendProjected: _projected}


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]


def hearing_of(kind: type) -> Callable[[State, Any, float], None]:
    """The part of it that changes the window."""
    return _HEARD.get(kind, _nothing)
