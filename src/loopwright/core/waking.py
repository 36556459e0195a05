"""What wakes and signals mean for calls that wait.

Owns: which call an item wakes, and the records that say so. Must not know: inboxes, stores, clocks.
Read next: `engine/wakes.py`, which takes them; for steps of a run `workflow_state.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model.family_records import CallWaits, CallWoken, ChildFinished, SignalReceived, SignalTaken
from ..model.records import Record
from ..model.wake_bodies import Signal, Wake
from .state import OpenCall, State


def woken(state: State, wake: Wake) -> list[Record]:
    """Records of what a wake does; none when nothing waits for it any more."""
    heard = _heard(state, wake)
    for call in state.open_calls():
        waits = call.waits
        if waits is None:
            continue
        if wake.child_id is not None and waits.child_id == wake.child_id:
            return [*heard, CallWoken(call.call.id, "child")]
        if wake.call_id == call.call.id and waits.until is not None:
            return [CallWoken(call.call.id, "time")]
    return heard


def _heard(state: State, wake: Wake) -> list[Record]:
    """The end of a child in the background; an awaited one is heard of with the result of its call."""
    family = state.facts.family
    child = None if family is None or wake.child_id is None else family.children.get(wake.child_id)
    if child is None or child.awaited or wake.outcome is None:
        return []
    return [ChildFinished(child_id=child.child_id, outcome=wake.outcome, child_usage=wake.usage)]


def signalled(state: State, signal: Signal, item_id: str, taken: Sequence[Record] = ()) -> list[Record]:
    """Records of a signal that arrived: kept, and taken at once by the first call that waits for it.

    `taken`: records of the same commit, whose calls wait no longer.
    """
    gone = {record.call_id for record in taken if isinstance(record, CallWoken)}
    received = SignalReceived(signal.name, signal.payload, item_id)
    for call in state.open_calls():
        if call.waits is not None and call.waits.signal == signal.name and call.call.id not in gone:
            return [received, *took(call, signal)]
    return [received]


def beginning(waits: CallWaits, kept: SignalReceived | None) -> list[Record]:
    """Records of a call that begins to wait; with a kept signal it goes on at once."""
    if kept is None:
        return [waits]
    return [waits, SignalTaken(kept.name, waits.call_id), CallWoken(waits.call_id, "signal", kept.payload)]


def oldest(state: State, name: str | None, promised: Collection[str]) -> SignalReceived | None:
    """The kept signal of this name that came first and is free; None when there is none.

    `promised`: item ids of signals that are taken by records which are not stored yet.
    """
    family = state.facts.family
    if name is None or family is None:
        return None
    return next((one for one in family.signals if one.name == name and one.item_id not in promised), None)


def took(call: OpenCall, signal: Signal) -> list[Record]:
    """Records of a call that takes the signal it waits for."""
    return [SignalTaken(signal.name, call.call.id), CallWoken(call.call.id, "signal", signal.payload)]
