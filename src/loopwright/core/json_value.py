"""What of a Python value is no JSON value as it is.

Owns: `odd_in`. Must not know: what the value is for. Values in, values out.
Read next: `../engine/signals.py`.
"""

from __future__ import annotations

import math
from typing import Any, cast


def odd_in(value: Any) -> str | None:
    """What in a value without cycles would come back as something else, in words; None when it is JSON through and through.

    JSON are None, booleans, finite numbers, strings, lists, tuples (which come back as lists), and dicts with strings as keys.
    """
    open_ones: list[object] = [value]
    while open_ones:
        one = open_ones.pop()
        if one is None or isinstance(one, bool | int | str):
            continue
        if isinstance(one, float):
            if not math.isfinite(one):
                return f"{one!r} is no number of JSON"
        elif isinstance(one, list | tuple):
            open_ones.extend(cast("list[object]", one))
        elif isinstance(one, dict):
            members = cast("dict[object, object]", one)
            if any(type(key) is not str for key in members):
                return "it has a key that is no string"
            open_ones.extend(members.values())
        else:
            return f"it has a {type(one).__name__} in it"
    return None
