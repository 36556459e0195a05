"""Whether every stored session can go on, and what stands in its way.

Owns: reading each session as a run would, without running it. Must not know: files, models, terminals.
Read next: `journal.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, ValidationError

from ..core.pairing import problem
from ..core.state import State
from ..core.window import window
from ..model.codec import CURRENT_FORMAT, is_sealed
from ..model.errors import LoopwrightError
from ..ports.store import Head, SessionQuery, Store, StoredRecord
from .journal import load_state, resumed_state, status_of

Condition = Literal[
    "fine", "running", "interrupted", "waiting", "unreadable", "encrypted", "too_new", "unsendable", "mismatch"
]
"""fine, running (by a live process), interrupted (nobody runs it) and waiting (for a person or host) are healthy."""

EVERY_SESSION = 2**31


class SessionFinding(Struct, frozen=True):
    """What was found in one session."""

    session_id: str
    agent_name: str
    condition: Condition
    detail: str = ""
    """What exactly is wrong, or what is open."""
    kind: str = "agent"
    """"workflow" for a run of one."""

    @property
    def healthy(self) -> bool:
        """True when the session can be continued by the program that owns it."""
        return self.condition in ("fine", "running", "interrupted", "waiting")


async def examine_sessions(store: Store) -> list[SessionFinding]:
    """Reads every session of the store, newest first; nothing is changed. Cost: the whole store, one session at a time."""
    return [await examine(store, head) for head in await store.list(SessionQuery(limit=EVERY_SESSION))]


async def examine(store: Store, head: Head) -> SessionFinding:
    """Reads one session as its next run would."""
    condition, detail = await _condition(store, head)
    return SessionFinding(head.session_id, head.agent_name, condition, detail, head.kind)


async def _condition(store: Store, head: Head) -> tuple[Condition, str]:
    if head.min_format > CURRENT_FORMAT:
        return "too_new", f"needs record format {head.min_format}, this version reads up to {CURRENT_FORMAT}"
    try:
        rows = await store.read(head.session_id)
        if any(is_sealed(row.body) for row in rows):  # of an encrypted store, looked at without its keys
            return "encrypted", ""
        state = await load_state(head.session_id, rows)
        fits = await begins_well(head, rows, state)
    except (LoopwrightError, ValidationError) as error:
        return "unreadable", str(error)
    # The newest reply stands alone while its calls are open: its results come before anything is sent.
    shown = window(state)
    if (invalid := problem(shown[:-1] if state.batch else shown)) is not None:
        return "unsendable", f"a provider would refuse the conversation: {invalid}"
    if not fits:
        return "mismatch", f"its head says that the window begins at {head.window_start}, its journal says otherwise"
    if head.status != "running" and head.status != status_of(state):
        return "mismatch", f"its head says {head.status}, its journal {status_of(state)}"
    if head.status == "running":
        return ("running", head.owner or "") if head.expires_in_s > 0 else ("interrupted", _open(state))
    return ("waiting", _open(state)) if head.status == "waiting" else ("fine", "")


async def begins_well(head: Head, rows: Sequence[StoredRecord], state: State) -> bool:
    """True when a run that reads from the head's `window_start` on sees what `state`, made of all records, sees.

    `rows`: all records, from the first one on. Raises: what `resumed_state` raises.
    """
    if head.window_start == 0:
        return True
    return window(await resumed_state(head.session_id, rows[head.window_start :])) == window(state)


def _open(state: State) -> str:
    questions = [c.question.prompt for c in state.batch if c.waits_for_person and c.question is not None]
    calls = [f"{c.call.name} ({c.call.id})" for c in state.open_calls() if not c.waits_for_person]
    asked = [f"asks: {' '.join(question.split())}" for question in questions]
    return "; ".join([*asked, *([f"open calls: {', '.join(calls)}"] if calls else [])])
