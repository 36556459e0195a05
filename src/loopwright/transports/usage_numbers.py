"""Numbers out of the usage objects of providers, whatever they put there.

Owns: reading a count that may be missing, null or a float. Must not know: which fields a protocol has.
Read next: `openai_chat.py`.
"""

from __future__ import annotations

from typing import Any


def count(raw: dict[str, Any], *names: str) -> int:
    """The first of these fields that holds a number, as a count; else 0."""
    for name in names:
        value = raw.get(name)
        if isinstance(value, int | float) and value > 0:
            return int(value)
    return 0


def section(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under `name`; empty when there is none."""
    value = raw.get(name)
    return value if isinstance(value, dict) else {}
