"""Whether a value that somebody else built is plain JSON of bounded size and depth, found out at bounded cost.

Owns: the first look at a spec, before anything walks over it by recursion or keeps a copy of it. Must not know: specs.
A value that contains itself, is nested thousands of levels deep, or is shared so often that it would fill the memory when
written out is refused after at most `MAX_VALUES` steps.
Read next: `spec_shape.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from .spec_shape import MAX_PROBLEMS, Problem, key_path, kind_of

MAX_VALUES = 200_000
"""Values in one spec, counted as often as they are said."""

MAX_CHARS = 1_000_000
"""Characters of its JSON, about: names and texts, and a few for each value."""

MAX_LEVELS = 100
"""Objects and lists inside of each other."""

_PER_VALUE = 2
_Inside = Iterator[tuple[str, object]]


class _TooMuch(Exception):
    """What was seen is enough to refuse the value."""


def raw_problems(value: object, path: str) -> tuple[list[Problem], bool]:
    """What keeps a value from being plain JSON, and whether all of it was seen, so that it may be walked over again.

    Where it is too large, too deep or circular, that is the only problem.
    """
    problems: list[Problem] = []
    try:
        for _ in _walked(value, path, problems):
            pass
    except _TooMuch as reason:
        return [Problem(path, str(reason))], False
    return problems, len(problems) < MAX_PROBLEMS


def _walked(value: object, path: str, problems: list[Problem]) -> Iterator[None]:
    chars, values = _one(value, path, problems), 1
    open_ones: list[tuple[int, _Inside]] = [(id(value), _inside(value, path, problems))]
    around = {id(value)}
    while open_ones:
        own, rest = open_ones[-1]
        following = next(rest, None)
        if len(problems) >= MAX_PROBLEMS:
            return
        if following is None:
            open_ones.pop()
            around.discard(own)
            continue
        where, inner = following
        values += 1
        chars += _one(inner, where, problems) + _PER_VALUE
        if values > MAX_VALUES or chars > MAX_CHARS:
            raise _TooMuch(f"is larger than {MAX_CHARS:,} characters or {MAX_VALUES:,} values of JSON")
        if isinstance(inner, Mapping | list | tuple):
            if id(inner) in around:  # pyright: ignore[reportUnknownArgumentType]
                raise _TooMuch("contains itself; a spec is plain JSON")
            if len(open_ones) >= MAX_LEVELS:
                raise _TooMuch(f"is nested more than {MAX_LEVELS} levels deep")
            around.add(id(inner))  # pyright: ignore[reportUnknownArgumentType]
            open_ones.append((id(inner), _inside(inner, where, problems)))  # pyright: ignore[reportUnknownArgumentType]
        yield


def _one(value: object, path: str, problems: list[Problem]) -> int:
    """About the characters of the value itself; what is no JSON becomes a problem."""
    match value:
        case None | bool() | Mapping() | list() | tuple():
            return 4
        case str():
            if not value.isascii() and not _is_unicode(value):
                problems.append(Problem(path, "holds half of a surrogate pair, which is no valid text"))
            return len(value)
        case int():
            if not -(2**63) <= value < 2**64:
                problems.append(Problem(path, "is a whole number of more than 64 bits"))
            return 8
        case float():
            if not math.isfinite(value):
                problems.append(Problem(path, "must be a finite number"))
            return 8
        case _:
            problems.append(Problem(path, f"must be a value of JSON, not {kind_of(value)}"))
            return 8


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inside(value: object, path: str, problems: list[Problem]) -> _Inside:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            if isinstance(key, str):
                where = key_path(path, key)
                # The key counts as text, too.
                yield where, key
                yield where, inner
            elif len(problems) < MAX_PROBLEMS:
                problems.append(Problem(path, f"has a key that is no text but {kind_of(key)}"))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield f"{path}[{index}]", inner
