"""Who holds leases: this process as an owner, and whether another owner is still alive.

Owns: owner ids, the facts by which a process is recognised later, the liveness rule. Must not know: tables, sessions.
Read next: `sqlite_writes.py` for where an owner's row is read.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Final

from msgspec import Struct

CLOCK_SLACK_S: Final = 1.0
"""A remaining time above the row's own time to live means that the clock started anew: the machine was rebooted."""

HEARTBEAT_SPARE: Final = 1.25
"""A heartbeat is written for this many times `ttl_s`, so that most acquires find it long enough and write nothing."""

_abandoned: set[str] = set()


class OwnerRow(Struct, frozen=True):
    """What a store keeps of one owner."""

    owner: str
    pid: int
    started: str
    """Start time of the process in the kernel's own unit; empty where the system does not say."""
    boot_id: str
    pid_namespace: str
    expires: float
    """Seconds of the machine's monotonic clock."""
    ttl_s: float
    """The longest time to live that was ever asked for; bounds `expires` on a machine without boot ids."""


def new_owner() -> str:
    """`pid-random`: unique for ever, and a person sees which process it is."""
    return f"{os.getpid()}-{os.urandom(6).hex()}"


def describe(owner: str, expires: float, ttl_s: float) -> OwnerRow:
    """The row of an owner that lives in this very process."""
    pid = os.getpid()
    return OwnerRow(owner, pid, process_start(pid), boot_id(), pid_namespace(), expires, ttl_s)


def abandon(owner: str) -> None:
    """Remembers for the rest of this process that the owner is dead, though its process id is alive."""
    _abandoned.add(owner)


def abandoned() -> frozenset[str]:
    """Owners of this process that are dead."""
    return frozenset(_abandoned)


def is_abandoned(owner: str) -> bool:
    """True for an owner of this process that is dead."""
    return owner in _abandoned


def remaining_s(row: OwnerRow | None, now: float) -> float:
    """Seconds until leases of this owner can be taken; 0 when it expired or is known to be dead.

    Another boot of the machine: dead. A process of our pid namespace that is gone, or whose pid belongs to another
    process by now: dead at once, so that a restart after `kill -9` continues without waiting. Otherwise by expiry.
    """
    if row is None or row.owner in _abandoned:
        return 0.0
    left = row.expires - now
    if left <= 0 or left > row.ttl_s + CLOCK_SLACK_S or row.boot_id != boot_id():
        return 0.0
    if row.pid_namespace == pid_namespace() and not _is_running(row.pid, row.started):
        return 0.0
    return left


def monotonic() -> float:
    """The clock of `OwnerRow.expires`: one for all processes of a machine, those in time namespaces included."""
    return time.monotonic() - _namespace_offset_s()


@functools.cache
def _namespace_offset_s() -> float:
    """What this process's time namespace adds to the machine's monotonic clock (time_namespaces(7))."""
    for line in _text("/proc/self/timens_offsets").splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "monotonic":
            return int(words[1]) + int(words[2]) / 1e9
    return 0.0


@functools.cache
def boot_id() -> str:
    """Differs after each start of the machine; empty where the system does not say."""
    return _text("/proc/sys/kernel/random/boot_id")


def pid_namespace() -> str:
    """Within one namespace a process id means one process; empty where the system has no such thing."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When the process started, as the kernel counts; empty when unknown, "gone" for a zombie."""
    # The second field is the program's name in parentheses and may hold blanks and parentheses itself.
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return ""
    return "gone" if fields[0] in {"Z", "X"} else fields[19]


def _is_running(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to somebody else
    now_started = process_start(pid)
    return not now_started or not started or now_started == started


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
