"""Text that goes to a model, as files: `*.md`, one text each, read once.

Owns: reading them. Must not know: who says them.
Read next: the files beside this one.
"""

from __future__ import annotations

import os
from functools import cache

_FOLDER = os.path.dirname(__file__)


@cache
def prompt(name: str) -> str:
    """The text of `prompts/<name>.md` without its final newline."""
    # Not importlib.resources: it loads tempfile, shutil and the compressors, which no agent needs to start.
    with open(os.path.join(_FOLDER, f"{name}.md"), encoding="utf-8") as file:
        return file.read().rstrip("\n")
