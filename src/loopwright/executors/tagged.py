"""Processes that carry the tag of a leaf in their environment, wherever they went: other groups, sessions, parents.

Owns: finding and ending them through /proc. Must not know: leaves. What escapes: a process that cleared or replaced its
environment *and* left the process group; one of another user; everything on a system without /proc. A sandbox with a
process namespace of its own (`bubblewrap.py`) lets nothing escape.
Why not a child subreaper: it is a property of the whole host process, and would make it the parent of strangers' orphans.
Read next: `leaf_process.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from .worker_job import TAG_VARIABLE

LONGEST_S = 1.0
"""How long ending takes at most; a process in an uninterruptible wait of the kernel may outlast it."""

_POLL_S = 0.002


def tagged(tag: str) -> list[int]:
    """Ids of the processes with this tag, without this one, zombies, and the first one, which in a sandbox has the tag too.

    Nobody in a process namespace can kill its first process; who made the sandbox ends it.
    """
    wanted = f"{TAG_VARIABLE}={tag}".encode()
    spared = {"1", str(os.getpid())}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit() and name not in spared and _has(int(name), wanted)]


def end_tagged(tag: str) -> list[int]:
    """Kills them, and those that they start meanwhile; the ids that were still there at the end. Blocks, up to `LONGEST_S`."""
    wanted = f"{TAG_VARIABLE}={tag}".encode()
    until = time.monotonic() + LONGEST_S
    pause = threading.Event()
    while left := tagged(tag):
        for pid in left:
            _kill(pid, wanted)
        if time.monotonic() >= until:
            break
        pause.wait(_POLL_S)
    return left


def _has(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:  # it ended, or belongs to somebody else
        return False


def _kill(pid: int, wanted: bytes) -> None:
    """Through a descriptor that names this very process, so that its number cannot have passed to another."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        if _has(pid, wanted):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(handle)
