"""Which sandbox shell commands get where nobody chose one.

Owns: the names of sandboxes, the choice, the notice when there is none. Must not know: how sandboxes are made.
Read next: `bubblewrap_shell.py`.
"""

from __future__ import annotations

import functools
import logging
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ..late import Late
from ..model.errors import ConfigError
from ..ports.shell import ShellBackend
from .local_shell import LocalShellBackend

if TYPE_CHECKING:
    from . import bubblewrap_shell, docker_shell
else:
    bubblewrap_shell = Late("loopwright.tools.bubblewrap_shell")
    docker_shell = Late("loopwright.tools.docker_shell")

SANDBOXES = ("auto", "bubblewrap", "docker", "docker:IMAGE", "local")

_log = logging.getLogger("loopwright.sandbox")


class ChosenShell(NamedTuple):
    """A backend, and what people should know about the choice."""

    backend: ShellBackend
    notice: str
    """One line; empty when there is a sandbox, or none was asked for."""


def shell_backend_for_here(sandbox: str = "auto") -> ChosenShell:
    """The backend of this name; `auto`: bubblewrap where it works, else this machine without a sandbox, with a notice.

    Blocks; sandboxes are tried, `auto` once in a process. Raises: `ConfigError` for an unknown name, and when a sandbox that
    was asked for by name cannot be made here: then nothing runs outside of it.
    """
    kind, _, image = sandbox.partition(":")
    if kind == "auto" and not image:
        return _found_here(shutil.which("bwrap") or "bwrap")
    if kind == "local" and not image:
        return ChosenShell(LocalShellBackend(), "")
    if kind == "bubblewrap" and not image:
        wanted: bubblewrap_shell.BubblewrapShellBackend | docker_shell.DockerShellBackend
        wanted = bubblewrap_shell.BubblewrapShellBackend()
    elif kind == "docker":
        wanted = docker_shell.DockerShellBackend(image=image or docker_shell.DEFAULT_IMAGE)
    else:
        raise ConfigError(f"unknown sandbox {sandbox!r}; use {', '.join(SANDBOXES)}")
    reason = wanted.available()
    if reason is not None:
        raise ConfigError(f"no sandbox {sandbox}: {reason}; take another one, or local for none")
    return ChosenShell(wanted, "")


@functools.cache
def _found_here(program: str) -> ChosenShell:
    return chosen(bubblewrap_shell.BubblewrapShellBackend(program=program))


def chosen(sandbox: bubblewrap_shell.BubblewrapShellBackend) -> ChosenShell:
    """This sandbox where it works, else none, with a notice that is logged, too. Blocks."""
    reason = sandbox.available()
    if reason is None:
        return ChosenShell(sandbox, "")
    notice = f"shell commands run without a sandbox and can do what this user can: {' '.join(reason.split())}"
    _log.warning(notice)
    return ChosenShell(LocalShellBackend(), notice)
