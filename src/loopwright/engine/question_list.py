"""All open questions of a store: whom they are from, since when, and where an answer goes.

Owns: `OpenQuestion`, finding them. Must not know: who answers (`answers.py`). Loaded with the first look.
Read next: `open_questions.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from msgspec import Struct

from ..core.state import State
from ..model.codec import CURRENT_FORMAT, decode_record
from ..model.errors import SessionGoneError, SessionNotFoundError, StoreCorruptError
from ..model.records import Interaction, QuestionAsked
from ..ports.store import Head, SessionQuery, Store
from .journal import opened_state
from .turn import waiting_outside


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A question that nobody answered yet."""

    question: Interaction
    session_id: str
    """Where it is answered (`submit_input`): the highest session that waits for the one that asked."""
    asked_by: str
    """The session that asked: the same, or a child of it, or a child of that one."""
    agent_name: str
    """Whose code goes on with it."""
    agents: tuple[str, ...]
    """From the name of the highest agent to that of the one that asked."""
    title: str = ""
    """Of the session where it is answered; "" where the store holds none in clear."""
    asked_at: float | None = None
    """UTC epoch seconds; None where the session that asked is not in this store."""


class OpenQuestions(Struct, frozen=True, kw_only=True):
    """What a look at a store found."""

    questions: tuple[OpenQuestion, ...] = ()
    """The ones that wait longest first."""
    unreadable: tuple[str, ...] = ()
    """Sessions that wait and that this version, or a store without their keys, cannot read."""


async def open_questions(store: Store, session_id: str | None = None) -> OpenQuestions:
    """The open questions of a store, or of one session and its children. Cost: what waits in the store is read.

    Raises: `SessionNotFoundError` for an unknown id.
    """
    if session_id is not None:
        await store.lookup(session_id)
    heads = {head.session_id: head for head in await store.list(SessionQuery(status="waiting", limit=sys.maxsize))}
    states: dict[str, State] = {}
    unreadable: list[str] = []
    for head in heads.values():
        try:
            if head.min_format > CURRENT_FORMAT:
                raise StoreCorruptError("a newer format")
            states[head.session_id] = await opened_state(store, head)
        except StoreCorruptError:
            unreadable.append(head.session_id)
        except (SessionGoneError, SessionNotFoundError):
            continue  # it went meanwhile
    found = [one for sid in states for one in await _questions_of(store, heads, states, sid)]
    if session_id is not None:
        found = [one for one in found if session_id in (one.session_id, one.asked_by)]
        unreadable = [sid for sid in unreadable if sid == session_id]
    found.sort(key=lambda one: one.asked_at or 0.0)  # of one batch in the order of its calls
    return OpenQuestions(questions=tuple(found), unreadable=tuple(sorted(unreadable)))


async def _questions_of(
    store: Store, heads: Mapping[str, Head], states: Mapping[str, State], session_id: str
) -> list[OpenQuestion]:
    """Those of a session itself, and those from below that no session of this store asked."""
    state, head = states[session_id], heads[session_id]
    if state.active is None:
        return []
    own = [call.question for call in state.all_calls() if call.waits_for_person and call.question is not None]
    times = await _times(store, state, head) if own else {}
    found = [_found(heads, states, question, session_id, asked_at=times.get(question.id)) for question in own]
    for waits in waiting_outside(state):
        if waits.interactions and waits.child_id is not None and not await _is_here(store, waits.child_id):
            copies = [_found(heads, states, question, session_id) for question in waits.interactions]
            found += copies
    return found


def _found(
    heads: Mapping[str, Head],
    states: Mapping[str, State],
    question: Interaction,
    asked_by: str,
    *,
    asked_at: float | None = None,
) -> OpenQuestion:
    """The question with the highest session that waits for it."""
    top = asked_by
    while (parent := _waiting_parent(states, top, question.id)) is not None:
        top = parent
    family = states[asked_by].facts.family
    names = () if family is None or family.spawned is None else family.spawned.agents
    return OpenQuestion(
        question=question,
        session_id=top,
        asked_by=asked_by,
        agent_name=heads[top].agent_name,
        agents=names or (heads[asked_by].agent_name,),
        title=heads[top].title,
        asked_at=asked_at,
    )


def _waiting_parent(states: Mapping[str, State], session_id: str, question_id: str) -> str | None:
    """The parent of a session, when it waits for this question of it."""
    family = states[session_id].facts.family
    if family is None or family.spawned is None or not family.spawned.awaited:
        return None
    parent = states.get(family.spawned.parent_id)
    if parent is None:
        return None
    asked = {question.id for waits in waiting_outside(parent) for question in waits.interactions}
    return family.spawned.parent_id if question_id in asked else None


async def _times(store: Store, state: State, head: Head) -> dict[str, float]:
    """When each question of the open calls was asked."""
    first = min((call.position for call in state.all_calls()), default=0)
    times: dict[str, float] = {}
    for row in await store.read(head.session_id, after=first, limit=max(head.position - first, 1)):
        if row.kind in ("question_asked", "handler_asked"):
            record = decode_record(row.kind, row.version, row.body)
            if isinstance(record, QuestionAsked):
                times[record.interaction.id] = row.at
    return times


async def _is_here(store: Store, session_id: str) -> bool:
    try:
        await store.lookup(session_id)
    except SessionNotFoundError:
        return False
    except SessionGoneError:
        return True
    return True
