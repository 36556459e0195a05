"""From a function's signature to the JSON Schema of its arguments, and from arguments back to its types.

Owns: reading annotations, the schema, the conversion. Must not know: registries, sessions, effects.
Read next: `decorator.py`.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from ..model.call_errors import ToolValidationError
from ..model.errors import ConfigError
from ..ports.tool import ToolContext
from .docstring import read_docstring

# The context is often imported for type checkers only, so its annotation has to be known by its text.
_CONTEXT_TEXT = re.compile(r"^(?:[\w.]*\bOptional\[\s*)?[\"']?(?:\w+\.)*ToolContext[\"']?(?:\s*\])?(?:\s*\|\s*None)?$")
_REF_TEMPLATE = "#/$defs/{name}"


class Parameters(NamedTuple):
    """What is known of a function's parameters."""

    schema: dict[str, Any]
    """JSON Schema (2020-12) of the arguments object."""
    types: dict[str, Any]
    """Annotated type of each argument, in order."""
    context: str | None
    """The parameter that receives the `ToolContext`; None when the function takes none."""


def read_parameters(function: Callable[..., object], tool_name: str) -> Parameters:
    """Reads a function's signature.

    Raises: `ConfigError` naming the function and each parameter that a model could not fill.
    """
    where = f"tool {tool_name!r} (function {getattr(function, '__qualname__', function)!s})"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(f"{where}: the signature cannot be read: {error}") from error
    problems: list[str] = []
    kinds: dict[str, Any] = {}
    context: str | None = None
    for name, parameter in signature.parameters.items():
        kind, problem = _annotation(function, parameter)
        if problem:
            problems.append(f"{where}: parameter {name!r} {problem}")
        elif _is_context(kind):
            if context is not None:
                problems.append(f"{where}: parameter {name!r} is a second ToolContext; one is enough")
            context = name
        else:
            kinds[name] = kind
    schema: dict[str, Any] = {}
    if not problems:
        schema, problems = _schema(function, signature, kinds, where)
    if problems:
        raise ConfigError(problems)
    return Parameters(schema, kinds, context)


def schema_of_type(kind: Any) -> dict[str, Any]:
    """JSON Schema (2020-12) of one type, its root written out and not referenced: what structured output asks for.

    Takes what parameters may be annotated with. Raises: `ConfigError` when JSON Schema cannot say it.
    """
    foreign: dict[str, Any] = {}
    try:
        (schema,), components = msgspec.json.schema_components(
            [kind], schema_hook=lambda t: _foreign_schema(t, foreign), ref_template=_REF_TEMPLATE
        )
    except (TypeError, NameError) as error:
        raise ConfigError(f"{kind!r} has no JSON Schema: {_last_line(error)}") from error
    definitions = {**foreign, **components}
    target = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    root = dict(definitions[target]) if set(schema) == {"$ref"} else dict(schema)
    if definitions.keys() - {target} or f'#/$defs/{target}"' in msgspec.json.encode(root).decode():
        root["$defs"] = definitions
    return root


def convert_arguments(kinds: Mapping[str, Any], arguments: Mapping[str, Any], tool_name: str) -> dict[str, Any]:
    """Arguments as the annotated types; those that are not given stay absent.

    Raises: `ToolValidationError` naming the path, for what a schema cannot say (a date that is none, a model's own rule).
    """
    converted: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in kinds:
            raise ToolValidationError(tool_name, f"$.{name}: there is no such argument")
        try:
            converted[name] = _convert(value, kinds[name])
        except msgspec.ValidationError as error:
            raise ToolValidationError(tool_name, _with_path(name, str(error))) from error
    return converted


def _convert(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_decode_foreign)
    except msgspec.ValidationError:
        # JSON has one kind of number: 3.0 is a valid "integer" in JSON Schema, and some models write it.
        whole = _whole_numbers(value)
        if whole == value and type(whole) is type(value) and not isinstance(value, list | dict):
            raise
        return msgspec.convert(whole, kind, dec_hook=_decode_foreign)


def _whole_numbers(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            items = typing.cast("Sequence[Any]", value)
            return [_whole_numbers(item) for item in items]
        case dict():
            fields = typing.cast("Mapping[str, Any]", value)
            return {key: _whole_numbers(item) for key, item in fields.items()}
        case _:
            return value


def _with_path(name: str, message: str) -> str:
    text, at, path = message.partition(" - at `$")
    return f"$.{name}{path.rstrip('`')}: {text}" if at else f"$.{name}: {message}"


def _annotation(function: Callable[..., object], parameter: inspect.Parameter) -> tuple[Any, str]:
    """The resolved annotation, or why there is none."""
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            return None, "is *args; a model names every argument, so list them"
        case inspect.Parameter.VAR_KEYWORD:
            return None, "is **kwargs; name the arguments, or take one `dict[str, object]`"
        case inspect.Parameter.POSITIONAL_ONLY:
            return None, "is positional-only; remove the `/`, arguments are passed by name"
        case _:
            pass
    raw = parameter.annotation
    if raw is inspect.Parameter.empty:
        return None, "has no annotation; write its type, for example `str`"
    if isinstance(raw, str) and _CONTEXT_TEXT.match(raw.strip()):
        return ToolContext, ""
    holder = types.SimpleNamespace(__annotations__={parameter.name: raw})
    target = inspect.unwrap(function)
    scope = getattr(getattr(target, "__func__", target), "__globals__", {})
    try:
        hints = typing.get_type_hints(holder, globalns=scope, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        return None, f"has an annotation that cannot be resolved ({error}); types must be visible in the module"
    return hints[parameter.name], ""


def _is_context(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Annotated:
        return _is_context(get_args(kind)[0])
    if origin is typing.Union or origin is types.UnionType:
        return any(_is_context(part) for part in get_args(kind))
    # Not issubclass: a Protocol with properties refuses it.
    return isinstance(kind, type) and ToolContext in kind.__mro__


def _schema(
    function: Callable[..., object], signature: inspect.Signature, kinds: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], list[str]]:
    foreign: dict[str, Any] = {}
    problems: list[str] = []
    for name, kind in kinds.items():
        try:
            msgspec.json.schema_components([kind], schema_hook=lambda t: _foreign_schema(t, foreign))
        except (TypeError, NameError) as error:
            problems.append(f"{where}: parameter {name!r} has a type that JSON Schema cannot say: {_last_line(error)}")
    if problems:
        return {}, problems
    schemas, components = msgspec.json.schema_components(
        list(kinds.values()), schema_hook=lambda t: _foreign_schema(t, foreign), ref_template=_REF_TEMPLATE
    )
    docs = read_docstring(function.__doc__).parameters
    properties: dict[str, Any] = {}
    for name, schema in zip(kinds, schemas, strict=True):
        entry = dict(schema)
        if name in docs:
            entry.setdefault("description", docs[name])
        default = signature.parameters[name].default
        if default is not inspect.Parameter.empty and _is_json(default):
            entry.setdefault("default", default)
        properties[name] = entry
    required = [name for name in kinds if signature.parameters[name].default is inspect.Parameter.empty]
    result: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        result["required"] = required
    result["additionalProperties"] = False
    if components or foreign:
        result["$defs"] = {**foreign, **components}
    return result, []


def _last_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__


def _is_json(value: Any) -> bool:
    """True for defaults that mean the same in JSON; an enum member or a path stays out of the schema."""
    match value:
        case None | bool() | str() | int() | float():
            return type(value) in (type(None), bool, str, int) or (type(value) is float and math.isfinite(value))
        case list():
            items = typing.cast("Sequence[Any]", value)
            return all(_is_json(item) for item in items)
        case dict():
            fields = typing.cast("Mapping[Any, Any]", value)
            return all(type(key) is str and _is_json(item) for key, item in fields.items())
        case _:
            return False


def _is_path(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)


def _foreign_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Schemas of types that msgspec does not know: paths, and pydantic models by their own method."""
    if _is_path(kind):
        return {"type": "string"}
    own = getattr(kind, "model_json_schema", None)
    if own is None:
        raise NotImplementedError
    # A prefix per model keeps two models' inner types of one name apart.
    prefix = f"{kind.__name__}."
    schema: dict[str, Any] = own(ref_template=f"#/$defs/{prefix}{{model}}")
    inner: dict[str, Any] = schema.pop("$defs", {})
    definitions.update({f"{prefix}{name}": definition for name, definition in inner.items()})
    if set(schema) == {"$ref"}:
        return schema
    definitions[kind.__name__] = schema
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _decode_foreign(kind: Any, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if _is_path(kind) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError
