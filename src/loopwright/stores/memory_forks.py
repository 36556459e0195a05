"""Forks held in memory: reading through the base, and deleting without breaking them.

Owns: which sessions go, what forks get of them first, who holds an artifact as well. Must not know: event loops, leases.
Read next: `forks.py`, `memory_rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ..model.archive_errors import SessionReferencedError
from ..ports.store import Head, NewSession, StoredRecord
from .forks import JournalPlace, parts, rooted
from .memory_data import SessionData, SharedData
from .memory_money import spend_of
from .references import artifact_ids_in


def with_root(data: SharedData, session: NewSession) -> NewSession:
    """The session with the base that itself has the last record before it. Raises what `Store.create` says of a base."""
    if session.base is None:
        return session
    return structs.replace(session, base=rooted(session.base, lambda session_id: _place(data.session(session_id))))


def records_between(data: SharedData, session_id: str, start: int, stop: int) -> Sequence[StoredRecord]:
    """Records of these positions, those of a fork's base included."""

    def find(base_id: str) -> JournalPlace[str] | None:
        base = data.sessions.get(base_id)
        return None if base is None else _place(base)

    found: list[StoredRecord] = []
    for part in parts(_place(data.session(session_id)), start, stop, find):
        own = data.sessions[part.key]
        first = own.head.position - len(own.records)
        found += own.records[part.start - first : max(part.stop - first, 0)]
    return found


def family_of(data: SharedData, session_id: str, *, cascade: bool) -> tuple[list[str], list[Head]]:
    """(ids that go with this session, heads of children that stay and lose their parent)."""
    going, freed = [session_id], list[Head]()
    for parent in going:
        for head in [one.head for one in data.sessions.values() if one.head.parent_id == parent]:
            if not cascade or head.lifecycle == "detached":
                freed.append(head)
            elif head.session_id not in going:
                going.append(head.session_id)
    return going, freed


def check_unread(data: SharedData, session_id: str, *, cascade: bool) -> None:
    """Raises `SessionReferencedError` when a fork that stays reads what would go."""
    going, _ = family_of(data, session_id, cascade=cascade)
    if staying := _staying(data, going):
        raise SessionReferencedError(session_id, staying)


def delete(data: SharedData, session_id: str, *, cascade: bool, copy_to_forks: bool) -> int:
    """See `StoreAdmin.delete`."""
    data.session(session_id)
    if not copy_to_forks:
        check_unread(data, session_id, cascade=cascade)
    going, freed = family_of(data, session_id, cascade=cascade)
    for fork_id in _staying(data, going):
        fork = data.sessions[fork_id]
        while fork.head.base is not None and fork.head.base.session_id in going:
            _let_have(data, fork, data.sessions[fork.head.base.session_id])
    for head in freed:
        one = data.sessions[head.session_id]
        one.head = structs.replace(one.head, parent_id=None)
    for gone in going:
        del data.sessions[gone]
    data.gone.update(going)
    spend_of(data.money, going)
    _pass_on(data, going)
    return len(going)


def artifact_ids_of(data: SharedData, session_id: str) -> set[str]:
    """Its own artifacts, those that it holds as well, and of a fork those that stand in the base's records."""
    ids = {one for one, (artifact, _) in data.artifacts.items() if artifact.session_id == session_id}
    ids |= {one for one, holders in data.shares.items() if session_id in holders}
    if (base := data.session(session_id).head.base) is not None:
        ids |= _names(records_between(data, session_id, 0, base.position)) & data.artifacts.keys()
    return ids


def _staying(data: SharedData, going: Sequence[str]) -> list[str]:
    heads = [one.head for one in data.sessions.values()]
    reading = [head.session_id for head in heads if head.base is not None and head.base.session_id in going]
    return sorted(session_id for session_id in reading if session_id not in going)


def _let_have(data: SharedData, fork: SessionData, base: SessionData) -> None:
    assert fork.head.base is not None
    first = base.head.position - len(base.records)
    copied = base.records[: fork.head.base.position - first]
    fork.records[:0] = copied
    for name in _names(copied) & data.artifacts.keys():
        if data.artifacts[name][0].session_id != fork.head.session_id:
            data.shares.setdefault(name, set()).add(fork.head.session_id)
    fork.head = structs.replace(fork.head, base=base.head.base)


def _pass_on(data: SharedData, going: Sequence[str]) -> None:
    for holders in data.shares.values():
        holders.difference_update(going)
    for name, (artifact, content) in list(data.artifacts.items()):
        if artifact.session_id not in going:
            continue
        if others := data.shares.get(name):
            heir = min(others)
            others.remove(heir)
            data.artifacts[name] = (structs.replace(artifact, session_id=heir), content)
        else:
            del data.artifacts[name]


def _names(records: Sequence[StoredRecord]) -> set[str]:
    return set[str]().union(*(artifact_ids_in(record.body) for record in records))


def _place(one: SessionData) -> JournalPlace[str]:
    return JournalPlace(one.head.session_id, one.head.position, one.head.base)
