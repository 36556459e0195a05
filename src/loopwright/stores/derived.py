"""Values that every store derives the same way: the head of a new session, the id of an artifact.

Owns: these rules. Must not know: where anything is kept.
Read next: `memory_rules.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import Late
from ..ports.store import Head, NewSession

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")


def fresh_head(session: NewSession) -> Head:
    """The head that a session begins with."""
    return Head(
        session_id=session.session_id,
        position=len(session.records),
        window_start=0,
        checkpoint=None,
        epoch=0,
        owner=None,
        expires_in_s=0.0,
        inbox_seq=0,
        takeovers=0,
        agent_name=session.agent_name,
        kind=session.kind,
        parent_id=session.parent_id,
        lifecycle=session.lifecycle,
        title=session.title,
        min_format=session.min_format,
        status="idle",
        created_at=session.at,
        updated_at=session.at,
    )


def artifact_name(session_id: str, digest: str) -> str:
    """The id of an artifact: equal for equal content of one session, different between sessions."""
    return f"art_{hashlib.sha256(f'{session_id} {digest}'.encode(errors='surrogatepass')).hexdigest()[:32]}"
