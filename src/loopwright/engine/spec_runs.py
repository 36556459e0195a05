"""Agents from specs, as sessions of their own.

Owns: how such a session begins. Must not know: children (`children.py`).
Loaded with the first of them. Read next: `../core/spawning.py`.
"""

from __future__ import annotations

from typing import Any

from ..core import spawning
from ..core.result import StatefulResult
from ..model.agent_spec import AgentSpec, parse_agent_spec
from ..model.family_records import HandedOff
from ..model.messages import MessageLike
from ..model.records import SessionCreated
from ..ports.cancellation import Stop
from ..ports.store import NewSession
from .arguments import usable_id, user_message
from .journal import first_records, format_needed
from .kernel import Kernel
from .turn import SendOptions


async def run_spec(
    kernel: Kernel, spec: AgentSpec | dict[str, Any], message: MessageLike | str, session_id: str | None, stop: Stop
) -> StatefulResult:
    """See `StatefulAgentLoop.run_agent_spec`."""
    assert kernel.admission is not None
    asked = spec if isinstance(spec, AgentSpec) else parse_agent_spec(spec)
    user = user_message(message, kernel.config.max_message_bytes)
    sid = kernel.ambient.new_id("sess") if session_id is None else usable_id(session_id)
    at = kernel.ambient.now()
    created = SessionCreated(sid, kernel.config.agent_name, None, dict(asked.metadata))
    persona = HandedOff(spawning.persona_of(asked, None, None), "the session's spec")
    records, rows = first_records(kernel.config, created, at, persona)
    needs = format_needed(rows)
    await kernel.store.create(
        NewSession(
            session_id=sid, agent_name=created.agent_name, records=rows, at=at, title=asked.name, min_format=needs
        )
    )
    kernel.admission.created(sid, records, at, needs)
    return await kernel.admission.send(sid, user, SendOptions(stop=stop))
