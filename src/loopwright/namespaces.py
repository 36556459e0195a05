"""Walls of Linux namespaces, as arguments of the program `bwrap` (bubblewrap).

Owns: what every sandbox of ours has, whatever it is given of the machine; whether one can be made here. Must not know: what
runs in it. It stands below all layers: shells (`tools/bubblewrap_shell.py`) and leaves (`executors/bubblewrap.py`) both use it.
Source of the options: bwrap(1), version 0.8.
Read next: `tools/bubblewrap_shell.py`.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PROBE_S: Final = 10.0

# Whose process is root's keeps the rights of root's *files* in a namespace, without any capability: settings of the kernel,
# and memory and keys of the machine, have to be covered.
_COVERED_FOLDERS: Final = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/tty")
_COVERED_FILES: Final = (
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/key-users",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
    "/proc/mtrr",
)


class Mount(NamedTuple):
    """One line of what a sandbox sees."""

    how: str
    """"bind" | "ro-bind" | "tmpfs" | "symlink"."""
    path: str
    """Where it is seen, absolute."""
    source: str = ""
    """Path of what is seen there; of a link what it says; empty: the same path."""
    size: int | None = None
    """Bytes, of a tmpfs; None: half of the machine's memory."""


def walls(program: str, *, network: bool) -> list[str]:
    """The program and the options for namespaces of its own, no capability, and an end with whoever started it."""
    argv = [program, "--unshare-all", "--unshare-user", *(["--share-net"] if network else [])]
    argv += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # A namespace made inside would give back capabilities over itself, and with them much of the kernel to try.
    return [*argv, "--disable-userns"] if _knows(program, "--disable-userns") else argv


def devices() -> list[str]:
    """A `/dev` with the harmless devices, and a `/proc` of the sandbox's own processes that cannot change the kernel."""
    argv = ["--dev", "/dev", "--proc", "/proc"]
    for path in _COVERED_FOLDERS:
        argv += ["--ro-bind-try", path, path] if os.path.isdir(path) else []
    for path in _COVERED_FILES:
        argv += ["--ro-bind", "/dev/null", path] if os.path.exists(path) else []
    return argv


def mounted(mounts: Iterable[Mount]) -> list[str]:
    """Options for the mounts, from the outside in: what is said of a folder holds whatever is said of the one around it."""
    argv: list[str] = []
    for mount in sorted(mounts, key=lambda one: one.path.rstrip("/").count("/")):
        if mount.how == "tmpfs":
            argv += [*([] if mount.size is None else ["--size", str(mount.size)]), "--tmpfs", mount.path]
        else:
            argv += [f"--{mount.how}", mount.source or mount.path, mount.path]
    return argv


def is_below(path: str, folder: str) -> bool:
    """True for the folder itself, too; both absolute."""
    return os.path.commonpath([path, folder]) == folder


def reason_against(program: str) -> str | None:
    """None when a sandbox can be made here and now, else why not, in a sentence for people. Blocks; tries it."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap needs Linux"
    found = shutil.which(program)
    if found is None:
        return f"the program {program} is not installed (Debian and Ubuntu: apt-get install bubblewrap)"
    # An empty folder over one that is there, as sandboxes have it; not over `/tmp`, where the program itself may be.
    whole = [Mount("ro-bind", "/"), Mount("tmpfs", "/var/tmp", size=1 << 20)]
    return _tried(program, [*walls(found, network=False), *mounted(whole), *devices(), "--", "/bin/sh", "-c", ":"])


def _tried(program: str, command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be tried: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.strip() or f"exit code {done.returncode}"
    return f"{program} cannot make a sandbox here, as when the kernel or a container forbids user namespaces: {said}"


@functools.cache
def _knows(program: str, option: str) -> bool:
    try:
        done = subprocess.run(
            [program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option in done.stdout + done.stderr
