"""What a typed text means as an answer: to a question, or to one field of a form.

Owns: the fields of a schema, text to value. Must not know: terminals, sessions.
Read next: `keyboard_questions.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from msgspec import Struct

from ..core.questions import answer_problem
from ..model.records import Interaction
from ..tools.validation import schema_problems
from .journal_lines import one_line

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "several", "json"]

YES_OR_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}

_WORDS: Final[dict[FieldKind, str]] = {
    "text": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "yes or no",
    "choice": "one of them",
    "several": "some of them, with commas",
    "json": "JSON",
}


class Choice(Struct, frozen=True):
    """One of several values, and how people see it."""

    value: Any
    label: str


class Field(Struct, frozen=True, kw_only=True):
    """One value of a form."""

    name: str
    kind: FieldKind
    title: str = ""
    about: str = ""
    choices: tuple[Choice, ...] = ()
    needed: bool = False
    has_default: bool = False
    default: Any = None
    bounds: str = ""

    @property
    def hint(self) -> str:
        """What may be typed, in a few words."""
        left = "needed" if self.needed else "" if self.has_default else "may be left out"
        return ", ".join([part for part in (_WORDS[self.kind], self.bounds, left) if part])


def fields_of(schema: Mapping[str, Any] | None) -> tuple[Field, ...]:
    """The fields of a form in their order; none where the schema is no object with properties."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return ()
    required = (schema or {}).get("required") or ()
    named = cast("Mapping[str, Any]", properties)
    return tuple([_field(str(name), given, name in required) for name, given in named.items()])


def _field(name: str, given: Any, needed: bool) -> Field:
    schema = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    kind, choices = _kind_of(schema)
    return Field(
        name=name,
        kind=kind,
        title=str(schema.get("title") or ""),
        about=str(schema.get("description") or ""),
        choices=choices,
        needed=needed,
        has_default="default" in schema,
        default=schema.get("default"),
        bounds=_bounds(schema),
    )


def _kind_of(schema: Mapping[str, Any]) -> tuple[FieldKind, tuple[Choice, ...]]:
    if choices := _choices(schema):
        return "choice", choices
    match schema.get("type"):
        case "string":
            return "text", ()
        case "number" | "integer" | "boolean" as kind:
            return cast("FieldKind", kind), ()
        case "array" if isinstance(schema.get("items"), dict) and (choices := _choices(schema["items"])):
            return "several", choices
        case _:
            return "json", ()


def _choices(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Those of `enum`, with `enumNames` where there are any, or of `oneOf` and `anyOf` whose branches are constants."""
    if values := _list(schema.get("enum")):
        names = _list(schema.get("enumNames"))
        labels = names if len(names) == len(values) else values
        return tuple([Choice(value, _label(label)) for value, label in zip(values, labels, strict=True)])
    for word in ("oneOf", "anyOf"):
        branches = _list(schema.get(word))
        given = [cast("dict[str, Any]", one) for one in branches if isinstance(one, dict) and "const" in one]
        if given and len(given) == len(branches):
            return tuple([Choice(one["const"], _label(one.get("title", one["const"]))) for one in given])
    return ()


def _list(value: Any) -> list[Any]:
    """The value where it is a list; schemas of strangers may hold anything."""
    return [*value] if type(value) is list else []


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bounds(schema: Mapping[str, Any]) -> str:
    said = [
        f"{word} {schema[name]}" for name, word in (("minimum", "at least"), ("maximum", "at most")) if name in schema
    ]
    for name, word in (("minLength", "at least"), ("maxLength", "at most")):
        said += [f"{word} {schema[name]} characters"] if schema.get(name) else []
    said += [str(schema["format"])] if isinstance(schema.get("format"), str) else []
    return ", ".join(said)


def value_of(field: Field, text: str) -> Any:
    """The value that a typed text means for a field. Raises `ValueError` saying what may be typed."""
    if field.kind == "text":
        return text
    text = text.strip()
    match field.kind:
        case "choice":
            return chosen(field.choices, text)
        case "several":
            return [chosen(field.choices, part.strip()) for part in text.split(",") if part.strip()]
        case "boolean":
            if (value := YES_OR_NO.get(text.lower())) is None:
                raise ValueError("yes or no")
            return value
        case "integer":
            return _number(text, whole=True)
        case "number":
            return _number(text, whole=False)
        case _:
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError(f"that is not JSON: {error}") from error


def _number(text: str, *, whole: bool) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a whole number" if whole else "a number") from None
    if whole or value != value or value in (float("inf"), float("-inf")):
        raise ValueError("a whole number" if whole else "a number")
    return value


def chosen(choices: Sequence[Choice], text: str) -> Any:
    """The choice with this label, this number from 1, or the only one that begins like this. Raises `ValueError`."""
    for fits in (
        [one for one in choices if one.label == text],
        [one for one in choices if one.label.lower() == text.lower()],
        [choices[int(text) - 1]] if text.isdecimal() and 0 < int(text[:9]) <= len(choices) else [],
        [one for one in choices if text and one.label.lower().startswith(text.lower())],
    ):
        if len(fits) == 1:
            return fits[0].value
    raise ValueError(f"one of {one_line(', '.join([one.label for one in choices]), 200)}")


def choices_of(question: Interaction) -> tuple[Choice, ...]:
    """What may be chosen, where the answer is one of several values."""
    if question.options:
        return tuple([Choice(option, option) for option in question.options])
    return () if question.schema is None else _choices(question.schema)


def answer_from_text(question: Interaction, line: str) -> Any:
    """The value that a text means as the answer. Raises `ValueError` saying what may be typed, or what does not fit."""
    return fitting(question, _meant(question, line))


def _meant(question: Interaction, line: str) -> Any:
    text = line.strip()
    if question.kind == "elicitation":
        return _elicited(question, text)
    if question.kind == "confirm":
        return value_of(Field(name="", kind="boolean"), text)
    if choices := choices_of(question):
        return chosen(choices, text)
    if question.kind == "form" or (question.schema or {}).get("type") == "object":
        return _form(question, text)
    kind = (question.schema or {}).get("type")
    if kind in ("number", "integer", "boolean", "array"):
        return value_of(Field(name="", kind="json" if kind == "array" else kind), text)
    return text


def _form(question: Interaction, text: str) -> Any:
    """A JSON object, or the value of the only field."""
    fields = fields_of(question.schema)
    try:
        value: Any = json.loads(text)
    except ValueError:
        if len(fields) != 1:
            names = ", ".join([field.name for field in fields]) or "its fields"
            raise ValueError(f"a JSON object with {names}") from None
        return {fields[0].name: value_of(fields[0], text)}
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {fields[0].name: value_of(fields[0], text)} if len(fields) == 1 else value


def _elicited(question: Interaction, text: str) -> Any:
    if text.lower() in ("decline", "cancel"):
        return {"action": text.lower()}
    if not fields_of(question.schema) and not text.startswith("{"):
        return {"action": "accept" if value_of(Field(name="", kind="boolean"), text) else "decline"}
    content = _form(question, text)
    if isinstance(content, dict) and "action" in content:
        return cast("dict[str, Any]", content)
    answered: dict[str, Any] = {"action": "accept", "content": content}
    return answered


def answer_from_fields(question: Interaction, given: Sequence[str]) -> Any:
    """The form that `name=value` texts fill. Raises `ValueError`."""
    fields = {field.name: field for field in fields_of(question.schema)}
    if not fields:
        raise ValueError("the question has no fields; give one value")
    form: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"{one_line(text, 60)!r}: write name=value with a name of {', '.join(fields)}")
        try:
            form[name] = value_of(fields[name], value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    for field in fields.values():
        if field.has_default:
            form.setdefault(field.name, field.default)
    return fitting(question, {"action": "accept", "content": form} if question.kind == "elicitation" else form)


def fitting(question: Interaction, value: Any) -> Any:
    """The value. Raises `ValueError` with what does not fit."""
    if question.kind != "approval" and (why := answer_problem(question, value, schema_problems)) is not None:
        raise ValueError(one_line(why, 300))
    return value
