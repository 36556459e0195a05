"""What models read about the built-in tools.

Owns: loading `prompts/tools/<name>.md`. Must not know: the tools.
Read next: `presets.py`.
"""

from __future__ import annotations

from ..prompts import prompt


def description_of(name: str) -> str:
    """The description of a built-in tool, read from the package at first use."""
    return prompt(f"tools/{name}")
