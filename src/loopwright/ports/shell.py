"""The seam to where shell commands run.

Owns: what is asked of a backend. Must not know: how a process is started, stopped and read (`tools/process.py`).
Read next: `tools/local_shell.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class ShellLaunch(Struct, frozen=True):
    """How one command is started."""

    argv: tuple[str, ...]
    """The program and its arguments; never read by a shell of ours."""
    cwd: str
    """Absolute path of the folder to start in."""
    env: Mapping[str, str]
    """The whole environment; nothing of this process's own is added."""


class ShellBackend(Protocol):
    """Says how a command is started: on this machine, in a container, in a sandbox."""

    def launch(self, command: str, workspace: str) -> ShellLaunch:
        """The process that runs `command` with `workspace` as its folder.

        Guarantees asked of an implementer: no effect of its own before the process starts; standard input, output and errors
        of that process are those of the command; everything that the command starts ends when the process group of that
        process is killed (a sandbox's client has to pass the end on). `command` is one of the shell's language, of any length;
        a shell that lives on between commands is a command, too (`tools/shell_session.py`).
        Raises: `ToolFailure` with the reason when the command cannot be run now. Called concurrently from any thread. Cheap.
        """
        ...
