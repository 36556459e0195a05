"""What of a Python value is no JSON value as it is.

Owns: `odd_in`. Must not know: what the value is for. Values in, values out.
Read next: `../engine/signals.py`.
"""

from __future__ import annotations

import math
from typing import Any


def odd_in(value: Any) -> str | None:
    """What in a value without cycles would come back as something else, in words; None when it is JSON through and through.

    JSON are None, booleans, finite numbers, strings, lists, tuples (which come back as lists), and dicts with strings as keys.
    """
    open_ones = [value]
    while open_ones:
        match open_ones.pop():
            case None | bool() | int() | str():
                pass
            case float() as number:
                if not math.isfinite(number):
                    return f"{number!r} is no number of JSON"
            case list() | tuple() as inner:
                open_ones.extend(inner)
            case dict() as inner:
                if any(type(key) is not str for key in inner):
                    return "it has a key that is no string"
                open_ones.extend(inner.values())
            case other:
                return f"it has a {type(other).__name__} in it"
    return None
