"""Which session was meant, and whether anything is left to do in it.

Owns: `last`, unique beginnings of ids, what counts as nothing open. Must not know: terminals, models.
Read next: `agent_setup.py`.
"""

from __future__ import annotations

import sys
from typing import Final

from ..model.errors import ConfigError, SessionNotFoundError
from ..model.records import SendFinished
from ..ports.store import SessionQuery
from ..ports.store_admin import SessionStore
from .journal_lines import record_of

MADE_PREFIXES: Final = ("sess_", "run_")
"""How ids that were not given begin, of sessions and of runs of workflows."""
SHORTEST: Final = 8
"""Characters after it that are needed to name a session by the beginning of its id."""

_SHOWN: Final = 5
_TAIL: Final = 20
"""Records at the end of a journal among which the end of the last send is found."""


async def resolved(store: SessionStore, session_id: str) -> str:
    """The id that was meant: `last` is the newest session, a beginning of a made id the one session that has it.

    Raises: `SessionNotFoundError`; `ConfigError` with the candidates when several sessions begin like this.
    """
    if session_id == "last" and (newest := await store.list(SessionQuery(limit=1))):
        return newest[0].session_id
    try:
        return (await store.lookup(session_id)).head.session_id
    except SessionNotFoundError:
        prefix = next((one for one in MADE_PREFIXES if session_id.startswith(one)), None)
        if prefix is None:
            raise
        if len(session_id) < len(prefix) + SHORTEST:
            raise ConfigError(
                f"{session_id!r} is too short for the beginning of an id: write at least {SHORTEST} characters after"
                f" {prefix}"
            ) from None
        heads = await store.list(SessionQuery(limit=sys.maxsize))
        fitting = [head.session_id for head in heads if head.session_id.startswith(session_id)]
        if not fitting:
            raise
    if len(fitting) > 1:
        more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise ConfigError(
            f"{len(fitting)} sessions begin with {session_id!r}: {', '.join(fitting[:_SHOWN])}{more}; write more of the id"
        )
    return fitting[0]


async def left_open(store: SessionStore, session_id: str) -> bool:
    """True when going on has something to do: an open send, waiting messages, or a last send that did not complete."""
    found = await store.lookup(session_id)
    if found.head.status != "idle" or any(item.kind != "stop" for item in found.waiting):
        return True
    rows = await store.read(session_id, after=max(found.head.position - _TAIL, 0))
    ends = [record for row in rows if isinstance(record := record_of(row), SendFinished)]
    return bool(ends) and ends[-1].outcome != "completed"
