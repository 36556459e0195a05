"""Whether a condition of a workflow holds: a reference that must be truthy, a comparison, or all, any, not of those.

Owns: what is truthy and how values compare. Must not know: where values come from.
Nothing is evaluated as code, there are no regular expressions, and nothing raises: what cannot be compared does not hold.
Read next: `workflow_templates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import UNSET

from ..model.workflow_spec import Condition
from .workflow_templates import MISSING, Lookup, NoOutput, path_of, text_of


def holds(condition: Condition | str, lookup: Lookup) -> bool:
    """True when the condition holds for these values."""
    if isinstance(condition, str):
        return truthy(lookup(path_of(condition)))
    if condition.every is not None:
        return all(holds(one, lookup) for one in condition.every)
    if condition.some is not None:
        return any(holds(one, lookup) for one in condition.some)
    if condition.negated is not None:
        return not holds(condition.negated, lookup)
    left = lookup(path_of(condition.ref or ""))
    if condition.op is None:
        return truthy(left)
    return _compared(left, condition.op, None if condition.value is UNSET else condition.value)


def references_of_condition(condition: Condition | str | None) -> list[str]:
    """All references of a condition, in order."""
    if condition is None or isinstance(condition, str):
        return [condition] if condition else []
    inner = [*(condition.every or ()), *(condition.some or ()), *([condition.negated] if condition.negated else [])]
    return ([condition.ref] if condition.ref else []) + [ref for one in inner for ref in references_of_condition(one)]


def truthy(value: object) -> bool:
    """False for false, null, 0, what is empty, the texts "false" and "no", and an output that there is not."""
    if value is MISSING or isinstance(value, NoOutput):
        return False
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no")
    return bool(value)


def case_key(value: object) -> str:
    """The text by which a branch chooses its case: without white space around, true and false as in JSON."""
    return text_of(value).strip()


def _compared(left: object, op: str, right: object) -> bool:
    there = not (left is MISSING or isinstance(left, NoOutput))
    match op:
        case "exists":
            return there
        case "not_equals":
            return not (there and _equal(left, right))
        case _ if not there:
            return False
        case "equals":
            return _equal(left, right)
        case "contains":
            return _contains(left, right)
        case "in":
            return _contains(right, left)
        case "matches":
            return isinstance(right, str) and _matches(text_of(left), right)
        case _:
            return _ordered(left, op, right)


def _equal(left: object, right: object) -> bool:
    """Equal as JSON; a text and a number or true and false are, when the text says that number or word."""
    if isinstance(left, str) and isinstance(right, bool | int | float):
        left, right = right, left
    if isinstance(right, str) and isinstance(left, bool):
        return right.strip() == text_of(left)
    if isinstance(right, str) and isinstance(left, int | float):
        return _number(right) == left
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return left == right


def _contains(whole: object, part: object) -> bool:
    """A text has a text in it, a list an entry, an object a key."""
    if isinstance(whole, str):
        return text_of(part) in whole
    if isinstance(whole, Mapping):
        return isinstance(part, str) and part in whole
    if isinstance(whole, list | tuple):
        return any(_equal(one, part) for one in cast("Sequence[object]", whole))
    return False


def _ordered(left: object, op: str, right: object) -> bool:
    a, b = _number(left), _number(right)
    if a is None or b is None:
        return False
    return {"gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b}.get(op, False)


def _number(value: object) -> float | None:
    """The number that a value is or says; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value) if not isinstance(value, str) or len(value) <= 100 else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _matches(text: str, pattern: str) -> bool:
    """The whole text fits the pattern, in which * stands for any text; in time that grows with the text only."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in rest:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True
