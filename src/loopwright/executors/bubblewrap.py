"""Leaves in a sandbox of Linux namespaces, made by the program `bwrap` (bubblewrap).

Owns: `BubblewrapLauncher`: what a leaf sees of the machine. Must not know: leaves, stores; a store is a path in a variable here.
Read next: `../namespaces.py`, the walls; `worker_job.py`, where launchers are promised what.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ..model.errors import ConfigError
from ..namespaces import Mount, devices, is_below, mounted, reason_against, walls
from ..ports.executor import LeafRef
from .worker_job import store_variable

_PACKAGE_ROOT: Final = str(Path(__file__).resolve().parents[2])


class BubblewrapLauncher(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `WorkerLauncher`: no network, the machine read-only, processes and names of its own.

    The leaf can write to its workspace, to the folder of its store where that is a file, to `writable`, and to a `/tmp` of
    its own that goes with it. It sees no process but its own, and when it ends, or its executor dies, nothing of it is left,
    whatever it did. It *reads* what the user reads, other than `hidden`: keys in files are not protected by being read-only.
    It is no wall against faults of the kernel. A store on a server, and models, need `network`.
    """

    network: bool = False
    """True: the network of the machine."""
    writable: tuple[str, ...] = ()
    """Further folders and files, which have to exist."""
    readable: tuple[str, ...] = ()
    """What it has to read below `/tmp` or a hidden folder. Python, its packages and `PYTHONPATH` are added."""
    hidden: tuple[str, ...] = ()
    """Folders that are empty for the leaf, such as the home folder."""
    program: str = "bwrap"
    """Name or path."""

    def available(self) -> str | None:
        """None when a sandbox can be made here and now, else why not, in a sentence for people. Blocks; tries it."""
        return reason_against(self.program)

    def build(
        self, base_argv: Sequence[str], base_env: Mapping[str, str], ref: LeafRef, workspace: str
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """See `WorkerLauncher.build`. Raises: `ConfigError` when a folder that it names is not there, or bwrap is not."""
        if shutil.which(self.program, path=base_env.get("PATH", os.defpath)) is None:
            raise ConfigError(f"{self.program} is not installed; ask available() before a sandbox is relied on")
        store = _folder_of_store(base_env.get(store_variable(ref.place), ""), workspace)
        writable = [workspace, *([store] if store else []), *self.writable]
        missing = [path for path in (*writable, *self.readable, *self.hidden) if not os.path.exists(path)]
        if missing:
            raise ConfigError(f"there is no {', '.join(missing)}; a sandbox can only be given what exists")
        empty = [os.path.abspath(path) for path in ("/tmp", *self.hidden)]
        needed = _needed(base_argv, base_env, self.readable)
        mounts = [Mount("ro-bind", "/"), *[Mount("tmpfs", path) for path in empty]]
        mounts += [Mount("ro-bind", path) for path in needed if any(is_below(path, folder) for folder in empty)]
        mounts += [Mount("bind", os.path.abspath(path)) for path in dict.fromkeys(writable)]
        argv = [*walls(self.program, network=self.network), *mounted(mounts[:1]), *devices(), *mounted(mounts[1:])]
        return [*argv, "--chdir", workspace, "--", *base_argv], {**base_env, "TMPDIR": "/tmp"}


def _folder_of_store(dsn: str, workspace: str) -> str | None:
    """The folder of the file that an address names: SQLite writes files beside it. None for a server or memory."""
    path = dsn.removeprefix("sqlite:///")
    if not path or "://" in path or path.startswith(("memory:", ":memory:")):
        return None
    return os.path.dirname(os.path.join(workspace, path))


def _needed(argv: Sequence[str], env: Mapping[str, str], readable: Sequence[str]) -> list[str]:
    """What Python needs to start there, wherever it is installed."""
    given = [
        argv[0],
        sys.prefix,
        sys.base_prefix,
        _PACKAGE_ROOT,
        *env.get("PYTHONPATH", "").split(os.pathsep),
        *readable,
    ]
    found = [os.path.abspath(path) for path in given if path]
    there = [path for path in dict.fromkeys(found) if os.path.exists(path)]
    # What lies in another of them comes with it; a link there cannot be mounted over.
    return [path for path in there if not any(is_below(path, other) for other in there if other != path)]
