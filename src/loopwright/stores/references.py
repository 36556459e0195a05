"""Which artifacts a stored body refers to.

Owns: the rule, once for all stores: an id that stands anywhere in the bytes. Must not know: where bodies are kept.
Read next: `sqlite_space.py`.
"""

from __future__ import annotations

import re
from typing import Final

_ID: Final = re.compile(rb"art_[0-9a-f]{32}")


def artifact_ids_in(body: bytes) -> set[str]:
    """Ids as `derived.artifact_name` makes them, wherever they stand: in fields, in texts, in a host's own data."""
    return {found.decode("ascii") for found in _ID.findall(body)}
