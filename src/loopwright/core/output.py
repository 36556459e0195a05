"""Reading a structured answer out of a reply.

Owns: finding the JSON object and naming what is wrong with it. Must not know: how schemas are validated
(the caller passes that in) or what happens next.
Read next: `decide.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from msgspec import Struct

from ..model.specs import StructuredOutputSpec

Validate: TypeAlias = Callable[[dict[str, Any], Any], str | None]
"""(schema, value) → why the value does not fit, or None."""


class Parsed(Struct, frozen=True):
    """The answer, valid."""

    value: dict[str, Any]


class Unfit(Struct, frozen=True):
    """Why the text is not the asked answer."""

    reason: str
    """no_json | invalid_json | not_object | missing_required | schema."""
    message: str


_FENCE = r"(?s)```(?:json|JSON)?\s*\n(.*?)```"
# Strings are matched first, so that what stands inside of one is never touched.
_TRAILING_COMMA = r'(?s)("(?:[^"\\]|\\.)*+")|,(\s*[}\]])'
_MAX_DEPTH = 200


def parse_structured(text: str, spec: StructuredOutputSpec, validate: Validate) -> Parsed | Unfit:
    """The answer in `text`: the whole text, a fenced block, or the first balanced object, in this order.

    A trailing comma is forgiven; anything else that is not JSON is not guessed at.
    """
    candidates = [text.strip(), *[m.strip() for m in re.findall(_FENCE, text)]]
    if (balanced := _first_object(text)) is not None:
        candidates.append(balanced)
    found: Any = None
    error = "the reply holds no JSON object"
    reason = "no_json"
    for candidate in candidates:
        if not candidate or candidate[0] not in "{[":
            continue
        try:
            found = _loads(candidate)
        except ValueError as failure:
            reason, error = "invalid_json", f"the JSON cannot be read: {failure}"
            continue
        if isinstance(found, dict):
            return _validated(cast("dict[str, Any]", found), spec, validate)
        reason, error = "not_object", f"expected a JSON object, got {type(found).__name__}"
    return Unfit(reason, error)


def _validated(value: dict[str, Any], spec: StructuredOutputSpec, validate: Validate) -> Parsed | Unfit:
    missing = [name for name in spec.schema.get("required", ()) if name not in value]
    if missing:
        return Unfit("missing_required", f"required fields are missing: {', '.join(missing)}")
    try:
        why = validate(spec.schema, value)
    except RecursionError:
        why = "it is nested too deeply to be checked"
    return Parsed(value) if why is None else Unfit("schema", why)


def _loads(text: str) -> Any:
    try:
        try:
            value = _strict(text)
        except ValueError:
            value = _strict(re.sub(_TRAILING_COMMA, lambda found: found[1] or found[2], text))
    except RecursionError:
        value = None
    if value is None or _is_too_deep(value):
        raise ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")
    return value


def _strict(text: str) -> Any:
    return json.loads(text, parse_constant=_no_json, parse_float=_finite)


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _is_too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True


def _first_object(text: str) -> str | None:
    """The first balanced `{...}`, strings respected; None when there is none."""
    start = text.find("{")
    if start < 0:
        return None
    depth, in_string, escaped = 0, False, False
    for index in range(start, len(text)):
        char = text[index]
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return text[start : index + 1]
    return None
