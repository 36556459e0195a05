"""Text that goes to a model, as files: `*.md`, one text each, read once.

Owns: reading them. Must not know: who says them.
Read next: the files beside this one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text of `prompts/<name>.md` without its final newline."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
