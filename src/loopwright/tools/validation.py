"""Complete JSON Schema validation of what a model wrote: the one adapter to `jsonschema_rs`.

Owns: compiling schemas and saying in one short line what does not fit. Must not know: tools, registries.
Loading the library costs tens of milliseconds, so nothing imports this module at start; see `registry.py`.
Read next: `docs/decisions/0003-json-schema-validator.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import jsonschema_rs
from msgspec import json

from ..model.errors import ConfigError

MAX_PROBLEMS = 10
"""More problems than this are counted, not listed."""
MAX_PROBLEM_CHARS = 240
"""A message repeats the offending value; it is cut here."""

_CACHE_SIZE = 256


class CompiledSchema:
    """One schema, ready to check values; safe to share between threads."""

    __slots__ = ("_validator",)

    def __init__(self, schema: dict[str, Any] | bool) -> None:
        try:
            # Offline: a schema may come from a tool server, and a `$ref` in it must not make us fetch addresses.
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"not a valid JSON Schema: {_first_line(error)}") from error

    def problems(self, value: Any) -> str | None:
        """Every problem of `value` with its JSON path, at most ten; None when it fits."""
        try:
            if self._validator.is_valid(value):
                return None
            return _describe(self._validator, value)
        except UnicodeEncodeError:
            # The library works on UTF-8; a lone surrogate is a legal JSON string, so a stand-in of the same length is checked.
            return self.problems(_without_surrogates(value))
        except (ValueError, TypeError, RecursionError) as error:
            return f"$: cannot be checked: {_first_line(error)}"


_compiled: dict[bytes, CompiledSchema] = {}


def schema_problems(schema: dict[str, Any], value: Any) -> str | None:
    """`CompiledSchema(schema).problems(value)` with the compiled form kept for the next call.

    Raises: `ConfigError` when the schema itself is not valid.
    """
    key = json.encode(schema)
    found = _compiled.get(key)
    if found is None:
        found = CompiledSchema(schema)
        if len(_compiled) >= _CACHE_SIZE:
            _compiled.pop(next(iter(_compiled)), None)
        _compiled[key] = found
    return found.problems(value)


def _describe(validator: jsonschema_rs.Validator, value: Any) -> str:
    lines: list[str] = []
    more = 0
    for error in validator.iter_errors(value):
        for path, message in _causes(error):
            if len(lines) < MAX_PROBLEMS:
                lines.append(_cut(f"{json_path(path)}: {message}"))
            else:
                more += 1
    if more:
        lines.append(f"and {more} more")
    return "; ".join(lines)


def _causes(error: jsonschema_rs.ValidationError) -> list[tuple[Sequence[str | int], str]]:
    """What is wrong behind "fits none of several": the branch that got furthest was most probably meant."""
    branches: list[list[jsonschema_rs.ValidationError]] = getattr(error.kind, "context", [])
    here = len(error.instance_path)
    furthest = max(branches, key=_depth) if branches else []
    if furthest and _depth(furthest) > here:
        return [cause for inner in furthest for cause in _causes(inner)]
    if branches and all(branches):
        message = " and ".join(dict.fromkeys(_cut(_first_line(branch[0]), 100) for branch in branches[:MAX_PROBLEMS]))
        return [(error.instance_path, message)]
    return [(error.instance_path, _first_line(error))]


def _depth(errors: list[jsonschema_rs.ValidationError]) -> int:
    return max((len(error.instance_path) for error in errors), default=0)


def json_path(parts: Sequence[str | int]) -> str:
    """`$.items[3].name`; a key that is not a word is quoted."""
    path = "$"
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier():
            path += f".{part}"
        else:
            path += f"[{json.encode(part).decode()}]"
    return path


def _first_line(error: BaseException) -> str:
    text = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return text.strip().partition("\n")[0]


def _cut(text: str, limit: int = MAX_PROBLEM_CHARS) -> str:
    if len(text) <= limit:
        return text
    # The path stands in front and what was expected at the end, so the repeated value in the middle goes.
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            items = cast("Sequence[Any]", value)
            return [_without_surrogates(item) for item in items]
        case dict():
            fields = cast("Mapping[Any, Any]", value)
            return {_without_surrogates(key): _without_surrogates(item) for key, item in fields.items()}
        case _:
            return value
