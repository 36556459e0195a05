"""Environments of leaves' processes, and what is left of them."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def environment(**more: str) -> dict[str, str]:
    """What a leaf of a test starts with: this process's places for modules, and nothing that leads it elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWRIGHT_")}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **more}


def carrying(name: str, value: str) -> list[int]:
    """Processes that are not zombies and have this in their environment."""
    wanted = f"{name}={value}".encode()
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
