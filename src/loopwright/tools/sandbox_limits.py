"""What a command in a sandbox may use up.

Owns: the limits, and how they are set where nothing but the shell can set them. Must not know: sandboxes.
Read next: `bubblewrap_shell.py`, `docker_shell.py`.
"""

from __future__ import annotations

import sys

from msgspec import Struct

if sys.platform != "win32":
    import resource

SET_LIMITS = (
    "ulimit -c 0 && ulimit -n {open_files} && ulimit -f {file_blocks} && ulimit -t {cpu_s} && ulimit -d {memory_kib}"
    " && {{ ulimit -u {processes} 2>/dev/null || ulimit -p {processes}; }}"
    " || {{ echo 'the limits of the sandbox could not be set' >&2; exit 126; }}\n"
    'exec "$@"'
)
"""A program for `/bin/sh`, which is to be formatted; its arguments are the command. `-f` counts blocks of 512 bytes there."""


class SandboxLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one sandbox. What counts for each process, and what for all together, depends on the sandbox."""

    memory_bytes: int = 4 << 30
    """bubblewrap: writable memory of each process; Docker: of all together."""
    processes: int = 512
    """Of the sandbox; in bubblewrap since Linux 5.14, and never when it was started by root, whom the kernel does not bind."""
    file_bytes: int = 1 << 30
    """Of each file. How many files there are is bounded by the disk only."""
    open_files: int = 1024
    """Of each process."""
    cpu_s: int = 3600
    """Of each process."""
    tmp_bytes: int = 512 << 20
    """Of `/tmp`, and of each other place that is kept in memory."""

    def shell_program(self) -> str:
        """Sets the limits of each process and goes on with the command in its arguments."""
        return SET_LIMITS.format(
            open_files=_within("RLIMIT_NOFILE", self.open_files),
            file_blocks=_within("RLIMIT_FSIZE", self.file_bytes) // 512,
            cpu_s=_within("RLIMIT_CPU", self.cpu_s),
            memory_kib=_within("RLIMIT_DATA", self.memory_bytes) // 1024,
            processes=_within("RLIMIT_NPROC", self.processes),
        )


def _within(name: str, wanted: int) -> int:
    """Not more than this process may have itself: nobody can raise that."""
    if sys.platform == "win32":
        return wanted
    hard = resource.getrlimit(getattr(resource, name))[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
