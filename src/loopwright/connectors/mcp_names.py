"""Names of tools that providers accept, from names that servers chose.

Owns: how a name is made, and that no two are the same. Must not know: servers, registries.
Read next: `mcp_tools.py`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_NAME: Final = 64

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST: Final = 8


def tool_name(prefix: str, name: str) -> str:
    """`<prefix>_<name>` in `[A-Za-z0-9_-]{1,64}`; what is too long is cut and ends in digits of its digest.

    Equal arguments give equal names, on every machine. An empty prefix adds nothing.
    """
    before = _OTHER.sub("_", prefix).strip("_")
    after = _OTHER.sub("_", name)
    made = f"{before}_{after}" if before else after
    if len(made) <= MAX_NAME and made.strip("_"):
        return made
    digest = hashlib.sha256(f"{prefix}\0{name}".encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{made[: MAX_NAME - _DIGEST - 1]}_{digest}".lstrip("_")
