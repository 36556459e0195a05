"""Whether raw JSON has the shape that a spec's type declares; every fault is found in one pass and said with its path.

Owns: `Problem`, and the walk over a value beside its type: keys, types, ranges, lengths, patterns, choices. The types are
the only source: what stands in their `Meta` is what is checked here, printed in the manual and put into JSON Schemas.
Must not know: what a spec means, so neither ids nor references.
Read next: `agent_spec.py`, `workflow_spec.py`, `../core/workflow_check.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias, cast

import msgspec.inspect as kinds
from msgspec import NODEFAULT, Struct

MAX_PROBLEMS = 100
"""Messages of one answer; the last of them says how many more there are, as far as they were counted."""

_KEPT = 3 * MAX_PROBLEMS
_LONGEST_GUESS = 32
_MOST_GUESSES = 10
_SHOWN = 60
_NOTHING: Mapping[str, object] = {}
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Problem(NamedTuple):
    """One fault of a spec."""

    path: str
    """Where it is, such as `root.steps[2].spec.name`; empty for the spec as a whole."""
    message: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        return f"{self.path or 'spec'}: {self.message}"


Found: TypeAlias = Callable[[str, str], None]
"""Takes a path and a message."""

Task: TypeAlias = tuple[object, kinds.Type, str]


def shape_problems(value: object, cls: type[Struct], path: str = "") -> list[Problem]:
    """All faults of `value` against a struct type, in the order of the text; values that were accepted can be converted.

    Takes builtin values only (as `json.loads` gives them, tuples too) whose size and depth were bounded before.
    """
    problems: list[Problem] = []

    def found(where: str, message: str) -> None:
        if len(problems) < _KEPT:
            problems.append(Problem(where, message))

    waiting: list[Task] = [(value, _declared(cls), path)]
    while waiting and len(problems) < _KEPT:
        inner = list(_looked_at(*waiting.pop(), found))
        waiting.extend(reversed(inner))
    return problems


def field_problems(settings: Struct) -> list[Problem]:
    """The same for the fields of a struct that was built in Python; those that are their default are not looked at."""
    problems: list[Problem] = []

    def found(where: str, message: str) -> None:
        if len(problems) < _KEPT:
            problems.append(Problem(where, message))

    for part in _declared(type(settings)).fields:
        value = getattr(settings, part.name)
        if value is part.default or (part.default_factory is not NODEFAULT and not value and type(value) is dict):
            continue
        waiting: list[Task] = [(value, part.type, part.encode_name)]
        while waiting:
            waiting.extend(reversed(list(_looked_at(*waiting.pop(), found))))
    return problems


@cache
def _declared(cls: type[Struct]) -> kinds.StructType:
    return cast("kinds.StructType", kinds.type_info(cls))


def key_path(path: str, key: object) -> str:
    """The path of what stands under a key, which is text in JSON and may be anything in Python."""
    if not isinstance(key, str) or not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """A value as it stands in a message: text in quotes and cut, anything else by its kind."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        return '"' + cut.encode("utf-8", "replace").decode().replace("\n", "\\n") + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return str(value) if abs(value) < 10**20 else "a very large number"
    return kind_of(value)


def kind_of(value: object) -> str:
    """The kind of a JSON value in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a Python {type(value).__name__}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant: at most a third of it is different; None when there is none."""
    plain = word.lower().replace("-", "_")
    best, least = None, len(word) + 1
    for one in sorted(known):
        room = max(1, len(one) // 3)
        if len(one) <= _LONGEST_GUESS and abs(len(one) - len(plain)) <= room:
            edits = _edits(plain, one.lower())
            if edits <= room and edits < least:
                best, least = one, edits
    return best


@lru_cache(4_096)
def _edits(left: str, right: str) -> int:
    """Letters to insert, remove, replace or swap with their neighbour to get from one word to the other."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def meant(word: str, known: Sequence[str]) -> str:
    """What a message adds about an unknown word: the nearest known one, else all of them."""
    near = nearest(word, known)
    if near is not None:
        return f'; did you mean "{near}"?'
    return f"; known: {', '.join(sorted(known)[:40]) or 'none'}"


def _looked_at(value: object, kind: kinds.Type, path: str, found: Found) -> Iterator[Task]:
    """What is wrong with this value itself goes to `found`; what is inside of it comes back."""
    rule = ""
    while isinstance(kind, kinds.Metadata):
        rule = rule or str(cast("Mapping[str, object]", kind.extra or _NOTHING).get("rule", ""))
        kind = kind.type
    match kind:
        case kinds.UnionType():
            yield from _of_a_union(value, kind, path, found)
        case kinds.StructType():
            yield from _of_a_struct(value, kind, path, found)
        case kinds.VarTupleType() | kinds.ListType():
            yield from _of_a_list(value, kind, path, found)
        case kinds.DictType():
            yield from _of_an_object(value, kind, path, found)
        case kinds.AnyType():
            pass
        case _:
            _scalar(value, kind, rule, path, found)


def _of_a_union(value: object, kind: kinds.UnionType, path: str, found: Found) -> Iterator[Task]:
    if value is None and any(isinstance(one, kinds.NoneType) for one in kind.types):
        return
    structs = [one for one in kind.types if isinstance(one, kinds.StructType)]
    if len(structs) > 1 and kind_of(value) == "an object":
        yield from _of_tagged(cast("Mapping[str, object]", value), structs, path, found)
        return
    for one in kind.types:
        if _words(one) in (kind_of(value), _narrower(value)):
            yield value, one, path
            return
    wanted = dict.fromkeys(_words(one) for one in kind.types if not isinstance(one, kinds.NoneType))
    found(path, f"must be {' or '.join(wanted)}, not {shown(value)}")


def _of_tagged(
    value: Mapping[str, object], structs: Sequence[kinds.StructType], path: str, found: Found
) -> Iterator[Task]:
    field = structs[0].tag_field or "type"
    tags = [str(one.tag) for one in structs]
    tag = value.get(field)
    if tag is None:
        found(path, f'"{field}" is missing: one of {", ".join(tags)}')
        return
    probable = nearest(tag, tags) if isinstance(tag, str) else None
    if tag not in tags:
        hint = meant(tag, tags) if isinstance(tag, str) else f"; known: {', '.join(tags)}"
        found(key_path(path, field), f"unknown {field} {shown(tag)}{hint}")
    if probable is not None:
        # What was probably meant is looked at, too, so that one answer names the faults inside as well.
        yield value, structs[tags.index(probable)], path


def read_keys(given: Mapping[object, object] | Mapping[str, object], allowed: Sequence[str]) -> dict[str, str]:
    """Each key of an object with the allowed one that it is or was probably meant to be; "" for a key without such a one."""
    free = [one for one in allowed if one not in given]
    meanings: dict[str, str] = {}
    guesses = 0
    for key in given:
        if not isinstance(key, str):
            continue  # said by `raw_problems`; so are other keys that are no text
        if key in allowed:
            meanings[key] = key
            continue
        guesses += 1
        near = nearest(key, free) if guesses <= _MOST_GUESSES else None
        if near in free:
            free.remove(near)
        meanings[key] = near or ""
    return meanings


def _of_a_struct(value: object, kind: kinds.StructType, path: str, found: Found) -> Iterator[Task]:
    if not isinstance(value, Mapping):
        if not isinstance(value, kind.cls):
            found(path, f"must be an object, not {shown(value)}")
        return
    given = cast("Mapping[str, object]", value)
    parts = {part.encode_name: part for part in kind.fields}
    allowed = [*parts, kind.tag_field] if kind.tag_field else list(parts)
    meanings = read_keys(given, allowed)
    for key, name in meanings.items():
        if key != name or not name:
            hint = f'did you mean "{name}"?' if name else f"allowed: {', '.join(sorted(allowed))}"
            found(path, f"unknown key {shown(key)}; {hint}")
    meant_names = set(meanings.values())
    for name, part in parts.items():
        if part.required and name not in meant_names:
            found(path, f'"{name}" is missing')
    for key, name in meanings.items():
        if name in parts:
            yield given[key], parts[name].type, key_path(path, key)


def _of_a_list(value: object, kind: kinds.VarTupleType | kinds.ListType, path: str, found: Found) -> Iterator[Task]:
    if not isinstance(value, list | tuple):
        found(path, f"must be a list, not {shown(value)}")
        return
    given = cast("Sequence[object]", value)
    _length(len(given), kind.min_length, kind.max_length, "entries", path, found)
    for index, inner in enumerate(given):
        yield inner, kind.item_type, f"{path}[{index}]"


def _of_an_object(value: object, kind: kinds.DictType, path: str, found: Found) -> Iterator[Task]:
    if not isinstance(value, Mapping):
        found(path, f"must be an object, not {shown(value)}")
        return
    given = cast("Mapping[str, object]", value)
    _length(len(given), kind.min_length, kind.max_length, "keys", path, found)
    for key, inner in given.items():
        if isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield key, kind.key_type, key_path(path, key)
        yield inner, kind.value_type, key_path(path, key)


def _scalar(value: object, kind: kinds.Type, rule: str, path: str, found: Found) -> None:
    match kind:
        case kinds.StrType():
            if not isinstance(value, str):
                found(path, f"must be text, not {shown(value)}")
            elif kind.pattern is not None and not re.search(kind.pattern, value):
                found(path, f"must be {rule or f'like {kind.pattern}'}, not {shown(value)}")
            else:
                _length(len(value), kind.min_length, kind.max_length, "characters", path, found)
        case kinds.BoolType():
            if not isinstance(value, bool):
                found(path, f"must be true or false, not {shown(value)}")
        case kinds.IntType():
            if isinstance(value, bool) or not isinstance(value, int):
                found(path, f"must be a whole number, not {shown(value)}")
            else:
                _range(value, kind, path, found)
        case kinds.FloatType():
            if isinstance(value, bool) or not isinstance(value, int | float):
                found(path, f"must be a number, not {shown(value)}")
            elif isinstance(value, float) and not math.isfinite(value):
                found(path, "must be a finite number")
            else:
                _range(value, kind, path, found)
        case _:
            _choice(value, choices_of(kind), path, found)


def choices_of(kind: kinds.Type) -> list[str]:
    """The words that a choice allows; none when it is no choice."""
    match kind:
        case kinds.LiteralType():
            return [str(one) for one in kind.values]
        case kinds.EnumType():
            return [str(one.value) for one in kind.cls]
        case _:
            return []


def _choice(value: object, words: list[str], path: str, found: Found) -> None:
    if not isinstance(value, str) or value not in words:
        near = nearest(value, words) if isinstance(value, str) else None
        hint = f'; did you mean "{near}"?' if near else ""
        found(path, f"must be one of {', '.join(words)}, not {shown(value)}{hint}")


def _range(value: float, kind: kinds.IntType | kinds.FloatType, path: str, found: Found) -> None:
    low, high, above = kind.ge, kind.le, kind.gt
    if above is not None and value <= above:
        found(
            path, f"must be more than {above:g}{'' if high is None else f' and at most {high:g}'}, not {shown(value)}"
        )
    elif (low is not None and value < low) or (high is not None and value > high):
        found(path, f"must be {said_range(low, high)}, not {shown(value)}")


def said_range(low: float | None, high: float | None) -> str:
    """A range in words."""
    if low is None:
        return f"at most {high:,}"
    return f"{low:,} or more" if high is None else f"{low:,} to {high:,}"


def _length(size: int, low: int | None, high: int | None, what: str, path: str, found: Found) -> None:
    if low is not None and size < low:
        found(path, f"must have at least {low} {what}" if size else "must not be empty")
    elif high is not None and size > high:
        found(path, f"has {size:,} {what}, {high:,} are allowed")


def _words(kind: kinds.Type) -> str:
    """The kind of value that a type takes, in the words of `kind_of`."""
    while isinstance(kind, kinds.Metadata):
        kind = kind.type
    match kind:
        case kinds.StructType() | kinds.DictType():
            return "an object"
        case kinds.VarTupleType() | kinds.ListType():
            return "a list"
        case kinds.IntType():
            return "a whole number"
        case kinds.FloatType():
            return "a number"
        case kinds.BoolType():
            return "true or false"
        case kinds.NoneType():
            return "null"
        case _:
            return "text"


def _narrower(value: object) -> str:
    return "a whole number" if isinstance(value, int) and not isinstance(value, bool) else ""


def bounded(problems: Sequence[Problem]) -> list[Problem]:
    """At most `MAX_PROBLEMS`, each once."""
    once = list(dict.fromkeys(problems))
    if len(once) <= MAX_PROBLEMS:
        return once
    left = len(once) - MAX_PROBLEMS + 1
    return [*once[: MAX_PROBLEMS - 1], Problem("", f"and {left} more problems; correct these first")]
