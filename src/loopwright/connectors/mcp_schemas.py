"""Whether a schema that a server sent can be used.

Owns: bounds on its size and depth, and that it compiles. Must not know: who sent it.
Loading the validator takes tens of milliseconds, so nothing imports this module at start.
Read next: `mcp_tools.py`.
"""

from __future__ import annotations

from typing import Any, Final, cast

import jsonschema_rs
from msgspec import json

MAX_BYTES: Final = 65_536
"""Of a schema as JSON: the model reads all of it with each request."""
MAX_DEPTH: Final = 64
MAX_REASON: Final = 200


def unusable_parameters(schema: object) -> str | None:
    """Why a schema cannot describe the arguments of a tool; None when it can."""
    if not isinstance(schema, dict):
        return "its schema is no object"
    members = cast("dict[str, Any]", schema)
    if members.get("type") != "object":
        return f'its schema has type {_short(members.get("type"))}, not "object"'
    return unusable_schema(members)


def unusable_schema(schema: object) -> str | None:
    """Why a schema cannot be used at all; None when it can. `$ref` to other documents is refused: nothing is fetched."""
    if (why := too_deep(schema)) is not None:
        return why
    try:
        size = len(json.encode(schema))
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        return f"its schema is no JSON ({type(error).__name__})"
    if size > MAX_BYTES:
        return f"its schema has {size} bytes; at most {MAX_BYTES} are allowed"
    try:
        jsonschema_rs.validator_for(cast("dict[str, Any]", schema), offline=True)
    except (ValueError, TypeError, UnicodeError) as error:
        return f"its schema is no valid JSON Schema: {_first_line(error)}"
    return None


def misfit(schema: dict[str, Any], value: Any) -> str | None:
    """What in `value` does not fit a schema that is usable, in one short line; None when it fits."""
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
        for error in validator.iter_errors(value):
            place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            return f"${place}: {_first_line(error)}"
    except (ValueError, TypeError, RecursionError, UnicodeError) as error:
        return f"$: cannot be checked: {_first_line(error)}"
    return None


def too_deep(value: object) -> str | None:
    """Why a value is nested too deeply to be a schema; None when it is not."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(cast("dict[object, object]", one).values())
            elif isinstance(one, list):
                below.extend(cast("list[object]", one))
        if not below:
            return None
        level = below
    return f"its schema is nested deeper than {MAX_DEPTH} levels"


def _short(value: object) -> str:
    return repr(value) if value is None or isinstance(value, str | int) else type(value).__name__


def _first_line(error: BaseException) -> str:
    message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return (message or type(error).__name__).splitlines()[0][:MAX_REASON]
