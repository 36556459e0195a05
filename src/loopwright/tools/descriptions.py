"""What models read about the built-in tools.

Owns: loading `prompts/tools/<name>.md`. Must not know: the tools.
Read next: `presets.py`.
"""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def description_of(name: str) -> str:
    """The description of a built-in tool, read from the package at first use."""
    folder = resources.files(__name__.partition(".")[0]).joinpath("prompts", "tools")
    return folder.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
