"""Templates of workflows: `{{input}}`, `{{node.key}}`, foreach variables; found, and replaced by values.

Owns: what a placeholder is, which ones a text holds, and rendering. Must not know: where values come from.
A value is data: what it contains is never looked at again, so no output of a model can pull in another one.
Read next: `workflow_conditions.py`, `workflow_check.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from ..model.agent_spec import MAX_PROMPT_CHARS
from ..model.family_errors import RenderedTooLargeError

MAX_RENDERED_CHARS: Final = MAX_PROMPT_CHARS
"""Characters that one rendered text, or all texts of one rendered value together, may have; a prompt may have as many."""

MAX_KEYS: Final = 15
"""Keys after the first name of a reference."""

_PLACEHOLDER: Final = re.compile(
    r"\{\{[ \t]{0,8}([A-Za-z][A-Za-z0-9_-]{0,63}+(?:\.[A-Za-z0-9_-]{1,64}+){0,15}+)[ \t]{0,8}\}\}"
)


class Missing(Enum):
    """The value of a name that nobody knows."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

Path: TypeAlias = tuple[str, ...]
"""A reference in parts: ("node", "key", "0")."""

Lookup: TypeAlias = Callable[[Path], object]
"""The value of a reference, `MISSING` when its first name is unknown. A step that failed, was skipped or did not run, and
a key that its output does not have, give a `NoOutput`: what comes after must see that, and not an empty text."""


class NoOutput(Struct, frozen=True):
    """What stands in for the output of a step that has none."""

    node: str
    how: Literal["failed", "skipped", "not_run", "no_key", "first"]
    """`first`: of a loop in its first iteration, where it is empty text."""
    error: str = ""
    """Why it failed, or the key that its output does not have."""

    def __str__(self) -> str:
        match self.how:
            case "failed":
                why = f": {self.error[:2_000]}" if self.error else ""
                return f"[{self.node} failed and gave no output{why}]"
            case "no_key":
                return f"[the output of {self.node} has no {self.error}]"
            case "first":
                return ""
            case "skipped":
                return f"[{self.node} was skipped and gave no output]"
            case _:
                return f"[{self.node} did not run and gave no output]"


def path_of(reference: str) -> Path:
    """A reference in its parts."""
    return tuple(reference.split("."))


def references_of(text: str) -> list[Path]:
    """The placeholders of a text, in order and as often as they stand there."""
    return [path_of(found) for found in _PLACEHOLDER.findall(text)]


def references_in(value: object) -> Iterator[Path]:
    """The placeholders of all texts in a JSON value; keys of objects are no templates."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield from references_of(one)
        elif isinstance(one, Mapping):
            waiting.extend(reversed(list(cast("Mapping[str, object]", one).values())))
        elif isinstance(one, list | tuple):
            waiting.extend(reversed(cast("Sequence[object]", one)))


def value_at(value: object, path: Path) -> object:
    """What the keys of a path lead to in the value of its first name: keys of objects, numbers of lists from 0.

    A `NoOutput` that says so when there is nothing, and when the value, or something on the way, is one.
    """
    for key in path[1:]:
        if isinstance(value, NoOutput):
            return value
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(key, MISSING)
        elif isinstance(value, list | tuple) and key.isascii() and key.isdigit():
            entries = cast("Sequence[object]", value)
            value = entries[int(key)] if len(key) < 8 and int(key) < len(entries) else MISSING
        else:
            value = MISSING
        if value is MISSING:
            return NoOutput(path[0], "no_key", ".".join(path[1:]))
    return value


def lookup_in(values: Mapping[str, object]) -> Lookup:
    """Looks references up in values by their first names."""
    return lambda path: value_at(values[path[0]], path) if path[0] in values else MISSING


def render(text: str, lookup: Lookup, *, limit: int = MAX_RENDERED_CHARS) -> str:
    """The text with its placeholders replaced; those of unknown names stay as they are.

    Text values stand as they are, other values as JSON. Raises `RenderedTooLargeError` before more than `limit` characters
    were put together.
    """
    return _rendered(text, lookup, _Room(limit))


def render_value(value: object, lookup: Lookup, *, limit: int = MAX_RENDERED_CHARS) -> object:
    """A copy of a JSON value with all texts in it rendered; a text that is exactly one placeholder becomes the value itself.

    `limit` counts the rendered texts and values together. The value was bounded in depth by the check of its spec.
    """
    return _valued(value, lookup, _Room(limit))


def with_outputs(text: str, outputs: Sequence[tuple[str, object]], *, limit: int = MAX_RENDERED_CHARS) -> str:
    """An input with outputs below it, each under its reference; bounded as `render` is."""
    room = _Room(limit)
    parts = [room.take(text)]
    for reference, value in outputs:
        parts.append(room.take(f"\n\n--- context: {reference} ---\n"))
        parts.append(room.take(text_of(value)))
    return "".join(parts)


def text_of(value: object) -> str:
    """A value as it stands in a text: text itself, other values as JSON."""
    plain = _plain(value)
    return plain if isinstance(plain, str) else _JSON.encode(plain).decode()


_JSON = msgspec.json.Encoder()


class _Room:
    """Characters that may still be written."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def take(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise RenderedTooLargeError(self._limit)
        return text


def _rendered(text: str, lookup: Lookup, room: _Room) -> str:
    parts: list[str] = []
    # What one placeholder gave is kept: a text may say it a thousand times. None: nobody knows it.
    known: dict[str, str | None] = {}
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        parts.append(room.take(text[end : found.start()]))
        reference = found[1]
        if reference not in known:
            value = lookup(path_of(reference))
            known[reference] = None if value is MISSING else text_of(value)
        given = known[reference]
        parts.append(room.take(found[0] if given is None else given))
        end = found.end()
    parts.append(room.take(text[end:]))
    return "".join(parts)


def _valued(value: object, lookup: Lookup, room: _Room) -> object:
    match value:
        case str():
            whole = _PLACEHOLDER.fullmatch(value)
            if whole is None:
                return _rendered(value, lookup, room)
            found = lookup(path_of(whole[1]))
            if found is MISSING:
                return room.take(value)
            room.take(text_of(found))
            return _plain(found)
        case Mapping():
            given = cast("Mapping[str, object]", value)
            return {key: _valued(inner, lookup, room) for key, inner in given.items()}
        case list() | tuple():
            return [_valued(inner, lookup, room) for inner in cast("Sequence[object]", value)]
        case _:
            return value


def _plain(value: object) -> object:
    """A value with the text of what failed in place of it."""
    match value:
        case NoOutput():
            return str(value)
        case Mapping():
            return {key: _plain(inner) for key, inner in cast("Mapping[str, object]", value).items()}
        case list() | tuple():
            return [_plain(inner) for inner in cast("Sequence[object]", value)]
        case _:
            return value
