"""What a store in memory holds.

Owns: the data behind all stores of one name. Must not know: rules, event loops.
Read next: `memory_rules.py`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..model.errors import SessionGoneError, SessionNotFoundError
from ..ports.artifact import Artifact
from ..ports.memory_index import MemoryEntry
from ..ports.store import WAKING_KINDS, DueTimer, Head, InboxItem, PutTimer, StoredRecord
from . import ownership
from .memory_money import MoneyData

if TYPE_CHECKING:
    from .memory_boards import KeptBoard

WAITING: Final = -1
"""The position of an inbox item that nobody took yet."""


@dataclass
class SessionData:
    """Everything about one session."""

    head: Head
    token: bytes = b""
    records: list[StoredRecord] = field(default_factory=list[StoredRecord])
    """Its own: without those that a fork reads of its base."""
    items: dict[str, InboxItem] = field(default_factory=dict[str, InboxItem])
    """In order of arrival; a taken or marked one keeps its id only."""
    positions: dict[str, int] = field(default_factory=dict[str, int])
    """Item id → where it was taken, `WAITING` before."""
    timers: dict[str, PutTimer] = field(default_factory=dict[str, PutTimer])
    paused: set[str] = field(default_factory=set[str])
    """Ids of timers that are kept and not claimed."""

    def waiting(self) -> tuple[InboxItem, ...]:
        """Items that nobody took yet."""
        return tuple(item for item in self.items.values() if self.positions[item.item_id] == WAITING)

    def is_open(self) -> bool:
        """Whether this is work for whoever can have the lease."""
        match self.head.status:
            case "running":
                return True
            case "idle":
                return WAITING in self.positions.values()
            case "waiting":
                return any(item.kind in WAKING_KINDS for item in self.waiting())

    def armed(self) -> list[DueTimer]:
        """Timers that are not paused."""
        return [
            DueTimer(self.head.session_id, timer.timer_id, timer.due_at, timer.body)
            for timer in self.timers.values()
            if timer.timer_id not in self.paused
        ]


@dataclass
class SharedData:
    """The data behind all stores of one name."""

    sessions: dict[str, SessionData] = field(default_factory=dict[str, SessionData])
    gone: set[str] = field(default_factory=set[str])
    owners: dict[str, ownership.OwnerRow] = field(default_factory=dict[str, ownership.OwnerRow])
    artifacts: dict[str, tuple[Artifact, bytes]] = field(default_factory=dict[str, tuple[Artifact, bytes]])
    artifact_times: dict[str, float] = field(default_factory=dict[str, float])
    """Artifact id → when it was last put, in UTC epoch seconds."""
    shares: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Artifact id → sessions that hold it as well as the one that has it."""
    money: MoneyData = field(default_factory=MoneyData)
    memories: dict[str, dict[str, MemoryEntry]] = field(default_factory=dict[str, dict[str, MemoryEntry]])
    """Namespace → id → entry."""
    boards: dict[str, KeptBoard] = field(default_factory=dict[str, "KeptBoard"])
    lock: threading.RLock = field(default_factory=threading.RLock)

    def session(self, session_id: str) -> SessionData:
        """One session; says whether a missing one was ever there."""
        data = self.sessions.get(session_id)
        if data is not None:
            return data
        raise SessionGoneError(session_id) if session_id in self.gone else SessionNotFoundError(session_id)
