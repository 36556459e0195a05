"""Where the files of leaves are: one folder a run, one file a leaf.

Owns: names of folders and files, and removing them. Must not know: what is in them.
Read next: `own_file.py`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Container
from pathlib import Path

from ..model.errors import ConfigError
from ..ports.executor import LeafRef

_ENDINGS = ("", "-wal", "-shm", "-journal")


def file_of(runs_dir: Path, ref: LeafRef) -> Path:
    """`<run>/<step>__<hash>.db`: the same for each attempt of a leaf, so that the next one finds what the last one left."""
    step = _plain(ref.path or ref.agent_name, 60)
    return folder_of(runs_dir, ref.run_id) / f"{step}__{_hash(f'{ref.place} {ref.session_id}')}.db"


def folder_of(runs_dir: Path, run_id: str) -> Path:
    """The folder of a run; ids that no folder can be named by get another name that is as unique."""
    name = _plain(run_id, 80)
    return runs_dir / (name if name == run_id else f"{name}__{_hash(run_id)}")


def make_folder(file: Path) -> bool:
    """Makes the folder of a file; True when the file is there already."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.exists()


def remove_file(file: Path) -> None:
    """Removes the file of a leaf with what belongs to it, and the folder of its run when that is empty now."""
    for ending in _ENDINGS:
        file.with_name(file.name + ending).unlink(missing_ok=True)
    try:
        file.parent.rmdir()
    except OSError:
        pass


def remove_run(runs_dir: Path, run_id: str) -> bool:
    """Removes all files of a run; False when there are none."""
    folder = folder_of(runs_dir, run_id)
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True


def reap(runs_dir: Path, *, older_than_s: float, now: float, running: Container[Path]) -> int:
    """Removes runs in which nothing was written for `older_than_s` before `now` (UTC epoch seconds); how many went.

    `running`: folders that stay in any case. Folders that hold anything but leaves' files are not ours, and stay.
    """
    if older_than_s < 0:
        raise ConfigError("older_than_s must be 0 or more seconds")
    gone = 0
    for folder in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        if not folder.is_dir() or folder.is_symlink() or folder in running:
            continue
        files = list(folder.iterdir())
        if any("__" not in file.name or ".db" not in file.name for file in files):
            continue
        if max([file.stat().st_mtime for file in [folder, *files]]) <= now - older_than_s:
            shutil.rmtree(folder)
            gone += 1
    return gone


def _plain(text: str, length: int) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:length] or "leaf"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
