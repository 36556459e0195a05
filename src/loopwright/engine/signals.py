"""Signals from outside.

Owns: what a signal may be, and that it reaches the session's inbox. Must not know: who waits for it (`wakes.py`).
Loaded with the first signal. Read next: `wakes.py`, `../core/waking.py`.
"""

from __future__ import annotations

from typing import Any, Final

from ..core.json_value import odd_in
from ..model.codec import encode
from ..model.errors import InvalidMessageError
from ..model.family_errors import WorkflowRunError
from ..model.wake_bodies import Signal
from ..ports.store import InboxItem
from .actor import ACTORS
from .beside import run_beside
from .kernel import Kernel

LONGEST_NAME: Final = 200
MAX_PAYLOAD: Final = 64 * 1024
"""Bytes of a payload as JSON."""


def signal_item(item_id: str, name: str, payload: Any, at: float) -> InboxItem:
    """A signal as it lies in an inbox; `at`: UTC epoch seconds. Raises: `InvalidMessageError`."""
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidMessageError(
            f"a signal's name must be 1 to {LONGEST_NAME} printable characters, not {name!r:.100}"
        )
    try:
        body = encode(Signal(name, payload))
        if (odd := odd_in(payload)) is not None:
            raise ValueError(odd)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the payload of signal {name!r} is no JSON value: {error}") from error
    if len(body) > MAX_PAYLOAD:
        raise InvalidMessageError(
            f"the payload of signal {name!r} has {len(body)} bytes; at most {MAX_PAYLOAD} are taken"
        )
    return InboxItem(item_id, "signal", body, at)


async def signal(kernel: Kernel, session_id: str, name: str, payload: Any, item_id: str | None) -> bool:
    """See `StatefulAgentLoop.signal`."""
    item = signal_item(item_id or kernel.ambient.new_id("signal"), name, payload, kernel.ambient.now())
    found = await kernel.store.lookup(session_id, item_id=item_id)
    head = found.head
    if head.kind == "workflow" and head.status == "idle" and head.sends and found.item_position is None:
        raise WorkflowRunError(session_id, f"the run has ended, and nothing in it hears signal {name!r} any more")
    kernel.ambient.reach("inbox.before")
    queued = await kernel.store.enqueue(session_id, item)
    kernel.ambient.reach("inbox.after")
    actor = ACTORS.find(kernel.store.identity, session_id)
    if actor is not None:
        actor.inbox_seq = max(actor.inbox_seq, queued.inbox_seq)
    if queued.status == "waiting":  # a known one too: whoever stored it may have died before anybody was woken
        run_beside(kernel, session_id)
    return not queued.duplicate
