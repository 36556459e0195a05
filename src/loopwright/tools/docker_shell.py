"""Shell commands in a container, through the command line of Docker, or of a program that takes the same options.

Owns: the options. Must not know: how processes are run (`process.py`), how a container ends with its client (`docker_client.py`).
Source of the options: docker-run(1), Docker 27.
Read next: `choosing_shell.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from ..core.secret_patterns import is_secret
from ..model.call_errors import ToolFailure
from ..ports.shell import ShellLaunch
from .bubblewrap_shell import PROTECTED, protections
from .local_shell import QUIET
from .sandbox_limits import SandboxLimits

DEFAULT_IMAGE = "debian:stable-slim"
PROBE_S = 20.0
_CLIENT = str(Path(__file__).with_name("docker_client.py"))
_SHELL = 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"'


class DockerShellBackend(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `ShellBackend`: a container for each shell, with the workspace at its own path and nothing else of the machine.

    No network, no capability, the image read-only, memory and processes bounded for all together. Of the environment only
    `extra` gets in. The container is removed when its client ends, in whatever way; a stop ends it without a grace.
    The image needs `sh`; with `bash` there, that is used. It is fetched by Docker at first use, within that command's time.
    """

    image: str = DEFAULT_IMAGE
    network: str = "none"
    """As for `--network`."""
    user: str = ""
    """As for `--user`; empty: this process's, so that files in the workspace are its own."""
    writable: tuple[str, ...] = ()
    """Further folders, absolute, which have to exist."""
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = PROTECTED
    """Paths in the workspace that are read-only, where they exist; they and the folders around them stay in their places."""
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the command."""
    limits: SandboxLimits = SandboxLimits()
    program: str = "docker"
    """Name or path."""

    def available(self) -> str | None:
        """None when an engine answers, else why not, in a sentence for people. Blocks; asks it."""
        if shutil.which(self.program) is None:
            return f"the program {self.program} is not installed"
        try:
            done = subprocess.run(
                [self.program, "version", "--format", "{{.Server.Version}}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.program} cannot be asked: {error}"
        if done.returncode == 0:
            return None
        return f"{self.program} has no engine to run containers: {done.stderr.strip() or done.returncode}"

    def launch(self, command: str, workspace: str) -> ShellLaunch:
        """How to run `command` in `workspace`; see `ShellBackend`. Raises: `ToolFailure` for what a container cannot be given."""
        program = shutil.which(self.program)
        if program is None:
            raise ToolFailure(f"the program {self.program} is not installed; ask available() before it is relied on")
        name = f"loopwright-{os.urandom(8).hex()}"
        container = [
            *[program, "run", "--rm", "--interactive", "--init", "--name", name],
            *self._walls(),
            *self._mounts(workspace),
            *["--workdir", workspace, "--entrypoint", "sh", self.image, "-c", _SHELL, command],
        ]
        argv = (sys.executable, "-I", "-S", _CLIENT, program, name, *container)
        env = {name: value for name, value in os.environ.items() if not is_secret(name, value)}
        return ShellLaunch(argv, workspace, env)

    def _walls(self) -> list[str]:
        limits = self.limits
        argv = ["--network", self.network, "--read-only", "--cap-drop", "ALL", "--ipc", "private"]
        argv += ["--security-opt", "no-new-privileges", "--user", self.user or f"{os.getuid()}:{os.getgid()}"]
        argv += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        argv += ["--pids-limit", str(limits.processes), "--shm-size", str(limits.tmp_bytes)]
        for name, most in (("core", 0), ("nofile", limits.open_files), ("fsize", limits.file_bytes)):
            argv += ["--ulimit", f"{name}={most}"]
        argv += ["--ulimit", f"cpu={limits.cpu_s}"]
        for place in ("/tmp", "/var/tmp"):
            argv += ["--tmpfs", f"{place}:rw,exec,nosuid,nodev,size={limits.tmp_bytes}"]
        for name, value in {**QUIET, "HOME": "/tmp", "TMPDIR": "/tmp", **self.extra}.items():
            argv += ["--env", f"{name}={value}"]
        return argv

    def _mounts(self, workspace: str) -> list[str]:
        argv: list[str] = []
        for path in self.readable:
            argv += _mount(path, readonly=True)
        for path in (*self.writable, workspace):
            argv += _mount(path)
        for mount in protections(workspace, self.protected):
            # What is not there has nothing to be mounted.
            argv += [] if mount.source or mount.how == "tmpfs" else _mount(mount.path, readonly=mount.how == "ro-bind")
        return argv


def _mount(path: str, *, readonly: bool = False) -> list[str]:
    if not (os.path.isabs(path) and os.path.exists(path)):
        raise ToolFailure(f"there is no {path}; a container can only be given what exists, by absolute path")
    if set(path) & set(',"\n'):
        raise ToolFailure(f"{path!r} cannot be written in an option of Docker; rename the folder")
    return ["--mount", f"type=bind,source={path},target={path}" + (",readonly" if readonly else "")]
