"""Whole sessions held in memory: figures, sizes, unreferenced artifacts, taking a session out and putting it in.

Owns: `StoreUpkeep` and `StoreTransfer` in plain Python. Must not know: event loops, files.
Read next: `memory_rules.py`.
"""

from __future__ import annotations

import time

from msgspec import structs

from ..model.errors import InvariantError, SessionExistsError
from ..ports.store import Head, Lookup, PutTimer
from ..ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer
from ..ports.store_upkeep import StoreFigures
from .memory_data import WAITING, SessionData, SharedData
from .memory_forks import artifact_ids_of
from .memory_rules import stored
from .references import artifact_ids_in


class MemoryWhole:
    """Calls on shared data, each atomic."""

    def __init__(self, data: SharedData) -> None:
        self._data = data

    def figures(self) -> StoreFigures:
        """See `StoreUpkeep.figures`."""
        sessions = self._data.sessions.values()
        positions = [position for data in sessions for position in data.positions.values()]
        waiting = positions.count(WAITING)
        paused = sum(len(data.paused) for data in sessions)
        return StoreFigures(
            records=sum(len(data.records) for data in sessions),
            record_bytes=sum(len(record.body) for data in sessions for record in data.records),
            waiting_items=waiting,
            known_items=len(positions) - waiting,
            timers=sum(len(data.timers) for data in sessions) - paused,
            paused_timers=paused,
            artifacts=len(self._data.artifacts),
            artifact_bytes=sum(artifact.size for artifact, _ in self._data.artifacts.values()),
            tombstones=len(self._data.gone),
            forks=sum(data.head.base is not None for data in sessions),
        )

    def session_sizes(self) -> dict[str, int]:
        """See `StoreUpkeep.session_sizes`."""
        sizes = {
            session_id: sum(len(record.body) for record in data.records)
            + sum(len(item.body) for item in data.items.values())
            for session_id, data in self._data.sessions.items()
        }
        for artifact, _ in self._data.artifacts.values():
            sizes[artifact.session_id] += artifact.size
        return sizes

    def sweep_artifacts(self, older_than: float) -> int:
        """See `StoreUpkeep.sweep_artifacts`."""
        times = self._data.artifact_times
        old = [one for one, _ in self._data.artifacts.values() if times.get(one.artifact_id, 0.0) < older_than]
        old = [one for one in old if not self._data.shares.get(one.artifact_id)]
        gone = [one for one in old if one.artifact_id not in _referred(self._data.sessions[one.session_id])]
        for artifact in gone:
            del self._data.artifacts[artifact.artifact_id]
        return len(gone)

    def inventory(self, session_id: str, found: Lookup) -> Inventory:
        """See `StoreTransfer.inventory`."""
        data = self._data.session(session_id)
        artifacts = [self._data.artifacts[one][0] for one in artifact_ids_of(self._data, session_id)]
        return Inventory(
            found.head,
            found.waiting,
            tuple(KnownItem(*one) for one in sorted(data.positions.items()) if one[1] != WAITING),
            tuple(
                StoredTimer(timer_id, timer.due_at, timer.body, timer_id in data.paused)
                for timer_id, timer in sorted(data.timers.items())
            ),
            tuple(sorted(artifacts, key=lambda artifact: artifact.artifact_id)),
        )

    def restore(self, image: SessionImage) -> Head:
        """See `StoreTransfer.restore`."""
        whole = image.inventory
        session_id = whole.head.session_id
        if session_id in self._data.sessions or session_id in self._data.gone:
            raise SessionExistsError(session_id)
        known = {name: artifact.digest for name, (artifact, _) in self._data.artifacts.items()}
        if any(known.get(one.artifact_id, one.digest) != one.digest for one in whole.artifacts):
            raise InvariantError(f"an artifact of session {session_id!r} has the id of another session's")
        head = structs.replace(whole.head, owner=None, expires_in_s=0.0, base=None)
        data = SessionData(head, records=stored(image.records, 0))
        data.items = {item.item_id: item for item in whole.waiting}
        data.positions = dict.fromkeys(data.items, WAITING) | {one.item_id: one.position for one in whole.known}
        data.timers = {one.timer_id: PutTimer(one.timer_id, one.due_at, one.body) for one in whole.timers}
        data.paused = {one.timer_id for one in whole.timers if one.paused}
        self._data.sessions[session_id] = data
        for artifact, content in zip(whole.artifacts, image.artifact_data, strict=True):
            if artifact.artifact_id in known:
                self._data.shares.setdefault(artifact.artifact_id, set()).add(session_id)
                continue
            self._data.artifacts[artifact.artifact_id] = (artifact, bytes(content))
            self._data.artifact_times[artifact.artifact_id] = time.time()
        return head


def _referred(data: SessionData) -> set[str]:
    bodies = [record.body for record in data.records]
    bodies += [item.body for item in data.items.values()]
    bodies += [timer.body for timer in data.timers.values()]
    return set[str]().union(*(artifact_ids_in(body) for body in bodies))
