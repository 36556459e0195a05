"""What records of `control_records.py` make of a session's state.

Owns: `ControlFacts`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `../model/control_records.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..model.control_records import (
    HandlerAsked,
    PermissionDecided,
    PermissionGranted,
    PermissionMode,
    PermissionModeSet,
    ToolsRevealed,
)
from ..model.records import Interaction, Record
from .state import OpenCall, State

MAX_REVEALED: Final = 64
"""Found tools that are listed; the oldest make room."""


class ControlFacts(Struct):
    """What was decided about the session's calls; part of `Facts`, so checkpoints hold it."""

    mode: PermissionMode | None = None
    """None: the loop's."""
    widened: bool = False
    """The mode holds where the loop's own is narrower."""
    grants: tuple[PermissionGranted, ...] = ()
    """Standing answers, oldest first."""
    revealed: tuple[str, ...] = ()
    """Tools that searches found, in the order in which they were."""


class HandlerQuestions(Struct):
    """What the handler of an open call asked so far."""

    before: tuple[Interaction | None, Any, bool] | None = None
    """While one of its questions is open: the call's own question with its answer, an approval for example."""
    replies: tuple[tuple[Interaction, Any], ...] = ()
    """The answered ones, oldest first."""


def runs_again(call: OpenCall) -> bool:
    """True when the open question is one of its handler's: the answer is not the result of the call."""
    return call.asking is not None and call.asking.before is not None


def replied(call: OpenCall) -> None:
    """The newest question of this call was answered; when its handler asked it, the call is as it was before and runs again."""
    asking, question = call.asking, call.question
    if asking is None or asking.before is None or question is None:
        return
    asking.replies = (*asking.replies, (question, call.answer))
    (call.question, call.answer, call.answered), asking.before = asking.before, None


def known_facts(stored: Any) -> ControlFacts:
    """The facts of a checkpoint. Raises `msgspec.ValidationError` when this version cannot read them."""
    return msgspec.convert(stored, ControlFacts)


def of(state: State) -> ControlFacts:
    """The state's control facts, made when there are none."""
    if state.facts.control is None:
        state.facts.control = ControlFacts()
    return state.facts.control


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]


def hearing_of(kind: type) -> Callable[[State, Any, float], None]:
    """The part of it that changes the window and the open calls."""
    return _handler_asked if kind is HandlerAsked else _nothing


def refusal(state: State, record: Record) -> str | None:
    """Why the record must not follow `state`; None when it may."""
    if isinstance(record, PermissionDecided):
        call = state.call(record.call_id)
        if call is None or call.result is not None:
            return f"call {record.call_id!r} is not open"
    if isinstance(record, HandlerAsked):
        call = state.call(record.interaction.call_id)
        if call is None or call.result is not None:
            return f"call {record.interaction.call_id!r} is not open"
        if call.waits_for_person:
            return f"call {record.interaction.call_id!r} waits for an answer already"
    return None


def _nothing(state: State, record: object, at: float) -> None: ...


def _granted(state: State, record: PermissionGranted, at: float) -> None:
    facts = of(state)
    if all(grant.rule != record.rule for grant in facts.grants):
        facts.grants = (*facts.grants, record)


def _mode_set(state: State, record: PermissionModeSet, at: float) -> None:
    facts = of(state)
    facts.mode, facts.widened = record.mode, record.widened


def _revealed(state: State, record: ToolsRevealed, at: float) -> None:
    facts = of(state)
    facts.revealed = tuple(dict.fromkeys((*facts.revealed, *record.names)))[-MAX_REVEALED:]


def _handler_asked(state: State, record: HandlerAsked, at: float) -> None:
    """Its handler has ended in a known place: whatever its effect, it may run again."""
    if (call := state.call(record.interaction.call_id)) is None:
        return
    call.asking = call.asking or HandlerQuestions()
    call.asking.before = (call.question, call.answer, call.answered)
    call.question, call.answer, call.answered = record.interaction, None, False
    call.started = None


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    PermissionDecided: _nothing,
    PermissionGranted: _granted,
    PermissionModeSet: _mode_set,
    ToolsRevealed: _revealed,
    HandlerAsked: _handler_asked,
}
