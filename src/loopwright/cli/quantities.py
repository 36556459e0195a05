"""Ages and sizes as people write and read them.

Owns: the units. Must not know: commands.
Read next: `db_commands.py`.
"""

from __future__ import annotations

import re
from typing import Final

from ..model.errors import ConfigError

_SECONDS: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_BYTES: Final = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def age_of(text: str) -> float:
    """Seconds of `30d`, `12h`, `90min`, `2w`. Raises `ConfigError`."""
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in _SECONDS:
        raise ConfigError(f"{text!r} is no age; write a number and a unit: 90min, 12h, 30d, 2w")
    return float(match[1]) * _SECONDS[match[2].lower()]


def bytes_in(text: str) -> int:
    """Bytes of `500MB`, `2GB`, `1.5GiB`. Raises `ConfigError`."""
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in _BYTES:
        raise ConfigError(f"{text!r} is no size; write a number and a unit: 500MB, 2GB, 1.5GiB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def size_text(count: int) -> str:
    """A size in the unit that leaves one to three digits before the point."""
    if count < 1000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:,.1f} TB"
