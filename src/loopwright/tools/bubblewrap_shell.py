"""Shell commands in a sandbox of Linux namespaces, made by the program `bwrap` (bubblewrap).

Owns: what of the machine a command sees. Must not know: how processes are run (`process.py`), the walls themselves
(`../namespaces.py`). What it stops and what it does not is tried in `tests/contract/sandboxes` and told in `docs/sandboxes.md`.
Read next: `choosing_shell.py`.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from ..core.secret_patterns import is_secret
from ..model.call_errors import ToolFailure
from ..namespaces import Mount, devices, is_below, mounted, reason_against, walls
from ..ports.shell import ShellLaunch
from .local_shell import QUIET
from .sandbox_limits import SandboxLimits

PROTECTED = (".git/hooks", ".git/config", ".loopwright")
"""In the workspace, and read-only all the same: what they say is done outside, later, with all rights."""

_SMALL = 4096
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix")
# Addresses of services of the machine, which are not there; and what would be loaded into every program.
_ABOUT_OUTSIDE = frozenset(
    {"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DOCKER_HOST", "TMUX", "LD_PRELOAD"}
)


class BubblewrapShellBackend(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `ShellBackend`: the programs of the machine, read-only; the workspace; and nothing else of it.

    No network, no files of the user, no process but its own, no capability whoever starts it. It can write to the workspace
    (without `protected`), to `writable`, and to a home and a `/tmp` of its own, which are in memory and go with it. It is no
    wall against faults of the kernel, and memory is bounded for each process only. When the process that started it ends, or
    the thread, nothing of it is left; so does a stop end it without a grace.
    Environment as with `LocalShellBackend`, and without addresses of services of the machine.
    """

    network: bool = False
    """True: the network of the machine, its loopback and abstract sockets included."""
    writable: tuple[str, ...] = ()
    """Further folders and files, absolute, which have to exist."""
    readable: tuple[str, ...] = ()
    """The same, read-only, such as tools below the home folder. The Python of this process is added; of `PATH` stays what is there."""
    hidden: tuple[str, ...] = ()
    """Absolute folders that are to be empty."""
    protected: tuple[str, ...] = PROTECTED
    """Paths in the workspace that are read-only. The folder around one is kept in its place, too; a missing one is made, empty, where that folder is there."""
    keep: tuple[str, ...] = ()
    """Variables that look like secrets and are passed on all the same."""
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that are added."""
    limits: SandboxLimits = SandboxLimits()
    program: str = "bwrap"
    """Name or path."""

    def available(self) -> str | None:
        """None when a sandbox can be made here and now, else why not, in a sentence for people. Blocks; tries it."""
        return reason_against(self.program)

    def launch(self, command: str, workspace: str) -> ShellLaunch:
        """How to run `command` in `workspace`; see `ShellBackend`. Raises: `ToolFailure` when a part of it is not there."""
        program = shutil.which(self.program)
        if program is None:
            raise ToolFailure(f"{self.program} is not installed; ask available() before a sandbox is relied on")
        env = self._environment(workspace)
        home = env["HOME"]
        _check_places(workspace, home, (*self.writable, *self.readable, *self.hidden))
        given = self._given(home, workspace)
        path = f"{env.get('PATH', os.defpath)}:{os.path.realpath(sys.base_prefix)}/bin"
        env["PATH"] = _visible(path, (*given, *self.writable, workspace))
        mounts = [
            *_system(),
            *self._own_places(home),
            *[Mount("ro-bind", path) for path in given],
            *[Mount("bind", path) for path in self.writable],
            Mount("bind", workspace),
            *protections(workspace, self.protected),
            *[Mount("tmpfs", path, size=_SMALL) for path in self.hidden],
        ]
        inside = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        argv = [
            *walls(program, network=self.network),
            *["--size", "1048576", "--tmpfs", "/"],
            *devices(),
            *mounted(mounts),
            *["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workspace],
            *["--", "/bin/sh", "-c", self.limits.shell_program(), "sh", inside, "-c", command],
        ]
        return ShellLaunch(tuple(argv), workspace, env)

    def _environment(self, workspace: str) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name in self.keep or not (is_secret(name, value) or name in _ABOUT_OUTSIDE)
        }
        home = env.get("HOME", "")
        # A home in a place of the system, or around the workspace, cannot be hidden.
        if not os.path.isabs(home) or home == "/" or home.split("/")[1] in _SYSTEM:
            env["HOME"] = "/tmp"
        return {**env, **QUIET, "PWD": workspace, "TMPDIR": "/tmp", **self.extra}

    def _own_places(self, home: str) -> Iterator[Mount]:
        for path in dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm", os.path.abspath(home))):
            yield Mount("tmpfs", path, size=self.limits.tmp_bytes)
        for path in _private("/etc"):
            yield Mount("tmpfs", path, size=_SMALL) if os.path.isdir(path) else Mount("ro-bind", path, "/dev/null")
        names = os.path.realpath("/etc/resolv.conf")
        if self.network and not is_below(names, "/etc") and os.path.exists(names):
            yield Mount("ro-bind", names)

    def _given(self, home: str, workspace: str) -> list[str]:
        """The Python of this process, where it is outside of the system's folders, and what the host named."""
        found = dict.fromkeys([os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)])
        programs = [
            path
            for path in found
            if path.count("/") > 1
            and os.access(path, os.R_OK | os.X_OK)
            and path.split("/")[1] not in _SYSTEM
            and not any(is_below(other, path) for other in (home, workspace))
            and not is_below(path, workspace)
        ]
        return [*programs, *self.readable]


def _visible(path: str, places: Iterable[str]) -> str:
    """The parts of a `PATH` that are in the sandbox: a program that is half there would hide one that works."""
    system = tuple(f"/{name}" for name in _SYSTEM)
    parts = [part for part in dict.fromkeys(path.split(os.pathsep)) if os.path.isabs(part)]
    return os.pathsep.join([one for one in parts if any(is_below(one, place) for place in (*system, *places))])


def _system() -> Iterator[Mount]:
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            yield Mount("symlink", path, os.readlink(path))
        elif os.path.isdir(path):
            yield Mount("ro-bind", path)


@functools.cache
def _private(folder: str) -> tuple[str, ...]:
    """What below a folder this user may read and not everybody: passwords and keys, when this is root's process."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
            if not stat.S_ISLNK(mode) and mode & needed != needed and os.access(path, os.R_OK):
                found.append(path)
        folders[:] = [name for name in folders if os.path.join(place, name) not in found]
    return tuple(found)


def _check_places(workspace: str, home: str, named: tuple[str, ...]) -> None:
    kernels = any(is_below(workspace, path) for path in ("/proc", "/sys"))
    if workspace in ("/", "/dev") or kernels or is_below(home, workspace):
        raise ToolFailure(
            f"the workspace {workspace} holds the home folder or the system, so that a sandbox would protect nothing;"
            " take a folder of the project, or another ShellBackend"
        )
    missing = [path for path in named if not (os.path.isabs(path) and os.path.exists(path))]
    if missing:
        raise ToolFailure(
            f"there is no {', '.join(missing)}; a sandbox can only be given what exists, by absolute path"
        )


def protections(workspace: str, protected: tuple[str, ...]) -> Iterator[Mount]:
    """Mounts that keep paths of the workspace as they are; the folders around them, so that they cannot be moved away."""
    kept: dict[str, Mount] = {}
    for name in protected:
        path = workspace
        *around, last = name.split("/")
        for part in around:
            path = _checked(os.path.join(path, part))
            if not os.path.isdir(path):
                break
            kept.setdefault(path, Mount("bind", path))
        else:
            path = _checked(os.path.join(path, last))
            if os.path.exists(path):
                kept[path] = Mount("ro-bind", path)
            elif os.path.isdir(os.path.dirname(path)):
                kept[path] = _absent(path)
            continue
        if os.path.exists(path):  # a file in the place of the folder, such as the .git of a linked worktree
            kept[path] = Mount("ro-bind", path)
    yield from kept.values()


def _absent(path: str) -> Mount:
    """What is written there does not reach the workspace, which gets an empty file or folder as the place of the mount."""
    return Mount("ro-bind", path, "/dev/null") if path.endswith("/config") else Mount("tmpfs", path, size=_SMALL)


def _checked(path: str) -> str:
    if os.path.islink(path):
        raise ToolFailure(
            f"{path} is a link, which a sandbox cannot protect; replace it, or leave it out of `protected`"
        )
    return path
