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


class NoOutput:
    """What stands in for the output of a step that has none. No type that the encoder knows: there it is its text."""

    __slots__ = ("error", "how", "node")

    def __init__(
        self, node: str, how: Literal["failed", "skipped", "not_run", "no_key", "first"], error: str = ""
    ) -> None:
        self.node = node
        self.how = how
        """`first`: of a loop in its first iteration, where it is empty text."""
        self.error = error
        """Why it failed, or the key that its output does not have."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoOutput) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return f"NoOutput{self._parts()!r}"

    def _parts(self) -> tuple[str, str, str]:
        return self.node, self.how, self.error

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
    return _Rendering(lookup, limit).text(text)


def render_value(value: object, lookup: Lookup, *, limit: int = MAX_RENDERED_CHARS) -> object:
    """A copy of a JSON value with all texts in it rendered; a text that is exactly one placeholder becomes the value itself.

    `limit` counts the rendered texts and values together. The value was bounded in depth by the check of its spec.
    """
    return _Rendering(lookup, limit).value(value)


def with_outputs(text: str, outputs: Sequence[tuple[str, object]], *, limit: int = MAX_RENDERED_CHARS) -> str:
    """An input with outputs below it, each under its reference; bounded as `render` is."""
    room = _Rendering(lambda _: MISSING, limit)
    parts = [room.take(text)]
    for reference, value in outputs:
        parts.append(room.take(f"\n\n--- context: {reference} ---\n"))
        parts.append(room.take(text_of(value)))
    return "".join(parts)


def text_of(value: object) -> str:
    """A value as it stands in a text: text itself, other values as JSON."""
    if isinstance(value, str | NoOutput):
        return str(value)
    return _JSON.encode(value).decode()


def _encodable(value: object) -> object:
    """What the encoder does not know: what failed as the text that says so, objects that are no dict."""
    if isinstance(value, NoOutput):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


_JSON = msgspec.json.Encoder(enc_hook=_encodable)


class _Rendering:
    """One rendering: the characters that may still be written, and what placeholders gave.

    What one gave is kept: a text may say it a thousand times, and making the text of a large value takes time.
    """

    def __init__(self, lookup: Lookup, limit: int) -> None:
        self._lookup = lookup
        self._limit = limit
        self._left = limit
        self._texts: dict[str, str | None] = {}
        """None: nobody knows it."""
        self._values: dict[str, object] = {}

    def take(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise RenderedTooLargeError(self._limit)
        return text

    def text(self, text: str) -> str:
        parts: list[str] = []
        end = 0
        for found in _PLACEHOLDER.finditer(text):
            parts.append(self.take(text[end : found.start()]))
            given = self._given(found[1])
            parts.append(self.take(found[0] if given is None else given))
            end = found.end()
        parts.append(self.take(text[end:]))
        return "".join(parts)

    def value(self, value: object) -> object:
        match value:
            case str():
                whole = _PLACEHOLDER.fullmatch(value)
                return self.text(value) if whole is None else self._whole(value, whole[1])
            case Mapping():
                given = cast("Mapping[str, object]", value)
                return {key: self.value(inner) for key, inner in given.items()}
            case list() | tuple():
                return [self.value(inner) for inner in cast("Sequence[object]", value)]
            case _:
                return value

    def _given(self, reference: str) -> str | None:
        if reference not in self._texts:
            value = self._lookup(path_of(reference))
            self._texts[reference] = None if value is MISSING else text_of(value)
        return self._texts[reference]

    def _whole(self, said: str, reference: str) -> object:
        """What a text that is nothing but this placeholder becomes."""
        given = self._given(reference)
        if given is None:
            return self.take(said)
        self.take(given)
        if reference not in self._values:
            value = self._lookup(path_of(reference))
            # By way of its JSON: that has the text of what failed in place of it, at any depth.
            plain = given if isinstance(value, str | NoOutput) else msgspec.json.decode(given)
            self._values[reference] = plain
        return self._values[reference]
