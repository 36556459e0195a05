"""Typed looks into decoded JSON of which nothing is certain.

Owns: narrowing, reading counts, the bound on nesting. Must not know: which fields a protocol has.
Read next: `openai_chat.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard

_MAX_COUNT: Final = 2**53
MAX_DEPTH: Final = 200
"""How deep a provider's JSON may be nested; decoders, encoders and the journal all stay far from their own limits."""

_STRING_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def as_object(value: Any) -> dict[str, Any] | None:
    """`value` when it is a JSON object, else None."""
    return value if _is_object(value) else None


def as_list(value: Any) -> list[Any]:
    """`value` when it is a JSON array, else an empty one."""
    return value if _is_list(value) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in `value` when it is an array; other entries are left out."""
    return [item for item in map(as_object, as_list(value)) if item is not None]


def as_text(value: Any) -> str:
    """`value` when it is a string, else ""."""
    return value if isinstance(value, str) else ""


def section(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under `name`; empty when there is none."""
    return as_object(raw.get(name)) or {}


def is_too_deep(data: bytes) -> bool:
    """True when JSON text is nested deeper than `MAX_DEPTH`; brackets inside of strings do not count."""
    if len(data) <= MAX_DEPTH or data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(data):
        first = found[0][0]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif first in b"]}":
            depth -= 1
    return False


def checked_depth(data: bytes) -> bytes:
    """`data` as it is. Raises: `ValueError` when it is nested too deeply to be decoded."""
    if is_too_deep(data):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    return data


def loads_bounded(text: str) -> Any:
    """`text` as a JSON value. Raises: `ValueError` when it is no JSON or nested too deeply."""
    checked_depth(text.encode("utf-8", "replace"))
    return json.loads(text)


def count(raw: dict[str, Any], *names: str) -> int:
    """The first of these fields that holds a number above 0, as a count; else 0. What no count can be is missing."""
    for name in names:
        value = raw.get(name)
        if isinstance(value, int | float) and 0 < value <= _MAX_COUNT:
            return int(value)
    return 0


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a JSON value with each string, keys included, put through `change`."""
    if isinstance(value, str):
        return change(value)
    if _is_mapping(value):
        return {change(name): map_texts(member, change) for name, member in value.items()}
    if _is_sequence(value):
        return [map_texts(item, change) for item in value]
    return value


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)
