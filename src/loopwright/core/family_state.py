"""What records of `family_records.py` make of a session's state.

Owns: `FamilyFacts`, and the steps of those records. Must not know: who writes them, stores.
Loaded with the first such record. Read next: `engine/children.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from ..model.family_records import (
    CallWaits,
    CallWoken,
    ChildFinished,
    ChildStarted,
    HandedOff,
    Persona,
    SessionSpawned,
    SharedAccount,
    SignalReceived,
    SignalTaken,
)
from ..model.records import Record
from ..model.workflow_records import StepWaits
from .state import State

MAX_SIGNALS: Final = 100
"""Signals that are kept for a later wait; the oldest goes first."""


class FamilyFacts(Struct):
    """What is known of a session's parent and children; part of `Facts`, so checkpoints hold it."""

    spawned: SessionSpawned | None = None
    """How this session came to be; None when nobody spawned it."""
    persona: Persona | None = None
    """As what it answers; None: as its agent."""
    handed: bool = False
    """It was handed on in the middle of a send: instructions and tools of the prompt are those of the persona."""
    children: dict[str, ChildStarted] = field(default_factory=lambda: {})
    """Those that have not ended, by id, in the order of their start."""
    send: int = 0
    """Index of the send that the two below belong to."""
    started: int = 0
    """Children that it started."""
    account: SharedAccount | None = None
    signals: tuple[SignalReceived, ...] = ()
    """Kept for a later wait, oldest first."""

    @property
    def accounts(self) -> tuple[SharedAccount, ...]:
        """What calls of this session and its children have to hold money in beside the loop's own budgets."""
        inherited = () if self.spawned is None else self.spawned.accounts
        return inherited if self.account is None else (*inherited, self.account)

    def started_in(self, send: int) -> int:
        """Children that this send started."""
        return self.started if self.send == send else 0


def known_facts(stored: Any) -> FamilyFacts:
    """The facts of a checkpoint. Raises `msgspec.ValidationError` when this version cannot read them."""
    return msgspec.convert(stored, FamilyFacts)


def of(state: State) -> FamilyFacts:
    """The state's family facts, made when there are none."""
    if state.facts.family is None:
        state.facts.family = FamilyFacts()
    return state.facts.family


def forked(facts: FamilyFacts) -> None:
    """A fork answers as its base did, with no more tools; it is nobody's child and has none, and owes no parent money."""
    facts.spawned, facts.account = None, None
    facts.children = {}
    facts.started = 0


def refusal(state: State, record: Record) -> str | None:
    """Why a record of these kinds must not follow; None when it may."""
    if isinstance(record, CallWaits | CallWoken):
        call = state.call(record.call_id)
        if call is None or call.result is not None:
            return f"call {record.call_id!r} is not open"
    if isinstance(record, ChildStarted) and record.child_id in of(state).children:
        return f"child {record.child_id!r} was started already"
    if isinstance(record, SignalTaken) and all(kept.name != record.name for kept in of(state).signals):
        return f"no signal {record.name!r} is kept"
    return None


def asked_below(state: State, interaction_id: str) -> str | None:
    """The child whose family asked this question, as the call or step that waits for it says; None when none did."""
    waiting: list[CallWaits | StepWaits] = [call.waits for call in state.open_calls() if call.waits is not None]
    if state.workflow is not None:
        waiting += state.workflow.waiting()
    for waits in waiting:
        if any(question.id == interaction_id for question in waits.interactions):
            return waits.child_id
    return None


def _spawned(state: State, record: SessionSpawned, at: float) -> None:
    facts = of(state)
    facts.spawned = record
    facts.persona = record.persona


def _child_started(state: State, record: ChildStarted, at: float) -> None:
    facts, send = of(state), state.facts.sends
    if facts.send != send:
        facts.send, facts.started, facts.account = send, 0, None
    facts.started += 1
    facts.account = record.account or facts.account
    facts.children[record.child_id] = record


def _child_finished(state: State, record: ChildFinished, at: float) -> None:
    of(state).children.pop(record.child_id, None)
    if (send := state.active) is not None:
        send.usage += record.child_usage


def _waits(state: State, record: CallWaits, at: float) -> None:
    if (call := state.call(record.call_id)) is not None:
        call.waits, call.woken = record, None


def _woken(state: State, record: CallWoken, at: float) -> None:
    if (call := state.call(record.call_id)) is not None:
        call.waits, call.woken = None, record
    if state.facts.send is not None:
        state.facts.send.paused = False


def _signal(state: State, record: SignalReceived, at: float) -> None:
    facts = of(state)
    facts.signals = (*facts.signals, record)[-MAX_SIGNALS:]


def _signal_taken(state: State, record: SignalTaken, at: float) -> None:
    facts = of(state)
    for place, kept in enumerate(facts.signals):
        if kept.name == record.name:
            facts.signals = (*facts.signals[:place], *facts.signals[place + 1 :])
            return


def _handed_off(state: State, record: HandedOff, at: float) -> None:
    facts = of(state)
    facts.persona = record.persona
    facts.handed = facts.handed or state.active is not None
    if (send := state.active) is None:
        return
    persona, start = record.persona, send.start
    send.start = msgspec.structs.replace(
        start,
        system_prompt=persona.system_prompt,
        tools=narrowed(start.tools, persona.tools),
        model=persona.model or start.model,
    )


def narrowed(allowed: tuple[str, ...] | None, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Those names of `asked` that are allowed, in their order there; None stands for all on either side."""
    if allowed is None or asked is None:
        return asked if allowed is None else allowed
    return tuple([name for name in asked if name in allowed])


def _nothing(state: State, record: Record, at: float) -> None:
    return


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    SessionSpawned: _spawned,
    ChildStarted: _child_started,
    ChildFinished: _child_finished,
    CallWaits: _waits,
    CallWoken: _woken,
    SignalReceived: _signal,
    SignalTaken: _signal_taken,
    HandedOff: _handed_off,
}
_HEARD: dict[type, Callable[[State, Any, float], None]] = {CallWaits: _waits, CallWoken: _woken}


def step_of(kind: type) -> Callable[[State, Any, float], None]:
    """What folding a record of this class does."""
    return _STEPS[kind]


def hearing_of(kind: type) -> Callable[[State, Any, float], None]:
    """The part of it that changes the open calls."""
    return _HEARD.get(kind, _nothing)
