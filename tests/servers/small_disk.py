"""A real file system that is too small or only reads, mounted for one test.

Owns: mounting and giving back. Needs Linux and the right to mount; without it the test is skipped with that reason.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of `size` ("8m") in the folder `place`, which is made; gone with the block, and what is in it."""
    place.mkdir(parents=True, exist_ok=True)
    before = place.stat()
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0700,uid={before.st_uid},gid={before.st_gid}", "tmpfs", place)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True, capture_output=True)


def remount(place: Path, *options: str) -> None:
    """Changes it while it is in use: `ro`, `rw`, `size=16m`."""
    _run("mount", "-o", ",".join(["remount", *options]), place)


def fill(place: Path) -> Path:
    """Takes all that is left; the file to remove for space."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    return ballast


def _run(*words: str | Path) -> None:
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this place does not allow mounting a small file system: {done.stderr.strip()}")
